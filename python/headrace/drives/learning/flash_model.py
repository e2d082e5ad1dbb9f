"""The model of an SSD beside the loads that were measured: its table, and how far it misses
them."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from headrace.drives.learning.device import UNIT, LearntDevice, modelled_device
from headrace.drives.learning.flash_layouts import FlashLayout
from headrace.drives.learning.loads import QUEUE_TURNS, LoadResult, ScriptLoad, result_of
from headrace.scenario import Table

SATA_BYTES_PER_S = 600e6
"""Most that a SATA link of 6 Gb/s carries: a faster link is duplex, and has no SATA frames."""
SATA_DEPTH = 32
"""Commands that a drive on SATA holds at most."""
MODEL_CAPACITY_BYTES = 256 << 20
"""Of the model that is fitted, which is built thousands of times; reads see all dies of it."""
REQUESTS, LARGE_REQUESTS = 3000, 400
COARSE_REQUESTS, LARGE_COARSE_REQUESTS = 300, 100
LARGE = 32
"""Sectors above which fewer requests tell as much."""
SINGLE_REQUESTS, SINGLE_LARGE_REQUESTS = 160, 32
"""Of loads one at a time, whose requests all take as long: enough for ten pages in order."""

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
    ahead = {"read_ahead_bytes": layout.ahead_bytes} if layout.ahead_bytes else {}
    return {
        "kind": "ssd",
        "name": "learnt",
        "capacity_bytes": device.capacity_bytes,
        "link_bytes_per_s": link_rate,
        "link_duplex": link_rate > 1.0001 * SATA_BYTES_PER_S,
        "queue_depth": device.queue_depth,
        "controller": {
            "read_overhead_us": overhead_us,
            "write_overhead_us": overhead_us,
            "read_iops_max": iops,
            "write_iops_max": iops,
            **ahead,
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
        "mapping": {"ftl": "page", "unit_bytes": layout.mapped_units * UNIT * 512},
        "initial": {"state": "filled", "fill": 1.0},
    }


def _requests(load: ScriptLoad, coarse: bool) -> int:
    """Return how many requests of a load the model is given."""
    large = load.sectors > LARGE
    if load.depth == 1:
        return SINGLE_LARGE_REQUESTS if large else SINGLE_REQUESTS
    if not coarse:
        return LARGE_REQUESTS if large else REQUESTS
    # More than two times the requests that are left out until the load is in its steady state.
    steady = 2 * QUEUE_TURNS * load.depth + 2 * load.depth
    return max(LARGE_COARSE_REQUESTS if large else COARSE_REQUESTS, steady)


@lru_cache(maxsize=256)
def _places(load: ScriptLoad, count: int, capacity_sectors: int, draw: int) -> list[int]:
    """Return the places of a load's requests: the same for all values, so that fits compare."""
    slots = capacity_sectors // load.sectors
    if load.sequential:
        # Apart from each other: what one of them read last is still in the registers of the dies.
        first = slots // 2 if load.sectors > LARGE else 0
        return [((first + number) % slots) * load.sectors for number in range(count)]
    random = np.random.default_rng([draw, load.sectors, load.depth])
    return (random.integers(0, slots, count) * load.sectors).tolist()


def misfits(
    device: LearntDevice,
    layout: FlashLayout,
    logs: Values,
    measured: Measured,
    *,
    coarse: bool = False,
    draw: int = 0,
) -> Values:
    """Return logarithms of what the model takes for the loads over what was measured, weighted.

    `coarse`: with fewer requests, for a first choice among many layouts. `draw`: of the places.
    """
    table = table_of(device, layout, logs)
    table["capacity_bytes"] = min(device.capacity_bytes, MODEL_CAPACITY_BYTES)
    modelled = _modelled(json.dumps(table), tuple(measured), coarse, draw)
    left: list[float] = []
    for (load, result), model in zip(measured.items(), modelled, strict=True):
        left += _misfits_of(load, result, model)
    return np.asarray(left)


# A fit asks for its first and its last values again, and so does what compares it with others.
@lru_cache(maxsize=4096)
def _modelled(
    table: str, loads: tuple[ScriptLoad, ...], coarse: bool, draw: int
) -> tuple[LoadResult, ...]:
    """Return what the model of a table, as JSON, takes for the loads, one after the other."""
    model = modelled_device(json.loads(table), seed=3)
    found: dict[ScriptLoad, LoadResult] = {}
    # Reads in order come first: large random ones, always in the same places, would leave some of
    # their pages in the registers.
    for load in sorted(loads, key=lambda each: not each.sequential):
        count = _requests(load, coarse) + QUEUE_TURNS * load.depth
        places = _places(load, count, model.capacity_sectors, draw)
        timings = model.reads(places, load.sectors, depth=load.depth)
        found[load] = result_of(timings, load.depth)
    return tuple(found[load] for load in loads)


def error_of(left: Values) -> float:
    """Return the root mean square of misfits."""
    return float(np.sqrt(np.mean(left * left)))


def _misfits_of(load: ScriptLoad, result: LoadResult, model: LoadResult) -> list[float]:
    iops = math.log(model.iops / result.iops)
    if load.sequential:  # fast and slow reads in turn: their median may be of either kind
        return [iops]
    # A busy machine delays some reads by much: means and tails count less.
    return [
        0.5 * iops if load.depth == 1 else iops,
        math.log(model.middle_s / result.middle_s),
        0.3 * math.log(model.tail_s / result.tail_s),
    ]


def missed(device: LearntDevice, fit: FlashFit, measured: Measured) -> list[ScriptLoad]:
    """Return the loads that a fit misses by more than `WELL_MET`."""
    return [
        load
        for load, result in measured.items()
        if np.abs(misfits(device, fit.layout, fit.logs, {load: result})).max() > WELL_MET
    ]
