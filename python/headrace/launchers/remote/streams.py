"""Node processes whose streams a local command carries: a child process, or `ssh HOST …`."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.launchers.remote.connection import NodeConnection, Streams

ENTRY = "from headrace.launchers.remote.node_process import main; main()"
_END_PATIENCE_S = 20.0
"""For a node to kill its jobs and to undo its journal."""


def connected(name: str, argv: Sequence[str], log: Path) -> NodeConnection:
    """Start a command that carries a node's streams; its standard error is written to `log`.

    Raises HeadraceError when it does not start.
    """

    def streams() -> Streams:
        ours, process = started(name, argv, log)
        return ours, lambda: end(process)

    return NodeConnection(name, *streams(), streams)


def started(
    name: str, argv: Sequence[str], log: Path
) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Start a command, and return it with the other end of its standard input and output.

    Its standard error is written to `log`. Raises HeadraceError when it does not start.
    """
    ours, theirs = socket.socketpair()
    try:
        with log.open("wb") as errors:
            # A session of its own: Ctrl-C at a terminal is the engine's to handle.
            process = subprocess.Popen(
                argv,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=errors,
                start_new_session=True,
            )
    except OSError as error:
        ours.close()
        raise HeadraceError(f"node {name}: {argv[0]} does not start: {error.strerror}") from error
    finally:
        theirs.close()
    return ours, process


def end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process whose input has ended; end it if it does not."""
    try:
        process.wait(_END_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            process.wait(_END_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
