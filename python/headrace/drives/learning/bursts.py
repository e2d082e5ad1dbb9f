"""Bursts of writes after a pause: a cache or buffer takes them at once until it is full, and then
as fast as it is emptied."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.drives.learning.device import CHUNK, LearntDevice, Times
from headrace.drives.learning.values import standard_error

FIRST = 8
"""Writes that every cache takes."""
LOOKED_AT = 16
LEAST_SLOW = 4
"""Of so many writes so many wait when the cache is full; a destaged range may let two in."""
AFTER = 64
"""Writes that are made once the cache is full, for the rate at which it is emptied."""


@dataclass(frozen=True)
class Burst:
    """A burst of writes one at a time."""

    hit_s: float
    """Median of the writes that were taken at once."""
    taken: int
    """Writes that were taken at once."""
    full: bool
    """Whether the cache was filled: the others waited."""
    per_s: float
    """Writes per second into the full cache."""
    error_per_s: float


def write_burst(
    device: LearntDevice, sectors: int, *, turn_s: float, limit_s: float, pause_s: float
) -> Burst:
    """Write random places after a pause until the cache was full for a while."""
    until_s = device.elapsed_s + pause_s + limit_s
    parts: list[Times] = []
    wait_s = pause_s
    while device.elapsed_s < until_s:
        places = device.writable_sectors(CHUNK // 4, sectors)
        left_s = until_s - device.elapsed_s
        waits_s = [wait_s, *([0.0] * (len(places) - 1))]
        parts.append(device.writes(places, sectors, wait_s=waits_s, limit_s=left_s).response_s)
        wait_s = 0.0
        response_s = np.concatenate(parts)
        taken = _taken(response_s, turn_s)
        if taken is not None and len(response_s) > taken + AFTER:
            break
    return _burst(np.concatenate(parts), turn_s)


def _slow(response_s: Times, turn_s: float) -> tuple[float, npt.NDArray[np.bool_]]:
    hit_s = float(np.median(response_s[:FIRST]))
    return hit_s, response_s > 1.5 * hit_s + 0.06 * turn_s


def _taken(response_s: Times, turn_s: float) -> int | None:
    """Return the writes before many of the next ones wait; None if none do."""
    if len(response_s) < FIRST + LOOKED_AT:
        return None
    slow = _slow(response_s, turn_s)[1]
    waiting = np.convolve(slow, np.ones(LOOKED_AT), "valid")
    full = np.flatnonzero(slow[: len(waiting)] & (waiting >= LEAST_SLOW))
    return int(full[0]) if len(full) else None


def _burst(response_s: Times, turn_s: float) -> Burst:
    hit_s, _ = _slow(response_s, turn_s)
    taken = _taken(response_s, turn_s)
    after_s = response_s[taken:] if taken is not None else response_s
    mean_s = float(np.mean(after_s))
    error = standard_error(after_s) / mean_s
    full = taken is not None
    return Burst(
        hit_s, len(response_s) if taken is None else taken, full, 1 / mean_s, error / mean_s
    )
