"""Mutual exclusion: a lock file per data set, which the kernel releases when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from headrace.datasets.integrity import Tick, no_tick
from headrace.system.waiting import retry

_POLL_S = 0.1


@contextmanager
def only_one(path: Path, *, waiting: Tick = no_tick) -> Generator[None]:
    """Hold the lock file `path`; call `waiting` several times per second until it is free.

    The file is removed afterwards. Raises OSError when it cannot be made.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _acquire(descriptor, waiting)
            if _is_still(path, descriptor):
                break
        except BaseException:
            os.close(descriptor)
            raise
        os.close(
            descriptor
        )  # The previous holder removed it: the next file of that name is the lock.
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(descriptor)


def _acquire(descriptor: int, waiting: Tick) -> None:
    def lock() -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            raise

    retry(lock, BlockingIOError, math.inf, _POLL_S)


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
