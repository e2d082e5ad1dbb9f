"""The layout of dies, channels and pages, and the values for it, with which the model of an SSD
takes what was measured.

All layouts are compared from several starts with few requests; the best ones are fitted, and then
the neighbours of the best, as long as one is better.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from headrace.drives.learning.device import UNIT, LearntDevice, Say
from headrace.drives.learning.flash_layouts import (
    CHANNELS,
    DIES_PER_CHANNEL,
    MAPPED_UNITS,
    PAGE_UNITS,
    FlashLayout,
    neighbours,
)
from headrace.drives.learning.flash_model import (
    FlashFit,
    Measured,
    Values,
    error_of,
    misfits,
)
from headrace.drives.learning.flash_starts import REGISTER, bounds, reads_ahead, starts_of
from headrace.drives.learning.loads import ScriptLoad

ROUNDS = 4
BETTER = 0.97
"""Error of a layout, divided by that of the best one, below which it is better."""
MOST_DIES = 256
COMPARED = 24
"""Starts that are fitted with few requests."""
STARTS_OF_A_LAYOUT = 2
CLOSE = 8
"""Of them, fits that are fitted with more."""
PAGE_BEHIND = 4
"""Units of a page where reads ahead hide it: a fit begins with them."""
AHEAD = 1 << 20
"""Bytes read ahead with which a fit begins."""
_SINGLE = [ScriptLoad(sectors, 1) for sectors in (UNIT, 2 * UNIT, 4 * UNIT)]
LONGER = 1.005
"""What single reads of up to four units take longer than one of 4 KiB, if they are one piece."""
STEP = 0.02
"""Of a logarithm, for the derivatives."""


def fit_layout(
    device: LearntDevice,
    layout: FlashLayout,
    start: Values,
    measured: Measured,
    evaluations: int,
    *,
    coarse: bool = False,
    fixed: int | None = None,
) -> FlashFit:
    """Return the values with which the model of a layout meets the loads best.

    `fixed`: the number of the value that stays as it is.
    """
    from scipy.optimize import least_squares  # a quarter of a second, for fits alone

    low, high = bounds(device, measured)
    if fixed is not None:  # also beyond what a drive can have
        low[fixed], high[fixed] = start[fixed] - 1, start[fixed] + 1
    free = np.asarray([index for index in range(len(start)) if index != fixed])
    begin = np.clip(start, low + 1e-6, high - 1e-6)

    def residuals(values: Values) -> Values:
        logs = begin.copy()
        logs[free] = values
        return misfits(device, layout, logs, measured, coarse=coarse)

    def jacobian(values: Values) -> Values:
        here = residuals(values)
        columns: list[Values] = []
        for index in range(len(values)):
            moved = values.copy()
            # A step in proportion to a logarithm would be a fifth of the rate of a link.
            step = STEP if values[index] + STEP < high[free[index]] else -STEP
            moved[index] += step
            columns.append((residuals(moved) - here) / step)
        return np.stack(columns, axis=1)

    found = least_squares(
        residuals,
        begin[free],
        jac=cast("Any", jacobian),  # the stubs know names alone
        bounds=(low[free], high[free]),
        xtol=1e-3,
        ftol=1e-3,
        max_nfev=evaluations,
        loss="soft_l1",
        f_scale=0.1,
    )
    logs = begin.copy()
    logs[free] = found.x
    return FlashFit(layout, logs, error_of(np.asarray(found.fun, np.float64)))


def best_fit(
    device: LearntDevice, measured: Measured, say: Say, *, about: int | None = None
) -> FlashFit:
    """Return the best layout and its values.

    `about`: dies of a fit to nearly the same loads, which spares the layouts far from it.
    """
    say("the model is run with all layouts")
    layouts = [
        each for each in _layouts(measured) if about is None or about / 4 <= each.dies <= about * 4
    ]
    chosen = _compared(device, measured, layouts)
    say("the model is fitted with the best layouts")
    fits = _fitted(device, measured, chosen)
    best = min(fits, key=lambda each: each.error)
    tried = {each.layout for each in fits}
    for _ in range(ROUNDS):
        say(f"the model is fitted with layouts near {best.layout.channels} channels")
        near = [each for each in neighbours(best.layout) if each not in tried]
        tried |= set(near)
        chosen = [(each, best.logs) for each in near] + _compared(device, measured, near)
        found = _fitted(device, measured, chosen) if chosen else []
        if not found or min(each.error for each in found) > BETTER * best.error:
            break
        best = min(found, key=lambda each: each.error)
    return fit_layout(device, best.layout, best.logs, measured, 30)


def _layouts(measured: Measured) -> list[FlashLayout]:
    ahead = reads_ahead(measured)
    page_units = PAGE_BEHIND if ahead else _page_units(measured)
    return [
        FlashLayout(channels * deep, channels, page_units, AHEAD if ahead else 0, mapped)
        for channels in CHANNELS
        for deep in DIES_PER_CHANNEL
        for mapped in _mapped_units(measured, page_units)
        if channels * deep <= MOST_DIES
    ]


def _mapped_units(measured: Measured, page_units: int) -> list[int]:
    """Return the units that the mapping may keep together.

    All of them cross the channel and the link before a read is done, where of single units of 4 KiB
    all but the last one cross meanwhile. So larger reads within a page take longer.
    """
    times_s = [measured[load].middle_s for load in _SINGLE if load in measured]
    longest = min(page_units, MAPPED_UNITS[-2])
    if longest == 1 or max(times_s) < LONGER * times_s[0]:
        return [1]
    return [1, longest]


def _compared(
    device: LearntDevice, measured: Measured, layouts: list[FlashLayout]
) -> list[tuple[FlashLayout, Values]]:
    """Return the best starts of the layouts, the best first."""
    met: list[tuple[float, FlashLayout, Values]] = []
    low, high = bounds(device, measured)
    for layout in layouts:
        of_layout: list[tuple[float, FlashLayout, Values]] = []
        for start in starts_of(measured, layout):
            logs = np.clip(start, low + 1e-6, high - 1e-6)
            error = error_of(misfits(device, layout, logs, measured, coarse=True))
            of_layout.append((error, layout, logs))
        met += sorted(of_layout, key=lambda each: each[0])[:STARTS_OF_A_LAYOUT]
    return [(layout, logs) for _, layout, logs in sorted(met, key=lambda each: each[0])[:COMPARED]]


def _fitted(
    device: LearntDevice, measured: Measured, chosen: list[tuple[FlashLayout, Values]]
) -> list[FlashFit]:
    """Fit layouts with few requests, and the best of them with more."""
    coarse = [fit_layout(device, layout, logs, measured, 6, coarse=True) for layout, logs in chosen]
    close = sorted(coarse, key=lambda each: each.error)[:CLOSE]
    return [fit_layout(device, each.layout, each.logs, measured, 6) for each in close]


def _page_units(measured: Measured) -> int:
    """Return the units of a page: reads in order find all but the first of a page in its die's
    register."""
    random = measured[ScriptLoad(UNIT, 1)]
    ordered = measured[ScriptLoad(UNIT, 1, sequential=True)]
    # A page costs one slow read, and fast ones for the rest of it. Their median is between both
    # kinds for a page of two units, so that the fast ones are seen in a lower quantile.
    slow_s, fast_s, mean_s = random.p50_s, ordered.p10_s, 1 / ordered.iops
    if fast_s > REGISTER * slow_s:
        return 1
    share = min(max((mean_s - fast_s) / (slow_s - fast_s), 1 / 32), 1.0)
    return min(PAGE_UNITS, key=lambda each: abs(math.log(each * share)))
