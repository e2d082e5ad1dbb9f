"""Fits of an SSD that meet the loads about as well as the best one: other numbers of dies, channels
and units of a page, and other values. What they differ in, the loads do not determine.

A fit ends in the minimum nearest to its start. A drive whose channels limit it takes as long for
most loads as one with a slower link and more overhead, so that each layout is fitted from several
structures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from headrace.drives.learning.device import UNIT, LearntDevice
from headrace.drives.learning.flash_fit import (
    BETTER,
    FlashFit,
    Measured,
    Values,
    fit_layout,
    limited_by_channels,
    misfits,
)
from headrace.drives.learning.flash_layouts import FlashLayout, alternatives

AS_GOOD = 1.92
"""Difference of logarithms of likelihoods that is significant at 95 % for one number: half of the
quantile of chi squared with one degree of freedom, 3.84 (Wilks' theorem)."""
FARTHEST = 3
"""Steps in each direction that are tried for another number that is as good."""
EVALUATIONS = 8
FASTER_LINK = 10.0
LINK_FOR_LARGEST = 1.05
"""Rates of the link that are tried, by the greatest rate of the loads: one that limits nothing, and
the least that carries them."""
ROUNDS = 3


@dataclass(frozen=True)
class Alike:
    """Fits about as good as the best one."""

    best: FlashFit
    fits: list[FlashFit]
    """With the best one."""
    numbers: dict[str, list[int]]
    """Other numbers of `dies`, `channels` and units of a `page`."""

    def farthest(self) -> Values:
        """Return the largest distance of each value from that of the best fit, in logarithms."""
        return np.max([np.abs(each.logs - self.best.logs) for each in self.fits], axis=0)

    def range_of(self, index: int) -> tuple[float, float]:
        """Return the least and the largest of a value."""
        found = np.exp([each.logs[index] for each in self.fits])
        return float(found.min()), float(found.max())


def settle(device: LearntDevice, best: FlashFit, measured: Measured) -> Alike:
    """Return the fits that are as good as the best one, or as one of them that is better."""
    found = _alike(device, best, measured)
    for _ in range(ROUNDS):
        better = min(found.fits, key=lambda each: each.error)
        if better.error >= BETTER * found.best.error:
            break
        found = _alike(
            device, fit_layout(device, better.layout, better.logs, measured, 30), measured
        )
    return found


def as_good(device: LearntDevice, best: FlashFit, measured: Measured) -> dict[str, list[int]]:
    """Return the other numbers of `dies`, `channels` and units of a `page` that meet the loads
    about as well as those of the best fit. The others stay, but for the channels of other dies.
    """
    return _alike(device, best, measured).numbers


def _alike(device: LearntDevice, best: FlashFit, measured: Measured) -> Alike:
    """Return the fits about as good as the best one.

    With n independent misfits the likelihood falls as error to the power of -n.
    """
    misfit_count = len(misfits(device, best.layout, best.logs, measured))
    most = max(best.error, 0.01) * math.exp(AS_GOOD / misfit_count)
    fits = [best]
    for start in _other_links(best, measured):
        fits.append(fit_layout(device, best.layout, start, measured, EVALUATIONS))
    for start in limited_by_channels(measured, best.layout):
        fits.append(fit_layout(device, best.layout, start, measured, EVALUATIONS))
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
    return Alike(
        best,
        [each for each in fits if each is best or each.error <= most],
        {name: sorted(each) for name, each in numbers.items()},
    )


def _other_links(best: FlashFit, measured: Measured) -> list[Values]:
    """Return the best values with other rates of the link, and what a read of 4 KiB takes less or
    longer on it as overhead of the controller."""
    rate = max(result.iops * load.sectors * 512 for load, result in measured.items())
    overhead_us, *_, link_rate = np.exp(best.logs).tolist()
    starts: list[Values] = []
    for factor in (LINK_FOR_LARGEST, FASTER_LINK):
        moved_us = UNIT * 512 * (1 / link_rate - 1 / (factor * rate)) * 1e6
        start = best.logs.copy()
        start[0] = math.log(max(overhead_us + moved_us, 0.1 * overhead_us))
        start[-1] = math.log(factor * rate)
        starts.append(start)
    return starts


def _met(
    device: LearntDevice, layout: FlashLayout, logs: Values, measured: Measured, most: float
) -> FlashFit | None:
    """Return a fit of a layout that meets the loads up to an error, with values near some, or from
    another structure; None if there is none."""
    left = misfits(device, layout, logs, measured)
    error = float(np.sqrt(np.mean(left * left)))
    if error <= most:
        return FlashFit(layout, logs, error)
    for start in (logs, *limited_by_channels(measured, layout)):
        found = fit_layout(device, layout, start, measured, EVALUATIONS)
        if found.error <= most:
            return found
    return None
