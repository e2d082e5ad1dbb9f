"""What is compared of a measured and of a simulated cell: rate, CPU time and waits per work."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.records.interference import Interference


@dataclass(frozen=True)
class ObservedCell:
    """One trial, or the mean of several."""

    seconds: float
    """Time per work: per event, per byte where there are no events, per job where neither."""
    cpu: float
    """CPU seconds of the jobs per work."""
    wait: float
    """Seconds in which jobs waited for block I/O, network and the rest of the storage, per work."""
    work: float
    """Work of one trial."""
    open: float | None = None
    """Of `wait`, seconds until the jobs' files were open, per work; None where not measured."""
    doubt: float = 0.0
    """Relative standard error of `seconds`."""
    served: float | None = None
    """CPU seconds that servers and the kernel spent for the jobs on the jobs' own cores, per work;
    None where not known, as of servers with cores of their own."""

    @property
    def wall(self) -> float:
        """Seconds of jobs per work, at most: CPU and waits."""
        return self.cpu + self.wait


def observed(row: Mapping[str, object]) -> ObservedCell | None:
    """Return a trial from a row of `Records.trials` or the sums of a record; None if nothing was
    done."""

    def number(name: str) -> float:
        value = row.get(name)
        return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0.0

    sustained = row.get("load") == "sustained" and number("window_s") > 0
    prefix = "window_" if sustained else ""
    time_s = number("window_s") if sustained else number("last_done_s")

    def work(before: str) -> float:
        size = number(f"{before}bytes_asked") + number(f"{before}bytes_written")
        return number(f"{before}events") or size or number("jobs")

    done, whole = work(prefix), work("")
    if not (done > 0 and whole > 0 and time_s > 0):
        return None
    waits = ("wait_block_s", "wait_network_s", "other_s")
    opening = row.get("open_s")
    opening = float(opening) if isinstance(opening, (int, float)) else math.nan
    return ObservedCell(
        time_s / done,
        number("on_cpu_s") / whole,
        sum(map(number, waits)) / whole,
        done,
        open=opening / whole if math.isfinite(opening) else None,
        served=None if (spent := _served_s(row)) is None else spent / whole,
    )


def _served_s(row: Mapping[str, object]) -> float | None:
    """Return the CPU seconds on the nodes that neither jobs nor other programs used."""
    found = row.get("interference")
    if isinstance(found, Interference):
        others_s = found.idle_s + found.steal_s + found.foreign_s
        return max(0.0, found.capacity_s - others_s - found.jobs_s)
    busy_s, jobs_s = row.get("cpu_busy_s"), row.get("on_cpu_s")
    simulated = row.get("engine") == "simulate"
    if simulated and isinstance(busy_s, float) and isinstance(jobs_s, (int, float)):
        return max(0.0, busy_s - jobs_s)
    return None


def mean(trials: Sequence[ObservedCell]) -> ObservedCell:
    """Return the mean of trials of one cell."""
    seconds = np.array([each.seconds for each in trials])
    count = len(trials)
    doubt = float(seconds.std(ddof=1) / seconds.mean() / math.sqrt(count)) if count > 1 else 0.0
    return ObservedCell(
        float(seconds.mean()),
        float(np.mean([each.cpu for each in trials])),
        float(np.mean([each.wait for each in trials])),
        float(np.mean([each.work for each in trials])),
        _mean_if_known([each.open for each in trials]),
        doubt,
        _mean_if_known([each.served for each in trials]),
    )


def _mean_if_known(values: Sequence[float | None]) -> float | None:
    """Return the mean, or None where one of the values is not known."""
    known = [each for each in values if each is not None]
    return float(np.mean(known)) if len(known) == len(values) else None
