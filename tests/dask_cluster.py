"""A Dask cluster on this machine, started by Dask's own commands, as its users do."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from headrace.system.waiting import wait_until

PATIENCE_S = 60

# Dask looks at itself 50 to 100 times a second: most of the CPU time of an idle cluster.
IDLE = {
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "500ms",
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
}


def _started(stack: contextlib.ExitStack, *words: str) -> subprocess.Popen[bytes]:
    # Its pages over HTTP are served without a dashboard, too, by default to every address.
    quiet = ("--no-dashboard", "--dashboard-address", "127.0.0.1:0")
    process = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli." + words[0], *words[1:], *quiet],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **IDLE},
    )

    def end() -> None:
        process.terminate()
        with process:
            pass

    stack.callback(end)
    return process


def _address_in(file: Path) -> str | None:
    """HOST:PORT of the scheduler that wrote the file; None before it has."""
    try:
        return json.loads(file.read_text())["address"].partition("://")[2]
    except (OSError, ValueError):
        return None


@contextmanager
def dask_workers(
    count: int, options: Sequence[str] = ()
) -> Generator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The address of a scheduler with this many workers, and the workers' processes."""
    from distributed import Client

    with contextlib.ExitStack() as stack:
        # It takes a free port itself: one that is looked for here could be another test's by then.
        file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "scheduler.json"
        said = ("--port", "0", "--scheduler-file", str(file))
        _started(stack, "dask_scheduler", "--host", "127.0.0.1", *said, *options)
        assert wait_until(lambda: _address_in(file) is not None, PATIENCE_S, 0.05)
        address = str(_address_in(file))
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


@contextmanager
def started_again(address: str, count: int) -> Generator[None]:
    """A scheduler at the address of one that was killed, and new workers of it."""
    host, _, port = address.rpartition(":")
    with contextlib.ExitStack() as stack:
        _started(stack, "dask_scheduler", "--host", host, "--port", port)
        for _ in range(count):
            _started(
                stack,
                "dask_worker",
                f"tcp://{address}",
                "--no-nanny",
                "--nthreads",
                "1",
                "--host",
                host,
            )
        yield
