"""Node processes on the workers of a Dask cluster."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from headrace.errors import HeadraceError, describe
from headrace.launchers.remote.connection import Streams
from headrace.launchers.remote.dask_streams import NodeStreams, version_here

if TYPE_CHECKING:
    from distributed import Client

_WORKERS_S = 60.0
"""For a worker to start a node process, which imports Headrace."""


def check_versions(client: Client, workers: Sequence[str]) -> dict[str, str]:
    """Return each worker's version of Headrace. Raises HeadraceError when one has none."""
    versions: Any = client.run(version_here, workers=list(workers), on_error="return")
    for address, version in versions.items():
        if isinstance(version, OSError):
            raise HeadraceError(f"worker {address} does not answer: {describe(version)}")
        if isinstance(version, Exception):
            raise HeadraceError(
                f"worker {address} has no Headrace: {describe(version)}",
                hint="install the same version there",
            )
    return versions


def streams(client: Client, name: str, worker: str) -> Streams:
    """Start a node process on a worker, and carry its streams to a local socket.

    Raises HeadraceError when it does not start.
    """
    future = client.submit(
        NodeStreams, actor=True, workers=[worker], allow_other_workers=False, pure=False
    )
    try:
        with client.as_current():  # an actor finds its client this way only
            actor: Any = future.result(timeout=_WORKERS_S)
    except Exception as error:
        raise HeadraceError(f"node {name} ({worker}) does not start: {describe(error)}") from error
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    loop: Any = client.loop
    pumping = asyncio.run_coroutine_threadsafe(_pump(actor, theirs), loop.asyncio_loop)

    def close() -> None:
        pumping.cancel()
        with suppress(Exception):  # of a client whose scheduler has gone
            future.release()

    return ours, close


async def _pump(actor: Any, sock: socket.socket) -> None:
    """Carry bytes both ways until the node process has ended or is lost; close the socket then."""
    loop = asyncio.get_running_loop()

    async def there() -> None:
        while data := await loop.sock_recv(sock, 1 << 16):
            await actor.send(data)
        await actor.finish()

    sending = asyncio.ensure_future(there())
    try:
        while (data := await actor.receive()) != b"":
            if data is not None:
                await loop.sock_sendall(sock, data)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        sock.close()
