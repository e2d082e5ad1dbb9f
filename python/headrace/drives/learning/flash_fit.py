"""The model of an SSD whose reads take what was measured: a layout of dies, channels and pages, and
values for it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.drives.learning.device import UNIT, LearntDevice, Say
from headrace.drives.learning.flash_layouts import (
    DIES,
    PAGE_UNITS,
    FlashLayout,
    neighbours,
)
from headrace.drives.learning.loads import LoadResult, ScriptLoad, modelled_loads
from headrace.scenario import Table

SATA_BYTES_PER_S = 600e6
"""Most that a SATA link of 6 Gb/s carries: a faster link is duplex, and has no SATA frames."""
MODEL_REQUESTS = 1500
LARGE = 32
"""Sectors above which fewer requests tell as much."""
MODEL_LARGE_REQUESTS = 300
MODEL_CAPACITY_BYTES = 256 << 20
"""Of the model that is fitted, which is built thousands of times; reads see all dies of it."""
ROUNDS = 4
BETTER = 0.97
"""Error of a layout, divided by that of the best one, below which it is better."""
WELL_MET = 0.03
"""Error of a fit, or of one load in it, up to which nothing is measured again: 2 % are left on an
idle machine."""

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FlashFit:
    """Values for one layout."""

    layout: FlashLayout
    logs: Values
    error: float


Measured = dict[ScriptLoad, LoadResult]


def table_of(device: LearntDevice, layout: FlashLayout, logs: Values) -> Table:
    """Return the table of an SSD with these values."""
    overhead_us, iops, read_us, channel_rate, link_rate = (float(each) for each in np.exp(logs))
    return {
        "kind": "ssd",
        "name": "learnt",
        "capacity_bytes": device.capacity_bytes,
        "link_bytes_per_s": link_rate,
        "link_duplex": link_rate > SATA_BYTES_PER_S,
        "queue_depth": device.queue_depth,
        "controller": {
            "read_overhead_us": overhead_us,
            "write_overhead_us": overhead_us,
            "read_iops_max": iops,
            "write_iops_max": iops,
        },
        "flash": {
            "channels": layout.channels,
            "dies_per_channel": layout.dies // layout.channels,
            "planes": 1,
            "page_bytes": layout.page_units * UNIT * 512,
            "pages_per_block": 256,
            "read_us": read_us,
            "program_us": 10 * read_us,
            "erase_us": 3000.0,
            "channel_bytes_per_s": channel_rate,
        },
        "mapping": {"ftl": "page", "unit_bytes": UNIT * 512},
        "initial": {"state": "filled", "fill": 1.0},
    }


def _starts(measured: Measured) -> list[Values]:
    """Return values to begin with: the fit ends in different minima.

    The greatest rate may be that of the link, or of all channels together. What 8 KiB take longer
    than 4 KiB crosses one channel, if both are of one page.
    """
    one = measured[ScriptLoad(UNIT, 1)]
    rate = max(result.iops * load.sectors * 512 for load, result in measured.items())
    iops = max(result.iops for result in measured.values())
    by_link = [0.2 * one.p50_s * 1e6, 1.1 * iops, 0.6 * one.p50_s * 1e6, 4096 / (0.1 * one.p50_s)]
    more_s = max(measured[ScriptLoad(2 * UNIT, 1)].p50_s - one.p50_s, 0.01 * one.p50_s)
    read_us = max((0.8 * one.p50_s - more_s) * 1e6, 0.1 * one.p50_s * 1e6)
    by_channel = [0.2 * one.p50_s * 1e6, 1.1 * iops, read_us, 4096 / more_s]
    return [
        np.log([*by_link, rate]),
        np.log([*by_channel, rate]),
        np.log([*by_channel, 2.5 * rate]),
    ]


def limited_by_channels(measured: Measured, layout: FlashLayout) -> list[Values]:
    """Return values to begin with where all channels together have the greatest rate, and the link
    does not limit the drive: without a limit of the controller's reads per second, and with one."""
    one_s = measured[ScriptLoad(UNIT, 1)].p50_s
    rate = max(result.iops * load.sectors * 512 for load, result in measured.items())
    iops = max(result.iops for result in measured.values())
    by_channel = rate / layout.channels
    read_s = max(0.8 * one_s - UNIT * 512 / by_channel, 0.1 * one_s)
    return [
        np.log([0.2 * one_s * 1e6, most * iops, read_s * 1e6, by_channel, 10 * rate])
        for most in (10, 1.1)
    ]


