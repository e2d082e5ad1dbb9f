"""Traces laid into the cells of pictures: which process has which colour, which time and place are shown, and the cells themselves.

However long a trace is, what is drawn has the size of the picture.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _core
from headrace.palette import CURVE_COLOURS
from headrace.traces.files import readable
from headrace.traces.statistics import Part, Statistics

SECTOR_BYTES = 512
LATENCY_FROM_NS = 1e3
BINS_PER_DECADE = 10
LATENCY_BINS = 80
"""As in crates/blocktrace/src/tiles.rs."""
_OTHERS_COLOUR = "#C4C4C4"
_FINE_ROWS = 4096
_BUSY = 0.95
"""Share of the requests that a picture of offsets shows at least: a few on a journal far away must not flatten it."""
_WORTH = 0.7
"""Share of the range of all requests that the others must leave free to be left out."""
_LOOKS = 4
"""A row of the first look at a drive of 24 TB is 6 GB, one of the last a few bytes."""
_MINOR = 0.002
"""Processes with less than this share of the bytes have no colour of their own."""


@dataclass(frozen=True)
class Group:
    """A process, or several, in one colour."""

    label: str
    colour: str
    requests: int


@dataclass(frozen=True)
class Cells:
    """One trace in cells. Columns are time."""

    offsets: npt.NDArray[np.uint32]
    """(group, read or write, row from the lowest offset up, column): requests that touched the cell."""
    bytes_per_s: npt.NDArray[np.float64]
    """(read or write, column)."""
    iops: npt.NDArray[np.float64]
    """(read or write, column)."""
    seeks_per_s: npt.NDArray[np.float64]
    depth_mean: npt.NDArray[np.float64]
    depth_max: npt.NDArray[np.uint32]
    latencies: npt.NDArray[np.uint32]
    """(bin, column): requests; a bin is a tenth of a decade from 1 us up."""

    def median_latency_ms(self) -> npt.NDArray[np.float64]:
        """Of each column; NaN where nothing was issued."""
        sums = np.cumsum(self.latencies, axis=0)
        middle = np.argmax(sums >= np.maximum(sums[-1], 1) / 2, axis=0)
        edges = LATENCY_FROM_NS * 10 ** ((middle + 0.5) / BINS_PER_DECADE)
        return np.where(sums[-1] > 0, edges / 1e6, np.nan)


@dataclass(frozen=True)
class Run:
    """One trace, ready to be drawn."""

    label: str
    statistics: Statistics
    groups: tuple[Group, ...]
    cells: Cells
    span_s: float
    """What the columns span, from the beginning of the run."""
    end_s: float
    """When its last event was."""
    low_bytes: float
    high_bytes: float
    """What the rows span."""
    shown: float
    """Share of the requests that lie in it."""

    def elsewhere(self) -> str:
        """What to say of the requests that the picture of offsets leaves out; nothing when it shows all."""
        return f" ({100 * (1 - self.shown):.2g} % of all requests lie elsewhere)" if self.shown < 1 else ""

    def has(self, write: int) -> bool:
        """Whether reads (0) or writes (1) are worth a picture: at least one request in a hundred, and one where it looks."""
        counts = self.cells.iops.sum(axis=1)
        seen = bool(self.cells.offsets[:, write].any())
        return seen and bool(counts[write] * 100 >= counts.sum())


def lay_out(all_statistics: list[Statistics], labels: list[str], columns: int, rows: int) -> list[Run]:
    """Lays traces into cells on one axis of time, and on one of offsets where their ranges are much the same. Raises StudyError."""
    begins = [_begin_ns(each) for each in all_statistics]
    span_ns = max(each.last_ns - begin for each, begin in zip(all_statistics, begins, strict=True)) + 1
    ranges = _shared([_busy_range(each, begin) for each, begin in zip(all_statistics, begins, strict=True)])
    runs: list[Run] = []
    for statistics, label, begin, (low, high) in zip(all_statistics, labels, begins, ranges, strict=True):
        groups, of_pid = _groups(statistics)
        window = _Window(begin, span_ns, low, high, columns, rows)
        cells = _cells(statistics, window, of_pid, len(groups))
        runs.append(
            Run(
                label=label,
                statistics=statistics,
                groups=groups,
                cells=cells,
                span_s=span_ns / 1e9,
                end_s=(statistics.last_ns - begin) / 1e9,
                low_bytes=low * SECTOR_BYTES,
                high_bytes=high * SECTOR_BYTES,
                shown=_share_within(statistics, begin, low, high),
            )
        )
    return runs


@dataclass(frozen=True)
class _Window:
    begin_ns: int
    span_ns: int
    sector_low: int
    sector_high: int
    columns: int
    rows: int


def _busy_range(statistics: Statistics, begin: int) -> tuple[int, int]:
    """Sectors between which nearly all requests lie: looked for on the whole drive, then more closely where they are."""
    low, high = statistics.sector_low, max(statistics.sector_high, statistics.sector_low + 1)
    kept = 1.0  # share of all requests in the range so far
    for _ in range(_LOOKS):
        window = _Window(begin, statistics.last_ns - begin + 1, low, high, 1, _FINE_ROWS)
        counts = _cells(statistics, window, {}, 1).offsets.sum(axis=(0, 1, 3), dtype=np.float64)
        sums = np.cumsum(counts)
        if not sums[-1] or kept <= _BUSY:
            break
        # The shortest range that holds so many: for each first row the last one that is needed.
        before = np.concatenate([[0.0], sums[:-1]])
        lasts = np.searchsorted(sums, before + _BUSY / kept * sums[-1] * (1 - 1e-12))
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


def _share_within(statistics: Statistics, begin: int, low: int, high: int) -> float:
    """Share of the requests that touch this range, to the size of a fine row."""
    if low <= statistics.sector_low and high >= statistics.sector_high:
        return 1.0
    window = _Window(begin, statistics.last_ns - begin + 1, low, high, 1, 1)
    touching = float(_cells(statistics, window, {}, 1).offsets.sum(dtype=np.float64))
    return touching / max(1, statistics.total.requests)


def _shared(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    low, high = min(each[0] for each in ranges), max(each[1] for each in ranges)
    if high - low <= 1.5 * max(each[1] - each[0] for each in ranges):
        return [(low, high)] * len(ranges)
    return ranges


def _begin_ns(statistics: Statistics) -> int:
    begin = statistics.trace.begin_monotonic_ns
    return begin if begin is not None and begin <= statistics.first_ns else statistics.first_ns


def _name(part: Part) -> str:
    return f"{part.name or 'process'} {part.pid}"


def _groups(statistics: Statistics) -> tuple[tuple[Group, ...], dict[str, int]]:
    """Processes with colours, those of most bytes first; the others together in grey, last."""
    others = (1 << 32) - 1
    worth = [
        part
        for part in statistics.processes
        if part.bytes >= _MINOR * statistics.total.bytes and part.bytes and part.pid != others
    ]
    # The same process keeps its colour however much the others did: colours go by id.
    own = sorted(worth[: len(CURVE_COLOURS)], key=lambda part: part.pid)
    groups = [Group(_name(part), CURVE_COLOURS[index], part.requests) for index, part in enumerate(own)]
    left = [part for part in statistics.processes if part not in own]
    if left or not groups:
        label = _name(left[0]) if len(left) == 1 else f"{len(left)} others"
        groups.append(Group(label, _OTHERS_COLOUR, sum(part.requests for part in left)))
    return tuple(groups), {str(part.pid): index for index, part in enumerate(own)}


def _cells(statistics: Statistics, window: _Window, groups_of_pid: dict[str, int], groups: int) -> Cells:
    trace, columns, rows = statistics.trace, window.columns, window.rows
    text: dict[str, Any] = {
        "from_ns": window.begin_ns,
        "to_ns": window.begin_ns + window.span_ns - 1,
        "sector_low": window.sector_low,
        "sector_high": window.sector_high,
        "columns": columns,
        "rows": rows,
        "groups": groups_of_pid,
        "group_count": groups,
    }
    with readable():
        found = _core.trace_tiles(trace.files, json.dumps(text), trace.device)
    width_s = window.span_ns / 1e9 / columns

    def column(name: str, kind: Any, *shape: int) -> Any:
        return np.frombuffer(found[name], kind).reshape(*shape)

    return Cells(
        offsets=column("offsets", np.uint32, groups, 2, rows, columns),
        bytes_per_s=column("bytes", np.uint64, 2, columns) / width_s,
        iops=column("requests", np.uint64, 2, columns) / width_s,
        seeks_per_s=column("seeks", np.uint64, columns) / width_s,
        depth_mean=column("depth_ns", np.uint64, columns) / (width_s * 1e9),
        depth_max=column("depth_max", np.uint32, columns),
        latencies=column("latencies", np.uint32, LATENCY_BINS, columns),
    )


def coarser(cells: Cells, wanted: int) -> Cells:
    """The same with `wanted` columns (which must divide those there are), for lines and heat maps; the offsets stay as they are."""
    columns = cells.depth_mean.shape[0]
    factor = columns // wanted

    def fold(values: Any) -> Any:
        return values[..., :columns].reshape(*values.shape[:-1], -1, factor)

    return Cells(
        offsets=cells.offsets,
        bytes_per_s=fold(cells.bytes_per_s).mean(-1),
        iops=fold(cells.iops).mean(-1),
        seeks_per_s=fold(cells.seeks_per_s).mean(-1),
        depth_mean=fold(cells.depth_mean).mean(-1),
        depth_max=fold(cells.depth_max).max(-1),
        latencies=fold(cells.latencies).sum(-1),
    )


def colour_cells(run: Run, write: int) -> npt.NDArray[np.uint8]:
    """An image (rows from the top down, columns, RGBA): each cell in the colour of the process that touched it most, the fuller the
    more often it was touched."""
    counts = run.cells.offsets[:, write]
    total = counts.sum(axis=0)
    strongest = counts.argmax(axis=0)
    colours = np.array(
        [[int(group.colour[at : at + 2], 16) for at in (1, 3, 5)] for group in run.groups], np.uint8
    )
    image = np.zeros((*total.shape, 4), np.uint8)
    image[..., :3] = colours[strongest]
    most = max(float(np.percentile(total[total > 0], 99)) if (total > 0).any() else 1.0, 1.0)
    fullness = 0.6 + 0.4 * np.minimum(1.0, np.log1p(total) / np.log1p(most))
    image[..., 3] = np.where(total > 0, (255 * fullness).astype(np.uint8), 0)
    return image[::-1]
