"""A client of the user's Dask cluster: TLS beyond loopback, and the same Headrace on workers."""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.errors import HeadraceError, MissingError, describe
from headrace.launchers.remote.dask_nodes import check_versions
from headrace.launchers.remote.launcher import check_version

if TYPE_CHECKING:
    from distributed import Client

_CONNECT_S = 10.0
_LEAST_TCP_S = 11.0
"""Dask accepts no shorter time (it divides it into 10 probes)."""


def client_of(
    address: str, asked_by: str = "[run] on", *, silence_s: float | None = None
) -> Client:
    """Return a client of the scheduler at HOST:PORT; `asked_by` is where the user gave it.

    Its connections are not given up before they were silent for `silence_s`.
    Raises HeadraceError when it cannot be reached, or is another machine without TLS.
    """
    import dask.config
    from distributed import Client
    from distributed.comm.core import FatalCommClosedError
    from distributed.security import Security

    host = address.rpartition(":")[0].strip("[]")
    security = Security()
    encrypted = _is_encrypted(security)
    if not encrypted and not _is_loopback(host, address, asked_by):
        raise MissingError(
            f"{host} is another machine, and Dask is not configured for TLS here",
            hint="make keys with headrace cluster init, or set distributed.comm.tls in Dask's "
            "configuration: ca-file, and client's cert and key",
        )
    if silence_s is not None:
        patience_s = max(silence_s, _LEAST_TCP_S)
        dask.config.set({"distributed.comm.timeouts.tcp": f"{patience_s} s"})
    try:
        client = Client(
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
            hint=f"start one (dask scheduler), or correct {asked_by}",
        ) from error
    quiet(client)
    return client


def quiet(part: Any) -> None:
    """Let a client or a cluster of Dask in this process print nothing of its own.

    Dask logs an error, or a traceback of a task that nobody awaits, for each connection that is
    lost. Headrace itself says which node is lost, and why.
    """
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    part.loop.asyncio_loop.set_exception_handler(_say_nothing)


def _say_nothing(loop: object, context: object) -> None:
    """Handle an exception that no code awaits."""


def _is_encrypted(security: Any) -> bool:
    """Return whether Dask's configuration names what a client needs for TLS."""
    return bool(security.tls_ca_file and security.tls_client_cert and security.tls_client_key)


def _is_loopback(host: str, address: str, asked_by: str) -> bool:
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except OSError as error:
        raise HeadraceError(
            f"no address is known of the Dask scheduler {address}: {error.strerror}",
            hint=f"correct {asked_by}: dask://HOST:PORT",
        ) from error
    return all(ipaddress.ip_address(address).is_loopback for address in found)


def workers_of(client: Client) -> Mapping[str, Any]:
    """Return what the scheduler knows of each worker, by address."""
    found: Mapping[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
    return found


def require_headrace(client: Client, workers: Sequence[str]) -> None:
    """Raise HeadraceError when a worker has no Headrace, or another one than this machine."""
    for address, found in check_versions(client, workers).items():
        check_version(f"worker {address}", found)
