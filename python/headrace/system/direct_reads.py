"""Base layer: time single reads of a file past the page cache (O_DIRECT), unprivileged."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterable
from pathlib import Path

ALIGNMENT = 4096
"""Offsets and lengths are multiples of it: what every current filesystem accepts."""


def timed_direct_reads(
    path: Path, offsets: Iterable[int], length: int, limit_s: float
) -> list[float]:
    """Read `length` bytes at each offset, one after the other, and return their times in seconds.

    No read begins after `limit_s`. Raises OSError where the file cannot be read this way.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    found: list[float] = []
    try:
        with mmap.mmap(-1, length) as buffer:
            begin_s = time.monotonic()
            for offset in offsets:
                start_s = time.perf_counter()
                os.preadv(handle, [buffer], offset)
                found.append(time.perf_counter() - start_s)
                if time.monotonic() - begin_s > limit_s:
                    break
    finally:
        os.close(handle)
    return found
