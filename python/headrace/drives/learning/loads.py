"""Loads of the script: requests of one size at one depth, as measured and as modelled."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.drives.learning.device import LearntDevice, RequestTimes, Times, modelled_device
from headrace.drives.learning.values import LoadCheck
from headrace.scenario import Table

QUEUE_TURNS = 4
"""Queue lengths that pass before a load is in its steady state."""
MIDDLE, TAIL = (0.25, 0.75), (0.97, 0.998)
"""Quantiles between which response times are averaged."""


@dataclass(frozen=True)
class ScriptLoad:
    """Random or sequential reads or writes in a closed loop."""

    sectors: int
    depth: int
    sequential: bool = False
    first: float = 0.0
    """Part of the drive where the region, and a sequential load, begins."""
    last: float = 1.0
    """Part of the drive where the region ends."""
    write: bool = False

    @property
    def name(self) -> str:
        """Return the load in words."""
        order = "sequential" if self.sequential else "random"
        where = "" if (self.first, self.last) == (0.0, 1.0) else f" in {self.first:g}–{self.last:g}"
        what = " writes" if self.write else ""
        return f"{order} {self.sectors / 2:g} KiB{what} at depth {self.depth}{where}"


@dataclass(frozen=True)
class LoadResult:
    """Statistics of a load."""

    requests: int
    iops: float
    p50_s: float
    p99_s: float
    p10_s: float = math.nan
    middle_s: float = math.nan
    """Mean of the middle half of the response times."""
    tail_s: float = math.nan
    """Mean of those from the quantile 0.97 to 0.998."""


def run_load(
    device: LearntDevice, load: ScriptLoad, *, limit_s: float, at_most: int = 100_000
) -> LoadResult:
    """Run a load on a device until `limit_s` or so many requests are over."""
    unit = load.sectors
    first, last = device.writable_region if load.write else device.region
    low = -(-(first + int((last - first) * load.first)) // unit)
    high = max((first + int((last - first) * load.last)) // unit, low + 1)
    count = at_most + QUEUE_TURNS * load.depth
    if load.sequential:
        sector = ((low + np.arange(count) % (high - low)) * unit).tolist()
    else:
        sector = (device.random.integers(low, high, count) * unit).tolist()
    run = device.writes if load.write else device.reads
    timings = run(sector, unit, depth=load.depth, limit_s=limit_s)
    return result_of(timings, load.depth, len(timings) // 2 if load.write else 0)


def result_of(timings: RequestTimes, depth: int, skipped: int = 0) -> LoadResult:
    """Return the statistics of a closed loop, without its first requests.

    Writes fill caches first: half of them are `skipped`.
    """
    ramp = QUEUE_TURNS * depth if len(timings) > 2 * QUEUE_TURNS * depth else 0
    ramp = max(ramp, skipped)
    count = len(timings)
    first, last = (ramp, count - depth) if count > ramp + 2 * depth else (0, count - 1)
    end_s = np.partition(timings.end_s, [first, last])
    duration_s = float(end_s[last] - end_s[first])
    ordered_s = np.sort(timings.response_s[ramp:])
    p10_s, p50_s, p99_s = quantiles(ordered_s, (0.1, 0.5, 0.99))
    return LoadResult(
        requests=count,
        iops=(last - first) / duration_s if duration_s > 0 else float("nan"),
        p50_s=p50_s,
        p99_s=p99_s,
        p10_s=p10_s,
        middle_s=mean_between(ordered_s, *MIDDLE),
        tail_s=mean_between(ordered_s, *TAIL),
    )


def mean_between(ordered: Times, low: float, high: float) -> float:
    """Return the mean between two quantiles of ordered values.

    Reads wait for whole reads of others, so that their times come in steps: a quantile jumps from
    one to the next by chance, by 8 % in two runs of one load, and this mean moves between them.
    """
    first, last = int(low * len(ordered)), math.ceil(high * len(ordered))
    first = min(first, len(ordered) - 1)
    return float(np.add.reduce(ordered[first : max(last, first + 1)])) / max(last - first, 1)


def quantiles(ordered: Times, shares: Sequence[float]) -> list[float]:
    """Return quantiles of ordered values, digit for digit those of `np.quantile`.

    A fit of a flash drive asks for tens of thousands; for so few values NumPy's take five times as
    long.
    """
    last = len(ordered) - 1
    found: list[float] = []
    for share in shares:
        whole, part = divmod(share * last, 1.0)
        below = int(whole)
        low, high = float(ordered[below]), float(ordered[min(below + 1, last)])
        near_low = part < 0.5
        found.append(low + (high - low) * part if near_low else high - (high - low) * (1.0 - part))
    return found


def modelled_loads(
    table: Table, loads: Iterable[ScriptLoad], *, requests: int, seed: int = 1
) -> list[LoadResult]:
    """Run loads, one after the other, on the model of a drive that holds data."""
    return list(each_modelled_load(table, loads, requests=requests, seed=seed))


def each_modelled_load(
    table: Table, loads: Iterable[ScriptLoad], *, requests: int, seed: int = 1
) -> Iterator[LoadResult]:
    """Run loads as `modelled_loads` does, each when its result is taken."""
    device = modelled_device(table, seed=seed, script_seed=seed, writable=True)
    for load in loads:
        yield run_load(device, load, limit_s=1e6, at_most=requests)


def check_of(load: ScriptLoad, measured: LoadResult, modelled: LoadResult) -> LoadCheck:
    """Return a measured load beside the modelled one."""
    return LoadCheck(
        load.name,
        measured.iops,
        modelled.iops,
        measured.p50_s,
        modelled.p50_s,
        measured.p99_s,
        modelled.p99_s,
    )
