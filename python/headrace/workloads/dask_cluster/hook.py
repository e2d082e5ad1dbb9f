"""What a worker of Dask tells the job that started it. Runs in the user's Python, by --preload.

It imports nothing of Headrace, which that Python need not have.
"""

import asyncio
import contextlib
import os
import select
from typing import Any

_PATIENCE_S = 10
_hears, _tells = map(int, os.environ["HEADRACE_WORKER"].split(","))
for _each in (_hears, _tells):
    os.set_inheritable(_each, False)


def _tell(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(_tells, f"{text}\n".encode())


async def _tell_when_ready(worker: Any) -> None:
    while worker.status.name == "init":
        await asyncio.sleep(0.02)
    _tell(f"ready {worker.address}")


def dask_setup(worker: Any) -> None:
    """Tell when the worker is known to its scheduler."""
    worker.headrace = asyncio.ensure_future(_tell_when_ready(worker))


def dask_teardown(worker: Any) -> None:
    """Tell how many tasks the worker has run, and wait until its ledger was read."""
    _tell(f"closing {getattr(worker.state, 'executed_count', -1)}")
    select.select([_hears], [], [], _PATIENCE_S)
