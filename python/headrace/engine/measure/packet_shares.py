"""A static split: the events of a query divided among its workers before they start.

Where every file is local to some worker's node, each node's workers share the files of their node;
otherwise all workers share all files. Shares are equal in events, up to whole clusters.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.engine.measure.packet_files import QueryFile


@dataclass(frozen=True)
class Range:
    """A run of events of one file."""

    file: QueryFile
    first_event: int
    events: int


def shares(
    files: Sequence[QueryFile], homes: Sequence[str], cluster_events: int
) -> list[deque[Range]]:
    """Return the ranges of each worker; `homes`: the node of each."""
    found = [deque[Range]() for _ in homes]
    for node, group in _by_node(files, homes).items():
        workers = [number for number, home in enumerate(homes) if node is None or home == node]
        for worker, share in zip(workers, _cut(group, len(workers), cluster_events), strict=True):
            found[worker] += share
    return found


def _by_node(files: Sequence[QueryFile], homes: Sequence[str]) -> dict[str | None, list[QueryFile]]:
    """Return the files that the workers of each node share; None: those of all nodes.

    A file that no worker can read is left out.
    """
    nodes = list(dict.fromkeys(homes))
    at_home = all(any(file.is_local(node) for node in nodes) for file in files)
    found: dict[str | None, list[QueryFile]] = {}
    given: Counter[str] = Counter()
    for file in files:
        if not at_home and file.place.only_on is None:
            found.setdefault(None, []).append(file)
            continue
        able = [node for node in nodes if file.place.readable_on(node)]
        able = [node for node in able if file.is_local(node)] or able
        if able:
            node = min(able, key=lambda each: given[each])
            given[node] += file.events
            found.setdefault(node, []).append(file)
    return found


def _cut(files: Sequence[QueryFile], workers: int, cluster_events: int) -> list[list[Range]]:
    """Return equal shares of consecutive events; each file starts with a whole cluster."""
    total = sum(file.events for file in files)
    bounds = [total * number // workers for number in range(1, workers)]
    found: list[list[Range]] = [[] for _ in range(workers)]
    before = 0
    for file in files:
        ends = [_whole(bound - before, cluster_events, file.events) for bound in bounds]
        starts = [0, *ends]
        for share, first, stop in zip(found, starts, [*ends, file.events], strict=True):
            if stop > first:
                share.append(Range(file, first, stop - first))
        before += file.events
    return found


def _whole(events: int, cluster_events: int, most: int) -> int:
    """Return the nearest end of a cluster, between 0 and the end of the file."""
    wanted = min(max(events, 0), most)
    below = wanted // cluster_events * cluster_events
    above = min(below + cluster_events, most)  # a file may end with a shorter cluster
    return above if wanted - below >= above - wanted else below
