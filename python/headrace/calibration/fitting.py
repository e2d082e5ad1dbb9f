"""Fit the parameters of a site to measured cells, and say which they do not determine.

Least squares (scipy, bounded trust region) on differences per cell: of the logarithm of the time
per work, of the logarithm of the CPU time, of the waits as a share of the time, and, where they
are known, of those for open files and of the CPU time of servers on the jobs' cores. A parameter
is undetermined if it changes no difference by more than `LEAST_EFFECT` over its whole range, or if
its standard error is above `MOST_FACTOR` and a fit with its default is as good: the least
determined one keeps its default, and the others are fitted again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from headrace.calibration.choices import Choices
from headrace.calibration.observed import ObservedCell
from headrace.calibration.parameters import Learnable

Numbers = npt.NDArray[np.float64]
LEAST_EFFECT = 0.02
"""Least change of a difference, in units of a cell's uncertainty of `FLOOR`, over the range."""
MOST_FACTOR = 1.5
"""Standard error, as a factor of the value, above which a value would be a guess."""
MOST_SHARE_ERROR = 0.1
"""The same for shares, as a difference."""
FLOOR = 0.02
"""Least relative uncertainty of a measured cell: models are not better."""
LEAST_GAIN = 1.92
"""Least loss of the fit by a parameter's default, in units of the scatter, that refuses the default
(95 %, one degree of freedom)."""
CPU_FLOOR = 0.02
WAIT_FLOOR = 0.04
"""Waits count as shares of the time per work of a job."""
LEAST_CPU = 0.02
"""Share of the jobs' time that CPU time must have to be compared."""
PARTS = 5
"""Differences of each cell."""
STEP = 0.03
"""Share of a parameter's range, for finite differences."""

Simulate = Callable[[dict[str, float], Sequence[int]], list[ObservedCell | None]]
"""Values by name, and numbers of cells -> what a simulation with them gives for these cells."""


@dataclass(frozen=True)
class MeasuredCell:
    """A cell that values are fitted to."""

    target: str
    workload: str
    choices: Choices
    observed: ObservedCell


@dataclass(frozen=True)
class Learnt:
    """One parameter after the fit."""

    parameter: Learnable
    value: float
    low: float
    """Lower end of the 95 % interval."""
    high: float


@dataclass(frozen=True)
class Undetermined:
    """A parameter that the measured cells do not determine; it keeps the catalog's value."""

    parameter: Learnable
    why: str


@dataclass(frozen=True)
class SiteFit:
    """The result of a fit."""

    learnt: tuple[Learnt, ...]
    undetermined: tuple[Undetermined, ...]
    simulations: int

    @property
    def values(self) -> dict[str, float]:
        """Learnt values by name."""
        return {each.parameter.name: each.value for each in self.learnt}


Kept = tuple[int, tuple[tuple[str, float], ...]]
"""A cell, and the values that act on it."""


