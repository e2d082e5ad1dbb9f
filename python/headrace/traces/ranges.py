"""Offset range of a picture: the shortest range with nearly all requests.

A distant journal therefore does not flatten the picture.
"""

from __future__ import annotations

import numpy as np

from headrace.traces.cells import Window, cells_of
from headrace.traces.statistics import Statistics

READS, WRITES = 0, 1
BUSY = 0.95
"""Least share of the requests that a picture of offsets shows."""
_FINE_ROWS = 4096
_WORTH = 0.7
"""Requests are omitted only if the remaining range is at most this share of the range before."""
_LOOKS = 4
"""Refinement steps: a row of the first step on a drive of 24 TB is 6 GB, of the last a few
bytes."""

SectorRange = tuple[int, int]
"""First sector, and one past the last."""


def busy_range(
    statistics: Statistics, begin_ns: int, directions: tuple[int, ...] = (READS, WRITES)
) -> SectorRange:
    """Return the sector range with nearly all requests: searched on the whole drive, then
    refined."""
    low, high = statistics.sector_low, max(statistics.sector_high, statistics.sector_low + 1)
    kept = 1.0  # share of all requests in the range so far
    for _ in range(_LOOKS):
        window = Window(begin_ns, statistics.last_ns - begin_ns + 1, low, high, 1, _FINE_ROWS)
        touched = cells_of(statistics, window).offsets[:, list(directions)]
        sums = np.cumsum(touched.sum(axis=(0, 1, 3), dtype=np.float64))
        if not sums[-1] or kept <= BUSY:
            break
        # The shortest range with this share: for each first row, the last row that it needs.
        before = np.concatenate([[0.0], sums[:-1]])
        lasts = np.searchsorted(sums, before + BUSY / kept * sums[-1] * (1 - 1e-12))
        lengths = np.where(lasts < _FINE_ROWS, lasts - np.arange(_FINE_ROWS), _FINE_ROWS)
        first = int(np.argmin(lengths))
        last = first + int(lengths[first])
        if last - first > _WORTH * _FINE_ROWS:
            break
        room = max(1, (last - first) // 25)
        step = (high - low) / _FINE_ROWS
        begin_row, end_row = max(0, first - room), min(_FINE_ROWS, last + 1 + room)
        kept *= float((sums[end_row - 1] - before[begin_row]) / sums[-1])
        low, high = low + int(begin_row * step), low + max(1, round(end_row * step))
    return low, high


def shares_within(statistics: Statistics, begin_ns: int, shown: SectorRange) -> tuple[float, float]:
    """Return the shares of reads and writes that touch this range, to the resolution of a fine row;
    1 if there are none."""
    low, high = shown
    if low <= statistics.sector_low and high >= statistics.sector_high:
        return 1.0, 1.0
    window = Window(begin_ns, statistics.last_ns - begin_ns + 1, low, high, 1, 1)
    cells = cells_of(statistics, window)
    touching = cells.offsets.sum(axis=(0, 2, 3), dtype=np.float64)
    # Count in the same pass: it depends on the trace whether issued or queued requests count.
    counts = np.round(cells.iops.sum(axis=1) * window.span_ns / 1e9)
    reads, writes = (
        float(part) / float(all_) if all_ else 1.0
        for part, all_ in zip(touching, counts, strict=True)
    )
    return reads, writes


def shared(ranges: list[SectorRange]) -> list[SectorRange]:
    """Return one common range if all are similar, so that pictures are comparable."""
    low, high = min(each[0] for each in ranges), max(each[1] for each in ranges)
    if high - low <= 1.5 * max(each[1] - each[0] for each in ranges):
        return [(low, high)] * len(ranges)
    return ranges
