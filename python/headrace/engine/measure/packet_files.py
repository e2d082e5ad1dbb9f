"""Files of a query and where they are: which file a worker's next packet is from.

The order is that of PROOF's TPacketizerAdaptive (root-project/root, proof/proofplayer/src): a
worker stays on its file, then takes files of its own node, and helps with the files of others when
its node has none left. It then takes the server with the fewest readers, and of equal ones that
with the most events left (`TFileNode::Compare`). At most so many workers read from a server
(`PROOF_MaxSlavesPerNode`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class FilePlace:
    """Where a file is."""

    servers: tuple[str, ...] = ()
    """Servers that hold it: names of nodes, or addresses. Empty if unknown."""
    local: Mapping[str, str] = field(default_factory=dict[str, str])
    """Path of the file on a node, which bypasses the server, by name of the node."""
    only_on: frozenset[str] | None = None
    """Names of the nodes that can read it at all; None: all."""

    @property
    def nodes(self) -> frozenset[str]:
        """Names under which it is local to a worker."""
        return frozenset(self.servers).union(self.local)

    def readable_on(self, node: str) -> bool:
        """Return whether workers of a node can read it."""
        return self.only_on is None or node in self.only_on


UNKNOWN = FilePlace()


@dataclass(eq=False)
class QueryFile:
    """A file of the query, and how much of it was handed out."""

    path: str
    events: int
    place: FilePlace = UNKNOWN
    next_event: int = 0
    readers: int = 0

    @property
    def left(self) -> int:
        """Events that were not handed out."""
        return self.events - self.next_event

    def is_local(self, node: str) -> bool:
        """Return whether it is on a node. Workers of an unnamed node are on none."""
        return bool(node) and node in self.place.nodes

    def path_on(self, node: str) -> str:
        """Return the path or URL by which a worker of a node reads it."""
        return self.place.local.get(node, self.path) if node else self.path


class Readers:
    """How many workers read from each server, and the limit."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._of: Counter[str] = Counter()

    def server(self, file: QueryFile, node: str) -> str | None:
        """Return the server from which a worker of a node reads a file, or None if all are full.

        That of its own node first, then that with the fewest readers. A file without a known
        server is on one that has no name.
        """
        servers = file.place.servers or ("",)
        if node in servers and self.has_room(node):
            return node
        found = min(servers, key=lambda server: self._of[server])
        return found if self.has_room(found) else None

    def has_room(self, server: str) -> bool:
        """Return whether one more worker may read from a server."""
        return self._limit is None or self._of[server] < self._limit

    def count(self, server: str) -> int:
        """Return the number of workers that read from a server."""
        return self._of[server]

    def begin(self, file: QueryFile, server: str) -> None:
        """Count a reader of a file."""
        file.readers += 1
        self._of[server] += 1

    def end(self, file: QueryFile, server: str) -> None:
        """Count a reader less."""
        file.readers -= 1
        self._of[server] -= 1


def choose(
    files: Sequence[QueryFile], readers: Readers, node: str, current: QueryFile | None
) -> QueryFile | None:
    """Return the file for the next packet of a worker on a node; None if there is none for it."""
    ready = [file for file in files if file.left and file.place.readable_on(node)]
    ready = [file for file in ready if readers.server(file, node) is not None]
    local = [file for file in ready if file.is_local(node)]
    if current is not None and current.readers == 0 and current in (local or ready):
        return current
    if local:
        return min(local, key=lambda file: (file.readers, -file.left))
    left = _left_by_server(ready)

    def need(file: QueryFile) -> tuple[int, int, int, int]:
        server = readers.server(file, node) or ""
        return readers.count(server), -left[server], file.readers, -file.left

    return min(ready, key=need, default=None)


def _left_by_server(files: Iterable[QueryFile]) -> Counter[str]:
    left: Counter[str] = Counter()
    for file in files:
        for server in file.place.servers or ("",):
            left[server] += file.left
    return left
