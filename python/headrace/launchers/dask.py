"""Jobs on the workers of a running Dask cluster: `on = "dask://HOST:PORT"`, a worker for each node.

Dask carries the streams of node processes, which its workers start (`headrace.launchers.remote`);
the engine decides which job runs where, as on one machine. Beyond loopback Dask must be
configured for TLS (`distributed.comm.tls` in its configuration), and only then is it used.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from typing_extensions import override

from headrace.errors import HeadraceError
from headrace.launchers import NodesWanted
from headrace.launchers.remote.connection import NodeConnection, Streams
from headrace.launchers.remote.dask_client import client_of, require_headrace, workers_of
from headrace.launchers.remote.dask_nodes import check_versions, streams
from headrace.launchers.remote.launcher import RemoteLauncher
from headrace.system.journal import Journal

if TYPE_CHECKING:
    from distributed import Client


class Dask(RemoteLauncher):
    """Runs jobs on the workers of a Dask cluster."""

    kind = "dask"
    address_form = "dask://HOST:PORT"

    @override
    @classmethod
    def check(cls, wanted: NodesWanted) -> tuple[str, str] | None:
        try:
            with client_of(wanted.address) as client:
                require_headrace(client, _workers(client, len(wanted.clients)))
        except HeadraceError as error:
            return error.message, error.hint or ""
        return None

    @override
    @classmethod
    def node_count(cls, address: str) -> int:
        with client_of(address, "--on") as client:
            return max(1, len(workers_of(client)))

    @override
    @contextmanager
    def connect(self, journal: Journal, wanted: NodesWanted) -> Generator[list[NodeConnection]]:
        with ExitStack() as stack:
            names = [node.name for node in wanted.clients]
            cluster = stack.enter_context(_Cluster(wanted.address, wanted.silence_s))
            cluster.choose(names)
            found: list[NodeConnection] = []
            for name in names:
                connection = cluster.connected(name)
                stack.callback(connection.close)
                found.append(connection)
            yield found


class _Cluster:
    """The user's cluster, and which worker each node has."""

    def __init__(self, address: str, silence_s: float) -> None:
        self._address = address
        self._silence_s = silence_s
        self._client = client_of(address, silence_s=silence_s)
        self._worker: dict[str, str] = {}
        """Address of the worker of each node."""

    def choose(self, names: Sequence[str]) -> None:
        """Choose a worker for each node. Raises HeadraceError when there are fewer."""
        self._worker = dict(zip(names, _workers(self._client, len(names)), strict=True))

    def connected(self, name: str) -> NodeConnection:
        """Start the process of a node."""
        start = streams(self._client, name, self._worker[name])
        return NodeConnection(name, *start, lambda: self._again(name))

    def _again(self, name: str) -> Streams:
        """Start a lost node anew: on its worker if that is still there, or on one without a node.

        Raises HeadraceError when there is none; also a scheduler may have been started anew.
        """
        try:
            there = workers_of(self._client)
        except Exception:  # whatever a client raises whose scheduler has gone
            self.__exit__()
            self._client = client_of(self._address, silence_s=self._silence_s)
            there = workers_of(self._client)
        others = {worker for node, worker in self._worker.items() if node != name}
        free = [worker for worker in sorted(there) if worker not in others]
        if self._worker[name] in there:
            free.insert(0, self._worker[name])
        if not free:
            raise HeadraceError(f"its worker {self._worker[name]} is gone, and no other is free")
        check_versions(self._client, free[:1])
        found = streams(self._client, name, free[0])
        self._worker[name] = free[0]
        return found

    def __enter__(self) -> _Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Exception):  # its scheduler may be gone
            self._client.close(timeout=_CLOSE_S)


_CLOSE_S = 10.0


def _workers(client: Client, count: int) -> list[str]:
    """Return the addresses of this many workers, on as many hosts as there are.

    Raises HeadraceError when there are fewer, or when a worker has no Headrace.
    """
    workers = workers_of(client)
    by_host: dict[str, list[str]] = {}
    for address, facts in sorted(workers.items()):
        by_host.setdefault(facts["host"], []).append(address)
    # The first of every host, then the second of each …
    rounds = sorted(
        (number, address) for each in by_host.values() for number, address in enumerate(each)
    )
    chosen = [address for _, address in rounds[:count]]
    if len(chosen) < count:
        raise HeadraceError(
            f"the Dask cluster has {len(workers)} workers; {count} nodes need one each",
            hint="start more workers, each with --nworkers 1 on a node of its own",
        )
    check_versions(client, chosen)
    return chosen
