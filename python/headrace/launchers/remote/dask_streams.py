"""What a Dask worker runs of Headrace: an actor that carries the streams of a node process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
from importlib.metadata import version

from headrace.launchers.remote.streams import ENTRY
from headrace.system.own_programs import own_code

_IDLE_S = 1.0
"""`receive` returns after this time without data, so that nothing holds an actor that Dask has let
go of (its client has gone): it is then deleted, and the node process ends with its input."""


def version_here() -> str:
    """Return the version of Headrace on the worker."""
    return version("headrace")


class NodeStreams:
    """A node process on a Dask worker. It ends when this object is deleted."""

    def __init__(self) -> None:
        self._sock, theirs = socket.socketpair()
        self._sock.setblocking(False)
        with theirs:
            self._process = subprocess.Popen(
                own_code(ENTRY),
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                start_new_session=True,
            )

    async def send(self, data: bytes) -> None:
        """Send bytes to the node process. Raises OSError when it has ended."""
        await asyncio.get_running_loop().sock_sendall(self._sock, data)

    async def finish(self) -> None:
        """End the node process's input: it ends, and so does what `receive` returns."""
        self._sock.shutdown(socket.SHUT_WR)

    async def receive(self) -> bytes | None:
        """Return bytes of the node process; None: none came for a while; empty: it has ended."""
        reading = asyncio.get_running_loop().sock_recv(self._sock, 1 << 16)
        try:
            return await asyncio.wait_for(reading, _IDLE_S)
        except TimeoutError:
            return None
        except OSError:
            return b""

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._sock.close()
