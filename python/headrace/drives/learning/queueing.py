"""Reordering of a disk's queue: the model's values with which random reads at several depths are as
fast as measured."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np

from headrace.drives.learning.loads import LoadResult, ScriptLoad, each_modelled_load
from headrace.scenario import Table

REORDERINGS = tuple(each / 20 for each in range(21))
FINER = 5
"""Parts of a step of these, near the best."""
AGE_LIMITS_MS = (
    25.0,
    50.0,
    70.0,
    100.0,
    140.0,
    200.0,
    280.0,
    400.0,
    560.0,
    800.0,
    1100.0,
    1500.0,
    2000.0,
)
NO_AGE_LIMIT_MS = AGE_LIMITS_MS[-1]
FINER_AGES = (0.84, 0.92, 1.09, 1.19)
"""Parts of the best one that are tried, too: close to its limit a disk serves more and more reads
in order, so that others wait longer still; a small part more or less changes half of its rate."""
LONGER = 1.3
"""Limit of age, divided by the greatest p99, up to which more than a few reads can reach it."""
MISSED = 0.03
"""Error above which a limit of age is sought together with the shares."""
COARSER = 0.05
"""Error that values of a coarse grid may have more than the best ones near them."""
WINDOWS = (2, 3, 4, 6, 8, 12, 16, 24)
COMMITS_MS = (0.1, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
MODEL_REQUESTS = 2500
LEAST_DIFFERENCE = 0.04
"""Root mean square below which two settings cannot be told apart by such short loads."""
ALIKE = LEAST_DIFFERENCE / 2
"""Error beyond that of the best values up to which others fit almost as well."""


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
    model = _QueueModel(table, {load: measured[load] for load in measured if load.depth > 1})
    say("reordering: the model is run with several values")
    plain = _best(model, (None,))
    if plain.error <= ALIKE:  # no other can be better by more
        return plain
    late = _best_late(model, plain)
    most = max(load.depth for load in model.measured)
    windows = tuple(window for window in WINDOWS if window < most)
    narrow = _best(model, windows, known=plain.error - ALIKE) if windows else plain
    best = min(late, narrow, key=lambda each: each.error)
    if plain.error <= best.error + ALIKE:
        return plain
    if best is late:
        return late
    by_window = model.errors(
        _QueueValues(narrow.share, narrow.age_limit_ms, each) for each in windows
    )
    alike = [each.window for each, error in by_window.items() if error < narrow.error + ALIKE]
    return replace(narrow, windows_alike=tuple(each for each in alike if each is not None))


class _QueueValues(NamedTuple):
    """Values of the queue that are tried."""

    share: float
    age_limit_ms: float = 1000.0
    window: int | None = None
    commit_ms: float | None = None


class _QueueModel:
    """How far the model of a disk misses the measured loads, with values of its queue."""

    def __init__(self, table: Table, measured: dict[ScriptLoad, LoadResult]) -> None:
        # Deep loads tell most, and spare the others where they are missed.
        self.measured = {each: measured[each] for each in sorted(measured, key=_depth_first)}
        self._table = table
        self._known: dict[_QueueValues, float] = {}
        self._at_least: dict[_QueueValues, float] = {}
        longest_ms = 1e3 * max(each.p99_s for each in measured.values())
        self.age_limits_ms = [
            *(each for each in AGE_LIMITS_MS[:-1] if each < LONGER * longest_ms),
            NO_AGE_LIMIT_MS,
        ]
        """Those that some reads can reach, and one that none does."""

    def errors(
        self, queues: Iterable[_QueueValues], known: float = math.inf
    ) -> dict[_QueueValues, float]:
        """Return the error of each; infinity where it is beyond the least one, or `known`, by more
        than `ALIKE`: most of a search are, and that shows after a few loads."""
        found: dict[_QueueValues, float] = {}
        least = known
        for queue in queues:
            found[queue] = self._error(queue, least + ALIKE)
            least = min(least, found[queue])
        return found

    def _error(self, queue: _QueueValues, most: float) -> float:
        if queue in self._known:
            return self._known[queue]
        if self._at_least.get(queue, 0.0) > most:
            return math.inf
        modelled = each_modelled_load(
            with_queue(self._table, *queue), self.measured, requests=MODEL_REQUESTS
        )
        squares: list[float] = []
        for real, model in zip(self.measured.values(), modelled, strict=True):
            squares.append(misfit(real, model))
            at_least = math.sqrt(sum(squares) / len(self.measured))
            if at_least > most and len(squares) < len(self.measured):
                self._at_least[queue] = at_least
                return math.inf
        self._known[queue] = float(np.sqrt(np.mean(squares)))
        return self._known[queue]


def _between(share: float) -> list[float]:
    """Return the shares between one of `REORDERINGS` and its neighbours."""
    steps = (each for each in range(-FINER + 1, FINER) if each != 0)
    shares = [round(share + each / (20 * FINER), 4) for each in steps]
    return [each for each in shares if 0 < each < 1]


def _best_late(model: _QueueModel, plain: Reordering) -> Reordering:
    """Return the best values of a drive that chooses as late as it can; its error is infinite if
    none are better than `plain`."""
    coarse = model.errors(
        _QueueValues(share, commit_ms=commit_ms)
        for share in REORDERINGS[4::4]
        for commit_ms in COMMITS_MS[::2]
    )
    found = _best(model, (None,), _least(coarse).commit_ms, known=plain.error - ALIKE)
    if math.isinf(found.error):
        return found
    commits = model.errors(
        _QueueValues(found.share, found.age_limit_ms, commit_ms=each) for each in COMMITS_MS
    )
    best = _least(commits)
    alike = [each.commit_ms for each, error in commits.items() if error < commits[best] + ALIKE]
    return replace(
        found,
        error=commits[best],
        commit_ms=best.commit_ms,
        commits_alike_ms=tuple(each for each in alike if each is not None),
    )


def _best(
    model: _QueueModel,
    windows: Sequence[int | None],
    commit_ms: float | None = None,
    known: float = math.inf,
) -> Reordering:
    """Return the best values with one of these windows. Their error is infinite if the search for
    the age limit ends above `known`, the error that they would have to beat."""
    shares = REORDERINGS[:: 2 if windows == (None,) else 4]
    coarse = model.errors(
        (
            _QueueValues(share, window=window, commit_ms=commit_ms)
            for window in windows
            for share in shares
        ),
        known=math.inf if known > MISSED else known + COARSER,
    )
    begin = without = _least(coarse)
    if math.isinf(coarse[begin]):
        return Reordering(0.0, 0.0, 0.0, begin.age_limit_ms, False, math.inf)
    if coarse[begin] > MISSED:
        # Reads that are too old hide at the great depths what the share does.
        begin = _least(coarse | model.errors(_with_ages(model, begin, shares), known=coarse[begin]))
    aged, seen, error = _aged(model, begin)
    if seen and coarse[without] <= error + ALIKE:
        # With a short limit any share serves reads in order, as a disk that does not reorder.
        aged, seen, error = without, False, coarse[without]
    if error > known + ALIKE:  # finer shares do not gain as much
        share, limit_ms = aged.share, aged.age_limit_ms
        return Reordering(share, share, share, limit_ms, seen, math.inf, aged.window)
    fine = model.errors(aged._replace(share=each) for each in REORDERINGS)
    best = _least(fine)
    # The model chooses among whole numbers of commands: a step between two shares of the grid is
    # one command more at some of the depths.
    between = (aged._replace(share=each) for each in _between(best.share))
    fine |= model.errors(between, known=fine[best])
    best = _least(fine)
    alike = [each.share for each, error in fine.items() if error < fine[best] + ALIKE]
    return Reordering(
        best.share,
        min(alike),
        max(alike),
        aged.age_limit_ms,
        seen,
        fine[best],
        best.window,
    )


def _with_ages(
    model: _QueueModel, begin: _QueueValues, shares: Sequence[float]
) -> Iterable[_QueueValues]:
    """Return values with each of the shares and limits of age, the longest limits first."""
    for limit_ms in reversed(model.age_limits_ms[:-1]):
        for share in shares[1:]:
            yield begin._replace(share=share, age_limit_ms=limit_ms)


def _aged(model: _QueueModel, begin: _QueueValues) -> tuple[_QueueValues, bool, float]:
    """Return values with the best limit of age, whether it is seen, and the error."""
    ages = model.errors(begin._replace(age_limit_ms=limit_ms) for limit_ms in model.age_limits_ms)
    aged = _least(ages)
    finer = (aged._replace(age_limit_ms=part * aged.age_limit_ms) for part in FINER_AGES)
    ages |= model.errors(finer, known=ages[aged])
    aged = _least(ages)
    if ages[begin._replace(age_limit_ms=NO_AGE_LIMIT_MS)] > ages[aged] + ALIKE:
        return aged, True, ages[aged]
    # With a short limit a disk that does not reorder looks like any other.
    return begin._replace(age_limit_ms=_QueueValues(0.0).age_limit_ms), False, ages[aged]


def _depth_first(load: ScriptLoad) -> tuple[int, int]:
    return -load.depth, load.sectors


def _least(errors: dict[_QueueValues, float]) -> _QueueValues:
    """Return the values with the least error, the first of them."""
    return min(errors, key=lambda each: errors[each])
