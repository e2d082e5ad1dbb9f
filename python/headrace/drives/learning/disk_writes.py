"""What writes tell of a disk: its write cache, how fast that is emptied, the settle of a write."""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import numpy.typing as npt

from headrace.drives.learning.bursts import FIRST, Burst, write_burst
from headrace.drives.learning.device import UNIT, LearntDevice, Say, modelled_device
from headrace.drives.learning.loads import (
    LoadResult,
    ScriptLoad,
    check_of,
    modelled_loads,
    run_load,
)
from headrace.drives.learning.queueing import REORDERINGS
from headrace.drives.learning.rotation import Rotation
from headrace.drives.learning.seeks import Cylinders, SeekPoint, learn_seeks, seek_ms
from headrace.drives.learning.values import LearntDrive, Unknown
from headrace.scenario import Table

LARGE = (1024, 256, 64)
"""Sectors of the writes that fill a cache by bytes, before they are too many: the largest of which
it takes a few."""
FEW = FIRST
"""Writes that tell whether the cache takes those of a size: as many as those that a burst takes for
quick ones. A cache of fewer would also be known by whole writes only."""
MOST_SLOW = 1
"""Of these, writes that may be late for another reason."""
CACHED = 0.35
"""Revolutions up to which a write did not wait for the medium."""
ALIKE = 0.15
"""Relative difference of two counts of writes that one limit may cause."""
REGION_BYTES = 64 << 20
"""Bytes that are written in order, again and again."""
MOST_PAUSE_S = 15.0
ORDER_ALIKE = 0.03
"""Error of the model's rate, as a logarithm, that what was learnt of the seeks of writes leaves."""
ORDER_SEEDS = 4
SLOPE_STEPS = 4
"""Steps of the share, down and up, over which the rate's dependence on it is taken."""
SETTLE_DISTANCES = 12
MODEL_REQUESTS = 2500


def learn_disk_writes(
    device: LearntDevice,
    learnt: LearntDrive,
    rotation: Rotation,
    cylinders: Cylinders,
    reads: list[SeekPoint],
    *,
    seconds: float,
    say: Say,
) -> None:
    """Learn what writes tell within `seconds`."""
    say("write cache")
    turn_s = rotation.turn_s
    small = write_burst(device, UNIT, turn_s=turn_s, limit_s=0.12 * seconds, pause_s=1.0)
    device.take_idle(_pause_s(small))
    cached = small.hit_s < CACHED * turn_s
    if cached:
        say("size of the write cache")
        _cache(device, learnt, small, turn_s, 0.12 * seconds)
    else:
        cast("Table", learnt.table["buffer"])["write_cache_bytes"] = 0
        learnt.add("buffer.write_cache_bytes", 0, "B", "bursts of writes: none is taken at once")
    learnt.end_part("write cache", device.take_others("write cache"))
    say("write settle")
    _settle(device, learnt, rotation, cylinders, reads, small if cached else None, 0.36 * seconds)
    learnt.end_part("write settle", device.take_others("write settle"))
    _loads(device, learnt, 0.3 * seconds, say)
    learnt.end_part("loads of writes", device.take_others("loads of writes"))


def _pause_s(burst: Burst) -> float:
    """Return how long the drive takes to empty its cache."""
    return min(1.3 * burst.taken / burst.per_s + 1.0, MOST_PAUSE_S) if burst.full else 1.0


def _cache(
    device: LearntDevice, learnt: LearntDrive, small: Burst, turn_s: float, limit_s: float
) -> None:
    """Learn the size of the cache, in bytes and in separate ranges."""
    table = learnt.table
    link = float(cast("float", table["link_bytes_per_s"]))
    hit_us = max((small.hit_s - UNIT * 512 / link) * 1e6, 1.0)
    overhead = cast("Table", table.setdefault("overhead", {}))
    overhead["write_hit_after_write_us"] = hit_us
    how = "bursts of writes"
    learnt.add("overhead.write_hit_after_write_us", hit_us, "µs", how)
    if not small.full:
        why = f"{small.taken} writes did not fill the cache"
        learnt.unknown.append(Unknown("buffer.write_cache_bytes, write_cache_extents", why))
        learnt.unknown.append(Unknown("destage rate", why))
        return
    learnt.add("destage rate", small.per_s, "1/s", f"{how} of 4 KiB", small.error_per_s)
    sectors, large = _large_burst(device, turn_s, link, limit_s)
    buffer = cast("Table", table["buffer"])
    small_bytes, large_bytes = small.taken * UNIT * 512, large.taken * sectors * 512
    if not large.full or _alike(large.taken, small.taken):
        # Ranges limit both.
        buffer["write_cache_extents"], buffer["write_cache_bytes"] = small.taken, large_bytes
        why = f"{format(large_bytes >> 20)} MiB or more: its ranges are full before"
        learnt.unknown.append(Unknown("buffer.write_cache_bytes", why))
        _corrected(learnt, "write_cache_extents", small, UNIT, turn_s)
    elif _alike(small_bytes, large_bytes):
        buffer["write_cache_extents"], buffer["write_cache_bytes"] = small.taken, small_bytes
        why = f"{small.taken} or more: its bytes are full before"
        learnt.unknown.append(Unknown("buffer.write_cache_extents", why))
        _corrected(learnt, "write_cache_bytes", large, sectors, turn_s)
    else:
        buffer["write_cache_extents"], buffer["write_cache_bytes"] = small.taken, large_bytes
        _corrected(learnt, "write_cache_extents", small, UNIT, turn_s)
        _corrected(learnt, "write_cache_bytes", large, sectors, turn_s)