def misfits(device: LearntDevice, layout: FlashLayout, logs: Values, measured: Measured) -> Values:
    """Return logarithms of what the model takes for the loads over what was measured, weighted."""
    table = table_of(device, layout, logs)
    table["capacity_bytes"] = min(device.capacity_bytes, MODEL_CAPACITY_BYTES)
    modelled: dict[ScriptLoad, LoadResult] = {}
    for requests, large in ((MODEL_REQUESTS, False), (MODEL_LARGE_REQUESTS, True)):
        loads = [load for load in measured if (load.sectors > LARGE) == large]
        results = modelled_loads(table, loads, requests=requests, seed=3)
        modelled |= zip(loads, results, strict=True)
    return np.asarray(
        [each for load in measured for each in _misfits_of(load, measured[load], modelled[load])]
    )


def _misfits_of(load: ScriptLoad, result: LoadResult, model: LoadResult) -> list[float]:
    iops = math.log(model.iops / result.iops)
    if load.sequential:  # fast and slow reads in turn: their median may be of either kind
        return [iops]
    # A busy machine delays some reads by much: means and tails count less.
    return [
        0.5 * iops if load.depth == 1 else iops,
        math.log(model.p50_s / result.p50_s),
        0.3 * math.log(model.p99_s / result.p99_s),
    ]


def missed(device: LearntDevice, fit: FlashFit, measured: Measured) -> list[ScriptLoad]:
    """Return the loads that a fit misses by more than `WELL_MET`."""
    return [
        load
        for load, result in measured.items()
        if np.abs(misfits(device, fit.layout, fit.logs, {load: result})).max() > WELL_MET
    ]


def fit_layout(
    device: LearntDevice, layout: FlashLayout, start: Values, measured: Measured, evaluations: int
) -> FlashFit:
    """Return the values with which the model of a layout meets the loads best."""
    from scipy.optimize import least_squares  # a quarter of a second, for fits alone

    one_us = measured[ScriptLoad(UNIT, 1)].p50_s * 1e6
    low = np.log([0.02 * one_us, 100.0, 0.02 * one_us, 1e6, 1e6])
    high = np.log([1.1 * one_us, 2e7, 1.1 * one_us, 1e11, 1e11])

    def residuals(logs: Values) -> Values:
        return misfits(device, layout, logs, measured)

    found = least_squares(
        residuals,
        np.clip(start, low + 1e-6, high - 1e-6),
        bounds=(low, high),
        diff_step=0.01,
        xtol=1e-3,
        ftol=1e-3,
        max_nfev=evaluations,
        loss="soft_l1",
        f_scale=0.1,
    )
    logs = np.asarray(found.x, np.float64)
    left = misfits(device, layout, logs, measured)
    return FlashFit(layout, logs, float(np.sqrt(np.mean(left * left))))


def best_fit(
    device: LearntDevice, measured: Measured, say: Say, *, about: int | None = None
) -> FlashFit:
    """Return the best layout and its values: dies in coarse steps, then the neighbours of the best,
    as long as one is better.

    `about`: dies of a fit to nearly the same loads, which spares the steps far from it.
    """
    starts = _starts(measured)
    fits: list[FlashFit] = []
    for dies in DIES:
        if about is not None and not about / 4 <= dies <= about * 4:
            continue
        say(f"the model is fitted with {dies} dies")
        for page in sorted({_page_units(measured), 2}):
            layout = FlashLayout(dies, min(dies, 8), page)
            fits += [fit_layout(device, layout, start, measured, 5) for start in starts[1:]]
        best = min(fits, key=lambda each: each.error)
        if dies >= 8 * best.layout.dies:
            break
    best = min(fits, key=lambda each: each.error)
    tried = {best.layout}
    for _ in range(ROUNDS):
        say(f"the model is fitted with layouts near {best.layout.channels} channels")
        near = [each for each in neighbours(best.layout) if each not in tried]
        tried |= set(near)
        found = [
            fit_layout(device, each, start, measured, 5)
            for each in near
            for start in (best.logs, starts[2], *limited_by_channels(measured, each))
        ]
        if not found or min(each.error for each in found) > BETTER * best.error:
            break
        best = min(found, key=lambda each: each.error)
    return fit_layout(device, best.layout, best.logs, measured, 30)


def _page_units(measured: Measured) -> int:
    """Return the units of a page: reads in order find all but the first of a page in its die's
    register."""
    random = measured[ScriptLoad(UNIT, 1)]
    ordered = measured[ScriptLoad(UNIT, 1, sequential=True)]
    if ordered.p50_s > 0.93 * random.p50_s:
        return 1 if ordered.iops < 1.1 * random.iops else 2
    # A page costs one slow read, and fast ones for the rest of it.
    slow_s, fast_s, mean_s = random.p50_s, ordered.p50_s, 1 / ordered.iops
    share = min(max((mean_s - fast_s) / (slow_s - fast_s), 1 / 32), 1.0)
    return min(PAGE_UNITS, key=lambda each: abs(math.log(each * share)))
