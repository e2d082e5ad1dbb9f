"""A Dask cluster on this machine, started by Dask's own commands, as its users do."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager

PATIENCE_S = 60


def _started(stack: contextlib.ExitStack, *words: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli." + words[0], *words[1:], "--no-dashboard"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def end() -> None:
        process.terminate()
        with process:
            pass

    stack.callback(end)
    return process


@contextmanager
def dask_workers(
    count: int, options: Sequence[str] = ()
) -> Generator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The address of a scheduler with this many workers, and the workers' processes."""
    from distributed import Client

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    with contextlib.ExitStack() as stack:
        _started(stack, "dask_scheduler", "--host", "127.0.0.1", "--port", str(port), *options)
        workers = [
            _started(
                stack,
                "dask_worker",
                f"tcp://{address}",
                "--no-nanny",
                "--nthreads",
                "1",
                "--host",
                "127.0.0.1",
                *options,
            )
            for _ in range(count)
        ]
        with Client(f"tcp://{address}", timeout=PATIENCE_S, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=PATIENCE_S)
        yield address, workers


@contextmanager
def dask_cluster(count: int) -> Generator[str]:
    """The address of a scheduler with this many workers."""
    with dask_workers(count) as (address, _):
        yield address