@dataclass
class _Fitter:
    cells: Sequence[MeasuredCell]
    simulate: Simulate
    simulations: int = 0
    known: dict[Kept, Numbers] = field(default_factory=dict[Kept, Numbers])

    def differences(
        self, free: Sequence[Learnable], at: Numbers, numbers: Sequence[int] | None = None
    ) -> Numbers:
        """Return the differences of the cells, `PARTS` for each; of all cells when None.

        Only what is not known is simulated: a value that does not act on a cell changes nothing.
        """
        chosen = range(len(self.cells)) if numbers is None else numbers
        values = {each.name: each.value(float(x)) for each, x in zip(free, at, strict=True)}
        keys = {number: self._key(number, free, values) for number in chosen}
        missing = [number for number in chosen if keys[number] not in self.known]
        if missing:
            self.simulations += len(missing)
            for number, made in zip(missing, self.simulate(values, missing), strict=True):
                self.known[keys[number]] = _difference(self.cells[number].observed, made)
        return np.concatenate([np.zeros(0), *(self.known[keys[number]] for number in chosen)])

    def _key(self, number: int, free: Sequence[Learnable], values: dict[str, float]) -> Kept:
        acting = (each.name for each in free if self._acts(each, number))
        return number, tuple((name, values[name]) for name in acting)

    def _acts(self, each: Learnable, number: int) -> bool:
        cell = self.cells[number]
        return each.acts_on(cell.target, cell.workload, cell.choices)

    def acted_on(self, each: Learnable) -> list[int]:
        """Return the cells that a parameter can change."""
        return [number for number in range(len(self.cells)) if self._acts(each, number)]

    def slopes(self, free: Sequence[Learnable], at: Numbers) -> Numbers:
        """Return the derivatives."""
        base = self.differences(free, at)
        found = np.zeros((len(base), len(free)))
        for column, each in enumerate(free):
            step = STEP if at[column] + STEP <= 1 else -STEP
            moved = at.copy()
            moved[column] += step
            numbers = self.acted_on(each)
            rows = np.array(_rows(numbers), dtype=int)
            change = self.differences(free, moved, numbers) - base[rows]
            found[rows, column] = change / step
        return found


def _difference(real: ObservedCell, made: ObservedCell | None) -> Numbers:
    if made is None:
        return np.array([10.0] + [0.0] * (PARTS - 1))
    time = math.log(made.seconds / real.seconds) / math.hypot(FLOOR, real.doubt)
    cpu = 0.0
    if real.cpu > LEAST_CPU * real.wall and made.cpu > 0:
        cpu = math.log(made.cpu / real.cpu) / math.hypot(CPU_FLOOR, real.doubt)
    wait = opening = served = 0.0
    if real.wall > 0:
        share = real.wall * math.hypot(WAIT_FLOOR, real.doubt)
        wait = (made.wait - real.wait) / share
        if real.open is not None and made.open is not None:
            opening = (made.open - real.open) / share
        if real.served is not None and made.served is not None:
            served = (made.served - real.served) / share
    return np.array([time, cpu, wait, opening, served])


def _rows(numbers: Sequence[int]) -> list[int]:
    """Return the places of the differences of cells."""
    return [PARTS * number + part for number in numbers for part in range(PARTS)]


def fit(cells: Sequence[MeasuredCell], free: Sequence[Learnable], simulate: Simulate) -> SiteFit:
    """Fit the parameters to the cells."""
    fitter = _Fitter(cells, simulate)
    left, undetermined = _with_effect(fitter, free)
    best = _fitted(fitter, left, {})
    needed: set[str] = set()
    while worst := _least_determined(left, best, needed):
        # One of each target at a time; only the worst where that makes the fit worse.
        for gone in (worst, worst[:1]):
            tried = _fitted(fitter, _without(left, gone), best.by_name(left))
            if tried.cost - best.cost <= LEAST_GAIN * best.scatter:
                undetermined += [Undetermined(left[each], _why(left, best, each)) for each in gone]
                left, best = _without(left, gone), tried
                break
        else:
            needed.add(left[worst[0]].name)  # the default is refused, though the value is vague
    found = tuple(
        _learnt(each, float(at), float(error))
        for each, at, error in zip(left, best.at, best.errors, strict=True)
    )
    return SiteFit(found, tuple(undetermined), fitter.simulations)


def _without(free: Sequence[Learnable], gone: Sequence[int]) -> list[Learnable]:
    return [each for number, each in enumerate(free) if number not in gone]


def _why(free: Sequence[Learnable], best: _Best, number: int) -> str:
    alike = best.alike[number]
    if alike is None:
        return "its effect is too small compared with the scatter"
    return f"its effect cannot be distinguished from that of {free[alike].name}"


