"""Reordering of a disk's queue: the model's values with which random reads at several depths are as
fast as measured."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from headrace.drives.learning.loads import LoadResult, ScriptLoad, modelled_loads
from headrace.scenario import Table

REORDERINGS = tuple(each / 20 for each in range(21))
FINER = 5
"""Parts of a step of these, near the best."""
AGE_LIMITS_MS = (25.0, 50.0, 100.0, 200.0, 400.0, 700.0, 1000.0, 2000.0)
WINDOWS = (2, 3, 4, 6, 8, 12, 16, 24)
COMMITS_MS = (0.1, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
MODEL_REQUESTS = 2500
LEAST_DIFFERENCE = 0.04
"""Root mean square below which two settings cannot be told apart by such short loads."""


@dataclass(frozen=True)
class Reordering:
    """Values of the queue, and those that fit almost as well."""

    share: float
    share_low: float
    share_high: float
    age_limit_ms: float
    age_limit_seen: bool
    error: float
    """Root mean square of log(model/measured) over IOPS, median and p99."""
    window: int | None = None
    """Most commands that the drive chooses among; None: as many as wait."""
    windows_alike: tuple[int, ...] = ()
    """Windows that fit almost as well."""
    commit_ms: float | None = None
    """How long before the latest start the drive chooses; None: as soon as it is free."""
    commits_alike_ms: tuple[float, ...] = ()
    """Such times that fit almost as well."""


def with_queue(
    table: Table,
    share: float,
    age_limit_ms: float,
    window: int | None = None,
    commit_ms: float | None = None,
) -> Table:
    """Return the table with another reordering."""
    changed = copy.deepcopy(table)
    queue = cast("Table", changed["queue"])
    queue["reordering"], queue["age_limit_ms"] = share, age_limit_ms
    for name, value in (("window", window), ("commit_ms", commit_ms)):
        queue.pop(name, None)
        if value is not None:
            queue[name] = value
    return changed


def misfit(measured: LoadResult, modelled: LoadResult) -> float:
    """Return the mean square of log(model/measured); p99 counts half, as it is less certain."""
    logs = (
        math.log(modelled.iops / measured.iops),
        math.log(modelled.p50_s / measured.p50_s),
        0.5 * math.log(modelled.p99_s / measured.p99_s),
    )
    return sum(each * each for each in logs) / len(logs)


def learn_reordering(
    table: Table, measured: dict[ScriptLoad, LoadResult], say: Callable[[str], None]
) -> Reordering:
    """Return the reordering with which the model meets the measured loads best.

    A window, or a late choice, is learnt only if no reordering without one is about as good.
    """
    loads = [load for load in measured if load.depth > 1]

    def error_of(
        share: float, age_limit_ms: float, window: int | None, commit_ms: float | None = None
    ) -> float:
        tried = with_queue(table, share, age_limit_ms, window, commit_ms)
        modelled = modelled_loads(tried, loads, requests=MODEL_REQUESTS)
        squares = [
            misfit(measured[load], result) for load, result in zip(loads, modelled, strict=True)
        ]
        return float(np.sqrt(np.mean(squares)))

    say("reordering: the model is run with several values")
    plain = _best(error_of, (None,))
    late = _best_late(error_of)
    most = max(load.depth for load in loads)
    windows = tuple(window for window in WINDOWS if window < most)
    narrow = _best(error_of, windows) if windows else plain
    best = min(late, narrow, key=lambda each: each.error)
    if plain.error <= best.error + LEAST_DIFFERENCE / 2:
        return plain
    if best is late:
        return late
    alike = [
        window
        for window in windows
        if error_of(narrow.share, narrow.age_limit_ms, window) < narrow.error + LEAST_DIFFERENCE / 2
    ]
    return replace(narrow, windows_alike=tuple(alike))


def _between(share: float) -> list[float]:
    """Return the shares between one of `REORDERINGS` and its neighbours."""
    steps = (each for each in range(-FINER + 1, FINER) if each != 0)
    shares = [round(share + each / (20 * FINER), 4) for each in steps]
    return [each for each in shares if 0 < each < 1]


def _best_late(
    error_of: Callable[[float, float, int | None, float | None], float],
) -> Reordering:
    """Return the best values of a drive that chooses as late as it can."""
    coarse = {
        (share, commit_ms): error_of(share, 1000.0, None, commit_ms)
        for share in REORDERINGS[4::4]
        for commit_ms in COMMITS_MS[::2]
    }
    _, commit_ms = min(coarse, key=lambda each: coarse[each])
    found = _best(
        lambda share, age_limit_ms, window: error_of(share, age_limit_ms, window, commit_ms),
        (None,),
    )
    commits = {each: error_of(found.share, found.age_limit_ms, None, each) for each in COMMITS_MS}
    commit_ms = min(commits, key=lambda each: commits[each])
    most = commits[commit_ms] + LEAST_DIFFERENCE / 2
    return replace(
        found,
        error=commits[commit_ms],
        commit_ms=commit_ms,
        commits_alike_ms=tuple(each for each, error in commits.items() if error < most),
    )


def _best(
    error_of: Callable[[float, float, int | None], float], windows: Sequence[int | None]
) -> Reordering:
    """Return the best values with one of these windows."""
    coarse = {
        (share, window): error_of(share, 1000.0, window)
        for window in windows
        for share in REORDERINGS[:: 2 if window is None else 4]
    }
    share, window = min(coarse, key=lambda each: coarse[each])
    ages = {limit_ms: error_of(share, limit_ms, window) for limit_ms in AGE_LIMITS_MS}
    age_limit_ms = min(ages, key=lambda each: ages[each])
    seen = ages[AGE_LIMITS_MS[-1]] > ages[age_limit_ms] + LEAST_DIFFERENCE / 2
    if not seen:
        # With a short limit a disk that does not reorder looks like any other.
        age_limit_ms = 1000.0
    fine = {each: error_of(each, age_limit_ms, window) for each in REORDERINGS}
    share = min(fine, key=lambda each: fine[each])
    # The model chooses among whole numbers of commands: a step between two shares of the grid is
    # one command more at some of the depths.
    for each in _between(share):
        fine[each] = error_of(each, age_limit_ms, window)
    share = min(fine, key=lambda each: fine[each])
    alike = [each for each, error in fine.items() if error < fine[share] + LEAST_DIFFERENCE / 2]
    return Reordering(share, min(alike), max(alike), age_limit_ms, seen, fine[share], window)