def _large_burst(
    device: LearntDevice, turn_s: float, link: float, limit_s: float
) -> tuple[int, Burst]:
    """Return the sectors of the largest writes that the cache takes, and a burst of them.

    A cache smaller than a write takes none at once: each of them is slow, so that none would seem
    to wait for the others.
    """
    for sectors in LARGE[:-1]:
        few = device.writes(device.writable_sectors(FEW, sectors), sectors).response_s
        device.take_idle(1.0)
        if float(np.sort(few)[-1 - MOST_SLOW]) < sectors * 512 / link + CACHED * turn_s:
            break
    else:
        sectors = LARGE[-1]
    burst = write_burst(device, sectors, turn_s=turn_s, limit_s=limit_s, pause_s=0.0)
    device.take_idle(_pause_s(burst))
    return sectors, burst


def _alike(one: float, other: float) -> bool:
    return abs(math.log(one / other)) < ALIKE


def _corrected(
    learnt: LearntDrive, field: str, measured: Burst, sectors: int, turn_s: float
) -> None:
    """Take off what the drive writes to the medium during the burst: the model's cache of that
    size must take as many writes."""
    buffer = cast("Table", learnt.table["buffer"])
    step = 1 if field == "write_cache_extents" else sectors * 512
    relative = 1.0
    for _ in range(4):
        model = modelled_device(learnt.table, seed=3, script_seed=5, writable=True)
        found = write_burst(model, sectors, turn_s=turn_s, limit_s=60.0, pause_s=1.0)
        relative = measured.taken / max(found.taken, 1)
        size = int(cast("int", buffer[field]))
        changed = max(round(size * relative / step), 1) * step
        if changed == size:
            break
        buffer[field] = changed
    size = int(cast("int", buffer[field]))
    error = max(abs(relative - 1) * size, step)
    unit = "" if field == "write_cache_extents" else "B"
    how = f"bursts of writes of {sectors // 2} KiB, and the model"
    learnt.add(f"buffer.{field}", size, unit, how, error)


