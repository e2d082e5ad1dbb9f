"""What the panels of a picture show, still or interactive: units, lines with their names and colours, the bins of latency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.palette import BLUE, CURVE_COLOURS, CURVE_DASHES, GREY, VERMILLION
from headrace.traces.tiles import BINS_PER_DECADE, LATENCY_FROM_NS, Cells, Run

COARSER = 3
"""Columns of the offsets in one column of lines and heat maps."""
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
        colour, dash = CURVE_COLOURS[index], CURVE_DASHES[index]
        if position < 2:
            pair = cells.bytes_per_s / 1e6 if position == 0 else cells.iops
            if len(runs) > 1:
                found.append(Line(run.label, pair.sum(axis=0), colour, dash))
                continue
            both = (("reads", BLUE, "solid"), ("writes", VERMILLION, "dashed"))
            found += [Line(name, pair[at], *style) for at, (name, *style) in enumerate(both) if run.has(at)]
        elif position == 2:
            found.append(Line(run.label if len(runs) > 1 else "seeks", cells.seeks_per_s, colour, dash))
        else:
            if len(runs) == 1:
                found.append(Line("most", cells.depth_max.astype(float), GREY, "dotted"))
            found.append(Line(run.label if len(runs) > 1 else "mean", cells.depth_mean, colour, dash))
    return found


def latency_bins(runs: list[Run]) -> tuple[int, int]:
    """First bin that holds something in any run, and one past the last."""
    filled = np.flatnonzero(np.sum([run.cells.latencies.sum(axis=1) for run in runs], axis=0))
    return max(0, int(filled[0]) - 1), int(filled[-1]) + 2
