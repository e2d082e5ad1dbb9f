"""Jobs on the workers of a running Dask cluster: `on = "dask://HOST:PORT"`, a worker for each node.

Dask carries the streams of node processes, which its workers start (`headrace.launchers.remote`);
the engine decides which job runs where, as on one machine. Beyond loopback Dask must be
configured for TLS (`distributed.comm.tls` in its configuration), and only then is it used.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from typing_extensions import override

from headrace.errors import HeadraceError
from headrace.launchers import NodesWanted
from headrace.launchers.remote.connection import NodeConnection
from headrace.launchers.remote.dask_client import client_of, require_headrace, workers_of
from headrace.launchers.remote.dask_nodes import check_versions, connected
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
            client = stack.enter_context(client_of(wanted.address))
            found: list[NodeConnection] = []
            names = [node.name for node in wanted.clients]
            for name, worker in zip(names, _workers(client, len(names)), strict=True):
                connection = connected(client, name, worker)
                stack.callback(connection.close)
                found.append(connection)
            yield found


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
