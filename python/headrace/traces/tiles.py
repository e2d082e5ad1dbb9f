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
from headrace.palette import CURVE_COLOURS, GREY
from headrace.traces.files import readable
from headrace.traces.statistics import Part, Statistics

SECTOR_BYTES = 512
LATENCY_FROM_NS = 1e3
BINS_PER_DECADE = 10
LATENCY_BINS = 80
"""As in crates/blocktrace/src/tiles.rs."""
_PROCESSES = len(CURVE_COLOURS) - 1
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
    low_bytes: float
    high_bytes: float
    """What the rows span."""

    def has(self, write: int) -> bool:
        """Whether reads (0) or writes (1) are worth a picture: some, and not one in a thousand of the others."""
        counts = [int(self.cells.offsets[:, each].sum()) for each in (0, 1)]
        return counts[write] > 0 and counts[write] * 1000 >= sum(counts)


def lay_out(all_statistics: list[Statistics], labels: list[str], columns: int, rows: int) -> list[Run]:
    """Lays traces into cells on one axis of time, and on one of offsets where their ranges meet. Raises StudyError."""
    begins = [_begin_ns(each) for each in all_statistics]
    span_ns = max(each.last_ns - begin for each, begin in zip(all_statistics, begins, strict=True)) + 1
    ranges = _ranges(all_statistics)
    runs: list[Run] = []
    for statistics, label, begin, (low, high) in zip(all_statistics, labels, begins, ranges, strict=True):
        groups, of_pid = _groups(statistics)
        window: dict[str, Any] = {
            "from_ns": begin,
            "to_ns": begin + span_ns - 1,
            "sector_low": low,
            "sector_high": high,
            "columns": columns,
            "rows": rows,
            "groups": of_pid,
            "group_count": len(groups),
        }
        trace = statistics.trace
        with readable():
            found = _core.trace_tiles(trace.files, json.dumps(window), trace.device)
        cells = _cells(found, len(groups), columns, rows, span_ns)
        runs.append(
            Run(label, statistics, groups, cells, span_ns / 1e9, low * SECTOR_BYTES, high * SECTOR_BYTES)
        )
    return runs


def _begin_ns(statistics: Statistics) -> int:
    begin = statistics.trace.begin_monotonic_ns
    return begin if begin is not None and begin <= statistics.first_ns else statistics.first_ns


def _ranges(all_statistics: list[Statistics]) -> list[tuple[int, int]]:
    own = [(each.sector_low, max(each.sector_high, each.sector_low + 1)) for each in all_statistics]
    low, high = min(each[0] for each in own), max(each[1] for each in own)
    if high - low <= 3 * max(each[1] - each[0] for each in own):
        return [(low, high)] * len(own)
    return own


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
    # A grey for the only one that is left over would be a waste: eight colours are eight processes.
    own = worth if len(worth) == len(statistics.processes) == len(CURVE_COLOURS) else worth[:_PROCESSES]
    # The same process keeps its colour however much the others did: colours go by id.
    own = sorted(own, key=lambda part: part.pid)
    groups = [Group(_name(part), CURVE_COLOURS[index], part.requests) for index, part in enumerate(own)]
    left = [part for part in statistics.processes if part not in own]
    if left or not groups:
        label = _name(left[0]) if len(left) == 1 else f"{len(left)} others"
        groups.append(Group(label, GREY, sum(part.requests for part in left)))
    return tuple(groups), {str(part.pid): index for index, part in enumerate(own)}


def _cells(found: dict[str, bytes], groups: int, columns: int, rows: int, span_ns: int) -> Cells:
    width_s = span_ns / 1e9 / columns

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


def coarser(cells: Cells, factor: int) -> Cells:
    """The same with `factor` columns in one, for lines and heat maps; the offsets stay as they are."""
    columns = cells.depth_mean.shape[0] // factor * factor

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
