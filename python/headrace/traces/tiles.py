"""Prepares traces for pictures: colours of processes, range of time and offsets, what is omitted.

The amount of drawn data depends on the picture's size, not on the trace's length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.errors import FileProblem, StudyError
from headrace.palette import CURVE_COLOURS
from headrace.traces.cells import (
    BINS_PER_DECADE,
    LATENCY_FROM_NS,
    SECTOR_BYTES,
    TraceCells,
    Window,
    cells_of,
    coarser,
)
from headrace.traces.ranges import (
    BUSY,
    READS,
    WRITES,
    SectorRange,
    busy_range,
    shared,
    shares_within,
)
from headrace.traces.statistics import RequestGroup, Statistics
from headrace.units import format_amount

__all__ = [
    "BINS_PER_DECADE",
    "LATENCY_FROM_NS",
    "DrawableTrace",
    "Offsets",
    "TraceCells",
    "coarser",
    "colour_cells",
    "prepare_traces",
]

_OTHERS_COLOUR = "#C4C4C4"
_MINOR = 0.002
"""Processes with a smaller share of the bytes get no colour of their own."""
_DRAWN = 0.01
"""Reads or writes with a smaller share of the requests, and of the bytes, are only mentioned in
words."""
WORDS = ("reads", "writes")


@dataclass(frozen=True)
class Group:
    """One or several processes in one colour."""

    label: str
    colour: str
    requests: int


@dataclass(frozen=True)
class Offsets:
    """Offsets of a run's reads or writes: one panel."""

    write: int
    cells: npt.NDArray[np.uint32]
    """(group, row from the lowest offset up, column): requests that touched the cell."""
    low_bytes: float
    high_bytes: float
    """Range of the rows."""
    shown: float
    """Share of these requests within the range."""

    @property
    def word(self) -> str:
        """`reads` or `writes`."""
        return WORDS[self.write]

    def elsewhere(self) -> str:
        """Return a note on the requests that the panel omits; empty if it shows all."""
        left_out = 100 * (1 - self.shown)
        return f" ({left_out:.2g} % of the {self.word} lie elsewhere)" if left_out > 0.005 else ""


@dataclass(frozen=True)
class DrawableTrace:
    """One trace, ready to draw."""

    label: str
    statistics: Statistics
    groups: tuple[Group, ...]
    cells: TraceCells
    offsets: tuple[Offsets, ...]
    """Panels of reads and writes; those with hardly any requests have none."""
    span_s: float
    """Time range of the columns, from the start of the run."""
    end_s: float
    """Time of its last event."""

    @property
    def depth_is_known(self) -> bool:
        """True if the trace shows how many requests were in flight."""
        return self.statistics.total.queue_depth_max is not None

    def has(self, write: int) -> bool:
        """Return whether reads (0) or writes (1) have their own lines: whenever there are any."""
        return bool(self.cells.iops[write].any())

    def notes(self) -> list[str]:
        """Return what the picture does not show of this trace, in words."""
        total = self.statistics.total
        stage = "issued" if any(total.amount(op)[0] for op in ("read", "write")) else "queued"
        found: list[str] = []
        for panel in self.offsets:
            if panel.elsewhere():
                found.append(f"offsets of {panel.word}: {panel.elsewhere().strip(' ()')}")
        drawn = {panel.write for panel in self.offsets}
        for write, op in ((READS, "read"), (WRITES, "write")):
            count, moved = total.amount(op, stage)
            if count and write not in drawn:
                several = "s" if count > 1 else ""
                found.append(
                    f"offsets of {count:,} {op}{several} ({format_amount(moved)}) are not drawn"
                )
        if not self.depth_is_known:
            found.append("requests in flight are not known: no completions in the trace")
        if self.statistics.missing:
            found.append(f"{self.statistics.missing:,} events are missing in the trace")
        return found