def _settle(
    device: LearntDevice,
    learnt: LearntDrive,
    rotation: Rotation,
    cylinders: Cylinders,
    reads: list[SeekPoint],
    cached: Burst | None,
    limit_s: float,
) -> None:
    """Learn how much longer a write of the medium takes than a read at the same distance."""
    chosen = reads[:: max(len(reads) // SETTLE_DISTANCES, 1)]
    wanted = [point.distance for point in chosen]
    writes = learn_seeks(device, rotation, cylinders, wanted, limit_s=limit_s, write=True)
    # Data cross the link before a write, and while a read is on the medium.
    link = float(cast("float", learnt.table["link_bytes_per_s"]))
    other_s = (UNIT - 1) * 512 / link
    if cached is not None and device.flushes:
        other_s += cached.hit_s  # a write into the cache, then a flush
    more_s = np.asarray([w.time_s - r.time_s for w, r in zip(writes, chosen, strict=True)])
    more_s -= other_s
    error_s = np.asarray(
        [math.hypot(w.error_s, r.error_s) for w, r in zip(writes, chosen, strict=True)]
    )
    third = max(len(more_s) // 3, 1)
    near_s, far_s = float(np.mean(more_s[1 : third + 1])), float(np.mean(more_s[-third:]))
    error = float(np.mean(error_s)) / math.sqrt(third)
    grows = far_s - near_s > max(3 * error, 50e-6)
    settle_s = near_s if grows else float(np.average(more_s[1:], weights=1 / error_s[1:] ** 2))
    learnt.table["write_settle_ms"] = min(max(settle_s * 1e3, 0.0), 3.0)
    how = "pairs of writes and of reads; with the difference of their overheads"
    learnt.add("write_settle_ms", settle_s * 1e3, "ms", how, error * 1e3)
    if not grows:
        return
    longer = np.maximum(more_s - settle_s, 0.0)
    learnt.table["seek_write"] = _write_curve(learnt.table, wanted, longer)
    how = "pairs of writes: longer seeks than those of reads"
    learnt.add("seek_write over the longest distance", far_s * 1e3, "ms more", how, error * 1e3)


def _write_curve(
    table: Table, distances: list[int], longer_s: npt.NDArray[np.float64]
) -> dict[str, object]:
    """Return the seek curve of writes: that of reads, and how much longer a seek takes."""
    read = [seek_ms(cast("Table", table["seek"]), distance) for distance in distances]
    times_ms = np.asarray(read) + longer_s * 1e3
    rising = [max(float(each), 0.001) for each in np.maximum.accumulate(times_ms)]
    return {"curve": "table", "distance_cylinders": distances, "time_ms": rising}


def _loads(device: LearntDevice, learnt: LearntDrive, limit_s: float, say: Say) -> None:
    """Measure random and sustained writes, and compare them with the model."""
    part = min(REGION_BYTES / device.capacity_bytes, 0.5)
    loads = [
        ScriptLoad(UNIT, 1, write=True),
        ScriptLoad(UNIT, min(8, device.queue_depth), write=True),
        ScriptLoad(256, 1, sequential=True, last=part, write=True),
        ScriptLoad(256, 1, sequential=True, first=1 - part, write=True),
    ]
    loads = list(dict.fromkeys(loads))
    results: list[LoadResult] = []
    for load in loads:
        say(load.name)
        device.take_idle(1.0)
        results.append(run_load(device, load, limit_s=limit_s / len(loads)))
    if device.queue_depth == 1:
        _order(learnt, loads[0], results[0])
    one = results[0]
    how = "random writes of 4 KiB, depth 1"
    learnt.add("latency of a write of 4 KiB, p50", one.p50_s * 1e3, "ms", how)
    learnt.add("latency of a write of 4 KiB, p99", one.p99_s * 1e3, "ms", how)
    for edge, result in (("outer", results[-2]), ("inner", results[-1])):
        rate = result.iops * 256 * 512 / 1e6
        learnt.add(f"sustained writes at the {edge} edge", rate, "MB/s", "writes in order")
    modelled = modelled_loads(learnt.table, loads, requests=MODEL_REQUESTS, seed=7)
    for load, result, model in zip(loads, results, modelled, strict=True):
        learnt.checks.append(check_of(load, result, model))


def _order(learnt: LearntDrive, load: ScriptLoad, measured: LoadResult) -> None:
    """Learn in which order a drive that holds one command empties its cache: reads do not tell."""
    buffer = cast("Table", learnt.table["buffer"])
    if not buffer.get("write_cache_bytes", 1):
        learnt.unknown.append(Unknown("queue.reordering", "one command at a time, and no cache"))
        return
    queue = cast("Table", learnt.table["queue"])
    # Each with as many writes as were measured, which scatter as those did.
    logs = np.asarray([_rates(learnt.table, load, measured, share) for share in REORDERINGS])
    logs -= math.log(measured.iops)
    middle = logs.mean(axis=1)
    at = int(np.argmin(np.abs(middle)))
    queue["reordering"] = best = REORDERINGS[at]
    low, high = max(at - SLOPE_STEPS, 0), min(at + SLOPE_STEPS, len(middle) - 1)
    slope = abs(middle[high] - middle[low]) / (REORDERINGS[high] - REORDERINGS[low])
    of_rate = math.hypot(float(np.mean(logs.std(axis=1, ddof=1))), ORDER_ALIKE)
    error = min(max(of_rate / max(slope, 1e-9), 0.05), 0.5)
    learnt.add("queue.reordering", best, "", "random writes, and the model", error)


def _rates(table: Table, load: ScriptLoad, measured: LoadResult, share: float) -> list[float]:
    """Return logarithms of the model's rates of a load with this order."""
    changed = {**table, "queue": {**cast("Table", table["queue"]), "reordering": share}}
    seeds = range(7, 7 + ORDER_SEEDS)
    runs = [
        modelled_loads(changed, [load], requests=measured.requests, seed=each) for each in seeds
    ]
    return [math.log(run[0].iops) for run in runs]
