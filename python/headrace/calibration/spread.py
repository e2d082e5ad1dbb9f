"""How much the CPU times of a workload's jobs differ, from the repeats of measured cells.

Jobs that are exactly alike fall into step: on a hard disk they then all wait for the same turn of
the platter again and again, and one of several outcomes comes out of every repeat. Real jobs differ
by some percent, and so do their outcomes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.calibration.observed import ObservedCell

LEAST = 0.01
"""Smaller spreads change nothing that could be seen."""
MOST = 0.5
_FEWEST = 4
"""Fewest degrees of freedom of an estimate."""


@dataclass(frozen=True)
class RepeatedCell:
    """The valid trials of one cell."""

    workload: str
    jobs: int
    """Jobs of one trial."""
    trials: Sequence[ObservedCell]


def cpu_spreads(cells: Iterable[RepeatedCell]) -> dict[str, float]:
    """Return for each workload by which share the CPU times of its jobs differ, at most.

    A job's CPU time is multiplied by a factor drawn uniformly from 1 - share to 1 + share, which
    has a standard deviation of share / sqrt(3). The mean of n jobs scatters by 1 / sqrt(n) of
    that. Workloads with too few repeats, or hardly any scatter, are left out.
    """
    squares: dict[str, float] = {}
    degrees: dict[str, int] = {}
    for cell in cells:
        cpu = np.array([each.cpu for each in cell.trials])
        if len(cpu) < 2 or cpu.mean() <= 0:
            continue
        variance = float(cpu.var(ddof=1)) / float(cpu.mean()) ** 2 * cell.jobs
        name, count = cell.workload, len(cpu) - 1
        squares[name] = squares.get(name, 0.0) + variance * count
        degrees[name] = degrees.get(name, 0) + count
    found = {
        name: math.sqrt(3 * square / degrees[name])
        for name, square in squares.items()
        if degrees[name] >= _FEWEST
    }
    return {name: min(share, MOST) for name, share in found.items() if share >= LEAST}