def prepare_traces(
    all_statistics: list[Statistics], labels: list[str], columns: int, rows: int
) -> list[DrawableTrace]:
    """Convert traces to cells on one time axis, and on one offset axis if their ranges are similar.

    Raises StudyError for a trace without times: a picture needs a time axis.
    """
    for each in all_statistics:
        if not each.has_times:
            problem = (
                "has no times: all its requests are at one moment, and a picture is drawn "
                "against time"
            )
            raise StudyError([FileProblem(each.trace.path, 0, "file", "", problem)])
    begins = [_begin_ns(each) for each in all_statistics]
    span_ns = (
        max(each.last_ns - begin for each, begin in zip(all_statistics, begins, strict=True)) + 1
    )
    ranges = shared(
        [busy_range(each, begin) for each, begin in zip(all_statistics, begins, strict=True)]
    )
    runs: list[DrawableTrace] = []
    for statistics, label, begin, place in zip(all_statistics, labels, begins, ranges, strict=True):
        groups, of_pid = _groups(statistics)
        window = Window(begin, span_ns, *place, columns, rows)
        cells = cells_of(statistics, window, of_pid, len(groups))
        runs.append(
            DrawableTrace(
                label=label,
                statistics=statistics,
                groups=groups,
                cells=cells,
                offsets=_offsets(statistics, window, cells, of_pid, len(groups)),
                span_s=span_ns / 1e9,
                end_s=(statistics.last_ns - begin) / 1e9,
            )
        )
    return runs


def _offsets(
    statistics: Statistics, window: Window, cells: TraceCells, of_pid: dict[str, int], groups: int
) -> tuple[Offsets, ...]:
    """Return one panel of reads and one of writes. If the common range omits too many requests of a
    panel, the panel gets its own range."""
    place: SectorRange = (window.sector_low, window.sector_high)
    shares = shares_within(statistics, window.begin_ns, place)
    panels: list[Offsets] = []
    for write in (READS, WRITES):
        requests, moved = cells.iops.sum(axis=1), cells.bytes_per_s.sum(axis=1)
        if requests[write] < _DRAWN * requests.sum() and moved[write] < _DRAWN * moved.sum():
            continue
        if not requests[write]:
            continue
        shown, counts, share = place, cells.offsets, shares[write]
        if share < BUSY:
            shown = busy_range(statistics, window.begin_ns, (write,))
            own = Window(window.begin_ns, window.span_ns, *shown, window.columns, window.rows)
            counts = cells_of(statistics, own, of_pid, groups).offsets
            share = shares_within(statistics, window.begin_ns, shown)[write]
        low, high = (each * SECTOR_BYTES for each in shown)
        panels.append(Offsets(write, counts[:, write], low, high, min(share, 1.0)))
    return tuple(panels)


def _begin_ns(statistics: Statistics) -> int:
    begin = statistics.trace.begin_monotonic_ns
    return begin if begin is not None and begin <= statistics.first_ns else statistics.first_ns


def _name(part: RequestGroup) -> str:
    return f"{part.name or 'process'} {part.pid}"


def _groups(statistics: Statistics) -> tuple[tuple[Group, ...], dict[str, int]]:
    """Return processes with colours, most bytes first; the others combined in grey, last."""
    others = (1 << 32) - 1
    worth = [
        part
        for part in statistics.processes
        if part.bytes >= _MINOR * statistics.total.bytes and part.bytes and part.pid != others
    ]
    # Assign colours by process id, so that a process keeps its colour however much the others did.
    own = sorted(worth[: len(CURVE_COLOURS)], key=lambda part: part.pid)
    groups = [
        Group(_name(part), CURVE_COLOURS[index], part.requests) for index, part in enumerate(own)
    ]
    left = [part for part in statistics.processes if part not in own]
    if left or not groups:
        label = _name(left[0]) if len(left) == 1 else f"{len(left)} others"
        groups.append(Group(label, _OTHERS_COLOUR, sum(part.requests for part in left)))
    return tuple(groups), {str(part.pid): index for index, part in enumerate(own)}


def colour_cells(run: DrawableTrace, panel: Offsets) -> npt.NDArray[np.uint8]:
    """Return an image (rows from the top down, columns, RGBA): each cell in the colour of the
    process that touched it most, more opaque the more often it was touched."""
    counts = panel.cells
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
