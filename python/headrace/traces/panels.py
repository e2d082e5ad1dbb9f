"""Contents of picture panels: units, lines with names and colours, latency bins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.palette import BLUE, CURVE_COLOURS, CURVE_DASHES, GREY, VERMILLION
from headrace.traces.tiles import (
    BINS_PER_DECADE,
    LATENCY_FROM_NS,
    DrawableTrace,
    Offsets,
    TraceCells,
)

LINE_COLUMNS = 160
"""Columns of lines and heat maps; offsets are finer."""
LINE_PANELS = (
    ("Throughput", "MB/s"),
    ("Requests a second", "IOPS"),
    ("Seeks a second", "Seeks/s"),
    ("Requests in flight", "Queue depth"),
)
"""(title, axis label)."""
DEPTH = 3
"""Index of the queue depth in it."""


@dataclass(frozen=True)
class Line:
    """Values by time column."""

    name: str
    values: Any
    colour: str
    dash: str


def offset_unit(panel: Offsets) -> tuple[str, float]:
    """Return (unit, bytes in it): GB, or MB for small offsets."""
    return ("GB", 1e9) if panel.high_bytes > 2e9 else ("MB", 1e6)


def line_positions(runs: list[DrawableTrace]) -> list[int]:
    """Return the indices of LINE_PANELS with content: without the queue depth if no trace has
    it."""
    known = any(run.depth_is_known for run in runs)
    return [at for at in range(len(LINE_PANELS)) if at != DEPTH or known]


def latency_unit(runs: list[DrawableTrace]) -> tuple[str, float]:
    """Return (unit, nanoseconds in it) for the latencies' magnitude."""
    counts = sum((run.cells.latencies.sum(axis=1) for run in runs), np.zeros(1))
    if counts.sum() == 0:
        return "ms", 1e6
    median = LATENCY_FROM_NS * 10 ** (
        int(np.argmax(np.cumsum(counts) >= counts.sum() / 2)) / BINS_PER_DECADE
    )
    return ("ms", 1e6) if median >= 1e6 else ("us", 1e3)


def thousands(value: float, position: int | None = None) -> str:
    """Format a number on an axis: 60 000 as 60k. Matplotlib passes its position too."""
    return f"{value / 1000:g}k" if abs(value) >= 10_000 else f"{value:g}"


def lines_of(position: int, runs: list[DrawableTrace], folded: list[TraceCells]) -> list[Line]:
    """Return the lines of a LINE_PANELS panel: separate reads and writes of one run, or one line
    per run of several."""
    found: list[Line] = []
    for index, (run, cells) in enumerate(zip(runs, folded, strict=True)):
        if position == DEPTH and not run.depth_is_known:
            continue
        found += [
            Line(line.name, _until_end(line.values, run), line.colour, line.dash)
            for line in _lines_of_run(position, index, run, cells, alone=len(runs) == 1)
        ]
    return found


def _until_end(values: Any, run: DrawableTrace) -> Any:
    """Replace zeros after a run's end by NaN: another run can last longer."""
    last = int(np.ceil(run.end_s / run.span_s * len(values)))
    return np.where(np.arange(len(values)) < max(last, 1), values, np.nan)


def _lines_of_run(
    position: int, index: int, run: DrawableTrace, cells: TraceCells, *, alone: bool
) -> list[Line]:
    colour, dash = CURVE_COLOURS[index], CURVE_DASHES[index]
    if position < 2:
        pair = cells.bytes_per_s / 1e6 if position == 0 else cells.iops
        if not alone:
            return [Line(run.label, pair.sum(axis=0), colour, dash)]
        both = (("reads", BLUE, "solid"), ("writes", VERMILLION, "dashed"))
        return [
            Line(name, pair[at], *style) for at, (name, *style) in enumerate(both) if run.has(at)
        ]
    if position == 2:
        return [Line("seeks" if alone else run.label, cells.seeks_per_s, colour, dash)]
    mean = Line("mean" if alone else run.label, cells.depth_mean, colour, dash)
    return [Line("most", cells.depth_max.astype(float), GREY, "dotted"), mean] if alone else [mean]


def latency_bins(runs: list[DrawableTrace]) -> tuple[int, int]:
    """Return the first bin that any run fills, and one past the last."""
    filled = np.flatnonzero(np.sum([run.cells.latencies.sum(axis=1) for run in runs], axis=0))
    return max(0, int(filled[0]) - 1), int(filled[-1]) + 2
