"""Writes in order into a region of an SSD: reads of it need the flash afterwards. Their rate tells
how fast the flash takes writes, and how large a cache before it is."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from headrace.drives.learning.device import LearntDevice, Times

PIECE = 256
"""Sectors of the writes in order."""
DEPTH = 4
LARGEST_REGION = (16 << 30) // 512
PIECES_AT_A_TIME = 4096
WINDOWS = 640
LARGEST_BUFFER = 64 << 20
"""Bytes up to which writes that are taken fast are those of a buffer, and not of an SLC cache."""
FALL = 0.8
"""Rate after a fall, divided by the one before, above which it is no fall."""
SLIGHT_FALL = 0.96
"""The same where something else shows that the drive has a cache: the link may hide most of it."""
LEAST_WINDOWS = 3
"""Before a fall; the first one has the buffer in it."""
LEAST_AFTER = 0.02
"""Of all windows, after a fall: a few slow ones at the end are none."""


@dataclass(frozen=True)
class Filled:
    """Writes in order into a region that was empty."""

    before: float
    """Bytes per second at first."""
    after: float
    """Bytes per second at the end."""
    error: float
    fell_after: int | None
    """Bytes after which the rate fell; None if it did not."""
    written: int
    cleans_after: int | None = None
    """Bytes after which the rate fell again; None if it did not."""
    slightly: Filled | None = None
    """The same with a slight fall, if the rate fell no more than that."""


def fill_region(device: LearntDevice, *, limit_s: float) -> Filled:
    """Write in order, so that reads of the region need the flash; return the rates."""
    first, last = device.writable_region
    last = min(last, first + LARGEST_REGION)
    depth = min(DEPTH, device.queue_depth)
    until_s = device.elapsed_s + limit_s
    ends: list[Times] = []
    at = -(-first // PIECE) * PIECE
    low = at
    while at + PIECE <= last and device.elapsed_s < until_s:
        count = min(PIECES_AT_A_TIME, (last - at) // PIECE)
        sector = [at + each * PIECE for each in range(count)]
        left_s = until_s - device.elapsed_s
        timings = device.writes(sector, PIECE, depth=depth, limit_s=left_s)
        ends.append(np.sort(timings.end_s))
        at += len(timings) * PIECE
    device.region = (low, at)
    end_s = np.concatenate(ends)
    found = _filled(end_s, FALL)
    slightly = _filled(end_s, SLIGHT_FALL) if found.fell_after is None else found
    return found if slightly.fell_after == found.fell_after else replace(found, slightly=slightly)


def _filled(end_s: Times, least: float) -> Filled:
    """Return rates from the ends of the writes. `least`: rate after a fall, divided by the one
    before, above which it is no fall."""
    edges = np.linspace(0, len(end_s) - 1, min(WINDOWS, max(len(end_s) // 8, 2)) + 1).astype(int)
    spans_s = np.maximum(np.diff(end_s[edges]), 1e-9)
    rates = np.diff(edges) * PIECE * 512 / spans_s
    # A buffer is full sooner than any cache of the flash.
    begun = int(np.searchsorted(edges[:-1] * (PIECE * 512), LARGEST_BUFFER))
    enough = len(rates) - begun > 2 * LEAST_WINDOWS
    if enough:
        edges, rates = edges[begun:], rates[begun:]
    at, until = _first_fall(rates, least) if enough else (None, len(rates))
    # The window with the fall in it has both rates.
    kept = rates[len(rates) // 3 :] if at is None else rates[at + 1 : until]
    after = 1 / float(np.mean(1 / kept))  # bytes by time
    before = 1 / float(np.mean(1 / rates[:at])) if at is not None else after
    fell = int(edges[at]) * PIECE * 512 if at is not None else None
    again = int(edges[until]) * PIECE * 512 if at is not None and until < len(rates) else None
    error = float(np.std(kept) / math.sqrt(len(kept)))
    return Filled(before, after, error, fell, len(end_s) * PIECE * 512, again)


def _first_fall(rates: Times, least: float) -> tuple[int | None, int]:
    """Return the window of the first fall of the rate, and that of the next one, or the end.

    A drive whose cache is full may begin to clean its flash much later, which is another fall.
    """
    at, until = _fall(rates, least), len(rates)
    while at is not None and (before := _fall(rates[:at], least)) is not None:
        at, until = before, at
    return at, until


def _fall(rates: Times, least: float) -> int | None:
    """Return the window before which the rate was higher than after it; None if it did not fall.

    The window divides the times into two parts that are as even as they can be.
    """
    times = 1 / rates
    best: tuple[float, int] | None = None
    least_after = max(LEAST_WINDOWS, round(LEAST_AFTER * len(times)))
    for at in range(LEAST_WINDOWS, len(times) - least_after + 1):
        parts = (times[:at], times[at:])
        squares = sum(float(np.sum((each - np.mean(each)) ** 2)) for each in parts)
        if best is None or squares < best[0]:
            best = (squares, at)
    if best is None:
        return None
    at = best[1]
    return at if float(np.mean(times[:at])) < least * float(np.mean(times[at:])) else None
