"""Jobs on the workers of a running Dask cluster: `on = "dask://HOST:PORT"`, a worker for each node.

Dask carries the streams of node processes, which its workers start (`headrace.launchers.remote`);
which job runs where is the engine's to say, as on one machine. Beyond loopback Dask must be
configured for TLS (`distributed.comm.tls` in its configuration), and only then is it used.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from headrace.errors import HeadraceError, MissingError, describe
from headrace.launchers import NodesWanted
from headrace.launchers.remote.connection import NodeConnection
from headrace.launchers.remote.dask_nodes import check_versions, connected
from headrace.launchers.remote.launcher import RemoteLauncher
from headrace.system.journal import Journal

if TYPE_CHECKING:
    from distributed import Client

_CONNECT_S = 10.0


class Dask(RemoteLauncher):
    """Runs jobs on the workers of a Dask cluster."""

    kind = "dask"
    address_form = "dask://HOST:PORT"

    @override
    @classmethod
    def check(cls, wanted: NodesWanted) -> tuple[str, str] | None:
        return _problem_of(wanted.address, len(wanted.clients))

    @override
    @classmethod
    def node_count(cls, address: str) -> int:
        with _client(address) as client:
            found: Mapping[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
            return max(1, len(found))

    @override
    @contextmanager
    def connect(self, journal: Journal, wanted: NodesWanted) -> Generator[list[NodeConnection]]:
        with ExitStack() as stack:
            client = stack.enter_context(_client(wanted.address))
            found: list[NodeConnection] = []
            names = [node.name for node in wanted.clients]
            for name, worker in zip(names, _workers(client, len(names)), strict=True):
                connection = connected(client, name, worker)
                stack.callback(connection.close)
                found.append(connection)
            yield found


@cache
def _problem_of(address: str, count: int) -> tuple[str, str] | None:
    """Return what keeps a cluster from having this many nodes; a study asks for every trial."""
    try:
        with _client(address) as client:
            _workers(client, count)
    except HeadraceError as error:
        return error.message, error.hint or ""
    return None


def _client(address: str) -> Client:
    """Return a client of the scheduler. Raises HeadraceError when it cannot be reached."""
    from distributed import Client
    from distributed.comm.core import FatalCommClosedError
    from distributed.security import Security

    host = address.rpartition(":")[0].strip("[]")
    security = Security()
    encrypted = _is_encrypted(security)
    if not encrypted and not _is_loopback(host, address):
        raise MissingError(
            f"{host} is another machine, and Dask is not configured for TLS here",
            hint="make keys with headrace cluster init, or set distributed.comm.tls in Dask's "
            "configuration: ca-file, and client's cert and key",
        )
    try:
        return Client(
            f"{'tls' if encrypted else 'tcp'}://{address}",
            timeout=_CONNECT_S,
            security=security,
            set_as_default=False,
            name="headrace",
        )
    except FatalCommClosedError as error:
        raise HeadraceError(
            f"the Dask scheduler at {address} has other keys (TLS): its certificate is not signed "
            f"by {security.tls_ca_file}",
            hint="use the keys with which it was started: export DASK_CONFIG=…/dask.yaml",
        ) from error
    except (OSError, ValueError, TimeoutError) as error:
        raise HeadraceError(
            f"no Dask scheduler answers at {address}: {describe(error)}",
            hint="start one (dask scheduler), or correct [run] on",
        ) from error


def _is_encrypted(security: Any) -> bool:
    """Return whether Dask's configuration names what a client needs for TLS."""
    return bool(security.tls_ca_file and security.tls_client_cert and security.tls_client_key)


def _is_loopback(host: str, address: str) -> bool:
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except OSError as error:
        raise HeadraceError(
            f"no address is known of the Dask scheduler {address}: {error.strerror}",
            hint="correct [run] on: dask://HOST:PORT",
        ) from error
    return all(ipaddress.ip_address(address).is_loopback for address in found)


def _workers(client: Client, count: int) -> list[str]:
    """Return the addresses of this many workers, on as many hosts as there are.

    Raises HeadraceError when there are fewer, or when a worker has no or another Headrace.
    """
    workers: Mapping[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
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
