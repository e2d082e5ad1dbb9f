"""What the panels of a picture show, still or interactive: units, lines with their names and colours, the bins of latency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.palette import BLUE, CURVE_COLOURS, CURVE_DASHES, GREY, VERMILLION
from headrace.traces.tiles import BINS_PER_DECADE, LATENCY_FROM_NS, Cells, Run

LINE_COLUMNS = 160
"""Columns of lines and heat maps; offsets are finer."""
LINE_PANELS = (
    ("Throughput", "MB/s"),
    ("Requests a second", "IOPS"),
    ("Seeks a second", "Seeks/s"),
    ("Requests in flight", "Queue depth"),
)
"""Title and axis."""


@dataclass(frozen=True)
class Line:
    """Values by column of time."""

    name: str
    values: Any
    colour: str
    dash: str


def offset_unit(run: Run) -> tuple[str, float]:
    """GB, or MB for a trace that touched little."""
    return ("GB", 1e9) if run.high_bytes > 2e9 else ("MB", 1e6)


def latency_unit(runs: list[Run]) -> tuple[str, float]:
    """(unit, nanoseconds in it) that suits the latencies."""
    counts = sum((run.cells.latencies.sum(axis=1) for run in runs), np.zeros(1))
    if counts.sum() == 0:
        return "ms", 1e6
    median = LATENCY_FROM_NS * 10 ** (int(np.argmax(np.cumsum(counts) >= counts.sum() / 2)) / BINS_PER_DECADE)
    return ("ms", 1e6) if median >= 1e6 else ("us", 1e3)


def thousands(value: float, position: int | None = None) -> str:
    """A number on an axis: 60 000 as 60k. Matplotlib gives its position too."""
    return f"{value / 1000:g}k" if abs(value) >= 10_000 else f"{value:g}"


def lines_of(position: int, runs: list[Run], folded: list[Cells]) -> list[Line]:
    """The lines of a panel of LINE_PANELS: of one run reads and writes apart, of several one line a run."""
    found: list[Line] = []
    for index, (run, cells) in enumerate(zip(runs, folded, strict=True)):
        found += [
            Line(line.name, _until_end(line.values, run), line.colour, line.dash)
            for line in _lines_of_run(position, index, run, cells, alone=len(runs) == 1)
        ]
    return found


def _until_end(values: Any, run: Run) -> Any:
    """A run that ended earlier than another has no zeros after its end."""
    last = int(np.ceil(run.end_s / run.span_s * len(values)))
    return np.where(np.arange(len(values)) < max(last, 1), values, np.nan)


def _lines_of_run(position: int, index: int, run: Run, cells: Cells, *, alone: bool) -> list[Line]:
    colour, dash = CURVE_COLOURS[index], CURVE_DASHES[index]
    if position < 2:
        pair = cells.bytes_per_s / 1e6 if position == 0 else cells.iops
        if not alone:
            return [Line(run.label, pair.sum(axis=0), colour, dash)]
        both = (("reads", BLUE, "solid"), ("writes", VERMILLION, "dashed"))
        return [Line(name, pair[at], *style) for at, (name, *style) in enumerate(both) if run.has(at)]
    if position == 2:
        return [Line("seeks" if alone else run.label, cells.seeks_per_s, colour, dash)]
    mean = Line("mean" if alone else run.label, cells.depth_mean, colour, dash)
    return [Line("most", cells.depth_max.astype(float), GREY, "dotted"), mean] if alone else [mean]


def latency_bins(runs: list[Run]) -> tuple[int, int]:
    """First bin that holds something in any run, and one past the last."""
    filled = np.flatnonzero(np.sum([run.cells.latencies.sum(axis=1) for run in runs], axis=0))
    return max(0, int(filled[0]) - 1), int(filled[-1]) + 2
