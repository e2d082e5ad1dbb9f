"""Fits of an SSD that meet the loads about as well as the best one: other numbers of dies, channels
and units of a page, and other values. What they differ in, the loads do not determine.

A drive whose channels limit it takes as long for most loads as one with a slower link and more
overhead, and a limit above all others may be anything above them. So each value is moved away from
that of the best fit, with all others fitted anew, until the model misses the loads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from headrace.drives.learning.device import UNIT, LearntDevice
from headrace.drives.learning.flash_fit import BETTER, fit_layout
from headrace.drives.learning.flash_layouts import DIES_PER_CHANNEL, FlashLayout, alternatives
from headrace.drives.learning.flash_model import FlashFit, Measured, Values, error_of, misfits
from headrace.drives.learning.flash_starts import bounds, starts_of

AS_GOOD = 3.84
"""Sum of squares in variances of one misfit, beyond that of the best fit, that is significant at
95 % for one number: the quantile of chi squared with one degree of freedom."""
OF_ERROR = 1.96
"""Standard errors from a value to the end of its interval of 95 %."""
NOISE = 0.002
"""Least standard deviation of a misfit."""
FARTHEST = 3
"""Steps in each direction that are tried for another number that is as good."""
EVALUATIONS = 8
MOVES = (0.02, 0.06, 0.15, 0.5, 1.5, 4.0)
"""Distances of a logarithm from the best one at which the other values are fitted anew."""
MOVED_EVALUATIONS = 4
OTHERS = ((1, 3), (0,), (0,), (0, 1), (0, 1))
"""For each value those that may take more time of a read if it takes less, and less if more."""
STARTS = 2
ROUNDS = 2


@dataclass(frozen=True)
class Alike:
    """Fits about as good as the best one."""

    best: FlashFit
    fits: list[FlashFit]
    """With the best one."""
    numbers: dict[str, list[int]]
    """Other numbers of `dies`, `channels` and units of a `page`."""
    low: Values
    high: Values
    """Ends of the intervals of 95 %, as logarithms."""

    def standard_errors(self) -> Values:
        """Return standard errors of the logarithms of the values."""
        farthest = np.maximum(self.high - self.best.logs, self.best.logs - self.low)
        return farthest / OF_ERROR

    def range_of(self, index: int) -> tuple[float, float]:
        """Return the least and the largest of a value."""
        return math.exp(self.low[index]), math.exp(self.high[index])


def settle(device: LearntDevice, best: FlashFit, measured: Measured) -> Alike:
    """Return the fits that are as good as the best one, or as one of them that is better."""
    found = _alike(device, best, measured)
    for _ in range(ROUNDS):
        better = min(found.fits, key=lambda each: each.error)
        if better.error >= BETTER * found.best.error:
            break
        better = fit_layout(device, better.layout, better.logs, measured, 30)
        found = _alike(device, better, measured)
    return found


def as_good(device: LearntDevice, best: FlashFit, measured: Measured) -> dict[str, list[int]]:
    """Return the other numbers of `dies`, `channels` and units of a `page` that meet the loads
    about as well as those of the best fit. The others stay, but for the channels of other dies.
    """
    return _numbers(device, best, measured, most_error(device, best, measured))[0]


def more_dies(device: LearntDevice, best: FlashFit, measured: Measured, least: int) -> int | None:
    """Return a number of dies from `least` on that meets the loads as well as that of the best fit,
    with all its other values; None if the next number does not."""
    deep = [each for each in DIES_PER_CHANNEL if each * best.layout.channels >= least]
    if not deep:
        return None
    layout = replace(best.layout, dies=deep[0] * best.layout.channels)
    error = error_of(misfits(device, layout, best.logs, measured))
    return layout.dies if error <= most_error(device, best, measured) else None


def most_error(device: LearntDevice, best: FlashFit, measured: Measured) -> float:
    """Return the error up to which a fit is as good as the best one."""
    draws = [misfits(device, best.layout, best.logs, measured, draw=draw) for draw in (0, 1)]
    # What the model's own places change is no evidence, however well one draw of them fits.
    by_chance = error_of(draws[1] - draws[0]) / math.sqrt(2)
    deviation = max(best.error, by_chance, NOISE)
    return math.sqrt(best.error**2 + AS_GOOD * deviation**2 / len(draws[0]))


def _alike(device: LearntDevice, best: FlashFit, measured: Measured) -> Alike:
    """Return the fits about as good as the best one, and the intervals of the values."""
    most = most_error(device, best, measured)
    numbers, fits = _numbers(device, best, measured, most)
    fits = [best, *fits]
    low, high = best.logs.copy(), best.logs.copy()
    for index in range(len(best.logs)):
        for direction in (-1, 1):
            end, on_the_way = _end(device, best, measured, most, (index, direction))
            fits += on_the_way
            low[index], high[index] = min(low[index], end), max(high[index], end)
    logs = np.stack([each.logs for each in fits])
    low, high = np.minimum(low, logs.min(axis=0)), np.maximum(high, logs.max(axis=0))
    return Alike(best, fits, numbers, low, high)


def _end(
    device: LearntDevice,
    best: FlashFit,
    measured: Measured,
    most: float,
    towards: tuple[int, int],
) -> tuple[float, list[FlashFit]]:
    """Return how far a value can be moved in a direction, and the fits on the way there."""
    index, direction = towards
    low, high = bounds(device, measured)
    least, greatest = float(low[index]), float(high[index])
    fits: list[FlashFit] = []
    last, last_moved = best, 0.0
    for move in MOVES:
        at = min(max(float(best.logs[index]) + direction * move, least), greatest)
        starts = [
            np.clip(_moved(last.logs, index, at, other), low, high)
            for other in (None, *OTHERS[index])
        ]
        start = min(starts, key=lambda each: _error(device, best.layout, each, measured))
        found = fit_layout(device, best.layout, start, measured, MOVED_EVALUATIONS, fixed=index)
        if found.error > most:
            # The sum of squares rises with the square of the distance.
            here, there = last.error**2, found.error**2
            part = (most**2 - here) / (there - here) if there > here else 0.0
            moved = abs(at - float(best.logs[index]))
            at = math.sqrt(last_moved**2 + max(part, 0.0) * (moved**2 - last_moved**2))
            return float(best.logs[index]) + direction * at, fits
        fits.append(found)
        last, last_moved = found, abs(at - float(best.logs[index]))
        if at in (least, greatest):
            break
    return float(last.logs[index]), fits


def _moved(logs: Values, index: int, at: float, other: int | None) -> Values:
    """Return values with one of them moved; what a read of 4 KiB takes longer or less by it, it
    takes less or longer by another one."""
    moved = logs.copy()
    moved[index] = at
    if other is None:
        return moved
    taken_us, before_us = _times_us(moved), _times_us(logs)
    left_us = before_us[other] - (taken_us[index] - before_us[index])
    left_us = max(left_us, 0.05 * before_us[other])
    by = math.log(left_us / before_us[other])
    moved[other] += by if other in (0, 2) else -by  # times, and rates
    return moved


def _times_us(logs: Values) -> list[float]:
    """Return what each value makes a read of 4 KiB take."""
    overhead_us, iops, read_us, channel_rate, link_rate = np.exp(logs).tolist()
    bytes_1e6 = UNIT * 512 * 1e6
    return [overhead_us, 1e6 / iops, read_us, bytes_1e6 / channel_rate, bytes_1e6 / link_rate]


def _error(device: LearntDevice, layout: FlashLayout, logs: Values, measured: Measured) -> float:
    return error_of(misfits(device, layout, logs, measured, coarse=True))


def _numbers(
    device: LearntDevice, best: FlashFit, measured: Measured, most: float
) -> tuple[dict[str, list[int]], list[FlashFit]]:
    """Return other whole numbers that are as good, by name, and their fits."""
    fits: list[FlashFit] = []
    numbers: dict[str, set[int]] = {}
    for name, rows in alternatives(best.layout).items():
        for steps in rows:
            for number, layouts in steps[:FARTHEST]:
                met = [_met(device, each, best.logs, measured, most) for each in layouts]
                found = [each for each in met if each is not None]
                if not found:
                    break
                fits += found
                numbers.setdefault(name, set()).add(number)
    return {name: sorted(each) for name, each in numbers.items()}, fits


def _met(
    device: LearntDevice, layout: FlashLayout, logs: Values, measured: Measured, most: float
) -> FlashFit | None:
    """Return a fit of a layout that meets the loads up to an error, with values near some, or from
    another structure; None if there is none."""
    error = error_of(misfits(device, layout, logs, measured))
    if error <= most:
        return FlashFit(layout, logs, error)
    low, high = bounds(device, measured)
    others = [np.clip(each, low + 1e-6, high - 1e-6) for each in starts_of(measured, layout)]
    errors = [error_of(misfits(device, layout, each, measured, coarse=True)) for each in others]
    nearest = [others[index] for index in np.argsort(errors)[: STARTS - 1]]
    for start in (logs, *nearest):
        found = fit_layout(device, layout, start, measured, EVALUATIONS)
        if found.error <= most:
            return found
    return None
