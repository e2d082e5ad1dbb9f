"""How much the CPU times of a workload's jobs differ, from jobs that ran side by side.

Jobs that are exactly alike fall into step: on a hard disk they then all wait for the same turn of
the platter again and again, and one of several outcomes comes out of every repeat. Real jobs differ
by some percent, and so do their outcomes.

Jobs of one trial are compared with one another. From trial to trial the whole machine may be
faster or slower, for all jobs alike: that is no difference between jobs, and would make the last of
a few jobs end too late in virtual time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.analysis.metrics import valid_trials
from headrace.analysis.read import Records

LEAST = 0.01
"""Smaller spreads change nothing that could be seen."""
MOST = 0.5
_FEWEST = 4
"""Fewest degrees of freedom of an estimate."""


@dataclass(frozen=True)
class JobsOfTrial:
    """The jobs of one valid trial."""

    workload: str
    cpu: Sequence[float]
    """CPU time of each: seconds per event, per job where jobs have no events."""


def jobs_side_by_side(records: Records, cells: Iterable[str]) -> list[JobsOfTrial]:
    """Return the jobs of these cells' valid trials. Raises HeadraceError for a damaged file."""
    wanted, found = set(cells), list[JobsOfTrial]()
    for row in valid_trials(records).to_dict("records"):
        if row["cell"] not in wanted:
            continue
        jobs = records.trial_jobs(str(row["id"]), ["on_cpu_s", "events"])
        events = jobs["events"].to_numpy(dtype=float)
        cpu = jobs["on_cpu_s"].to_numpy(dtype=float) / (events if (events > 0).all() else 1.0)
        found.append(JobsOfTrial(str(row["workload"]), cpu.tolist()))
    return found


def cpu_spreads(trials: Iterable[JobsOfTrial]) -> dict[str, float]:
    """Return for each workload by which share the CPU times of its jobs differ, at most.

    A job's CPU time is multiplied by a factor drawn uniformly from 1 - share to 1 + share, which
    has a standard deviation of share / sqrt(3). Workloads of which too few jobs ran side by side,
    or whose jobs hardly differ, are left out.
    """
    squares: dict[str, float] = {}
    degrees: dict[str, int] = {}
    for trial in trials:
        cpu = np.array(trial.cpu)
        if len(cpu) < 2 or not np.isfinite(cpu).all() or cpu.mean() <= 0:
            continue
        name, count = trial.workload, len(cpu) - 1
        variance = float(cpu.var(ddof=1)) / float(cpu.mean()) ** 2
        squares[name] = squares.get(name, 0.0) + variance * count
        degrees[name] = degrees.get(name, 0) + count
    found = {
        name: math.sqrt(3 * square / degrees[name])
        for name, square in squares.items()
        if degrees[name] >= _FEWEST
    }
    return {name: min(share, MOST) for name, share in found.items() if share >= LEAST}