def _least_determined(free: Sequence[Learnable], best: _Best, needed: set[str]) -> list[int]:
    """Return the parameters that are least determined, one of each target; the worst first."""
    found: dict[str | None, tuple[float, int]] = {}
    for number, (each, error) in enumerate(zip(free, best.errors, strict=True)):
        if each.unit == "share":
            doubt = float(error) * (each.high - each.low) / MOST_SHARE_ERROR
        else:
            doubt = float(error) * math.log(each.high / each.low) / math.log(MOST_FACTOR)
        if doubt > max(1.0, found.get(each.target, (0.0, 0))[0]) and each.name not in needed:
            found[each.target] = doubt, number
    return [number for _, number in sorted(found.values(), reverse=True)]


@dataclass(frozen=True)
class _Best:
    """The best point of some parameters."""

    at: Numbers
    errors: Numbers
    """Standard errors, on the scale of 0 to 1."""
    alike: tuple[int | None, ...]
    """For each parameter another one that acts alike (correlation above 0.9)."""
    cost: float
    """Half the sum of the squared differences, outliers counted less."""
    scatter: float
    """Variance of a difference; 1 where the cells scatter no more than their uncertainty."""

    def by_name(self, free: Sequence[Learnable]) -> dict[str, float]:
        """Return the point as scaled values by name."""
        return {each.name: float(at) for each, at in zip(free, self.at, strict=True)}


def _with_effect(
    fitter: _Fitter, free: Sequence[Learnable]
) -> tuple[list[Learnable], list[Undetermined]]:
    """Split the parameters into those that change a cell somewhere in their range, and others."""
    base = fitter.differences((), np.zeros(0))
    left: list[Learnable] = []
    without: list[Undetermined] = []
    for each in free:
        effect = 0.0
        for share in (0.15, 0.85):
            numbers = fitter.acted_on(each)
            ends = fitter.differences((each,), np.array([share]), numbers)
            change = np.abs(ends - base[_rows(numbers)])
            effect = max(effect, float(change.max(initial=0.0)))
        if effect * FLOOR > LEAST_EFFECT:
            left.append(each)
        else:
            without.append(Undetermined(each, "it changes none of the measured cells"))
    return left, without


def _fitted(fitter: _Fitter, free: Sequence[Learnable], begin: dict[str, float]) -> _Best:
    """Return the best point of these parameters; the others have their defaults.

    `begin`: scaled values by name to start at; otherwise at the defaults.
    """
    defaults = [begin.get(each.name, each.scaled(each.start)) for each in free]
    start = np.clip(np.array(defaults), 0.01, 0.99)

    def differences(at: Numbers) -> Numbers:
        return fitter.differences(free, at)

    def slopes(at: Numbers) -> Numbers:
        return fitter.slopes(free, at)

    if not free:
        # The same loss as below, so that costs can be compared.
        cost = float((np.sqrt(1 + differences(start) ** 2) - 1).sum())
        return _Best(start, start, (), cost, 1.0)
    made: Any = least_squares(
        differences, start, jac=cast("Any", slopes), bounds=(0.0, 1.0), x_scale=0.1, loss="soft_l1",
        xtol=2e-3, ftol=2e-3, max_nfev=8 if begin else 15,
    )  # fmt: skip
    at: Numbers = made.x
    matrix = slopes(at)
    degrees = max(int(np.count_nonzero(np.abs(matrix).sum(axis=1))) - len(free), 1)
    scatter = max(1.0, 2 * float(made.cost) / degrees)
    # A direction without any effect gets a large but finite variance.
    covariance = np.linalg.inv(matrix.T @ matrix + 1e-3 * np.eye(len(free))) * scatter
    errors = np.sqrt(np.diag(covariance))
    correlation = np.abs(covariance / np.outer(errors, errors)) - np.eye(len(free))
    alike = tuple(int(np.argmax(row)) if row.max() > 0.9 else None for row in correlation)
    return _Best(at, errors, alike, float(made.cost), scatter)


def _learnt(parameter: Learnable, at: float, error: float) -> Learnt:
    low, high = max(at - 1.96 * error, 0.0), min(at + 1.96 * error, 1.0)
    return Learnt(parameter, parameter.value(at), parameter.value(low), parameter.value(high))
