"""Reordering of a disk's queue: the model's values with which random reads at several depths are as
fast as measured."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np

from headrace.drives.learning.loads import LoadResult, ScriptLoad, modelled_loads
from headrace.scenario import Table

REORDERINGS = tuple(each / 20 for each in range(21))
AGE_LIMITS_MS = (25.0, 50.0, 100.0, 200.0, 400.0, 700.0, 1000.0, 2000.0)
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


def with_queue(table: Table, share: float, age_limit_ms: float) -> Table:
    """Return the table with another reordering."""
    changed = copy.deepcopy(table)
    queue = cast("Table", changed["queue"])
    queue["reordering"], queue["age_limit_ms"] = share, age_limit_ms
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
    """Return the reordering with which the model meets the measured loads best."""
    loads = [load for load in measured if load.depth > 1]

    def error_of(share: float, age_limit_ms: float) -> float:
        tried = with_queue(table, share, age_limit_ms)
        modelled = modelled_loads(tried, loads, requests=MODEL_REQUESTS)
        squares = [
            misfit(measured[load], result) for load, result in zip(loads, modelled, strict=True)
        ]
        return float(np.sqrt(np.mean(squares)))

    say("reordering: the model is run with several values")
    coarse = {share: error_of(share, 1000.0) for share in REORDERINGS[::2]}
    share = min(coarse, key=lambda each: coarse[each])
    ages = {limit_ms: error_of(share, limit_ms) for limit_ms in AGE_LIMITS_MS}
    age_limit_ms = min(ages, key=lambda each: ages[each])
    fine = {each: error_of(each, age_limit_ms) for each in REORDERINGS}
    share = min(fine, key=lambda each: fine[each])
    alike = [each for each, error in fine.items() if error < fine[share] + LEAST_DIFFERENCE / 2]
    seen = ages[AGE_LIMITS_MS[-1]] > ages[age_limit_ms] + LEAST_DIFFERENCE / 2
    if not seen:
        age_limit_ms = 1000.0
    return Reordering(share, min(alike), max(alike), age_limit_ms, seen, fine[share])
