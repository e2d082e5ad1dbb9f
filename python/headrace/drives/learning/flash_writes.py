"""What writes tell of an SSD: buffer, drain, sustained writes, latency of random writes."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import cast

import numpy as np

from headrace.drives.learning.device import UNIT, LearntDevice, RequestTimes, Say, Times
from headrace.drives.learning.flash_commands import learn_controller, learn_priority
from headrace.drives.learning.loads import (
    ScriptLoad,
    check_of,
    modelled_loads,
    run_load,
)
from headrace.drives.learning.values import LearntDrive, Unknown
from headrace.scenario import Table
from headrace.units import format_share

PIECE = 256
"""Sectors of the writes in order."""
DEPTH = 4
LARGEST_REGION = (16 << 30) // 512
PIECES_AT_A_TIME = 4096
LEAST_PIECES = 8
FASTER = 1.3
"""Rate at which a buffer is filled, divided by that of the cache behind it, at least."""
WINDOWS = 160
LARGEST_BUFFER = 64 << 20
"""Bytes up to which writes that are taken fast are those of a buffer, and not of an SLC cache."""
FALL = 0.8
"""Rate after a fall, divided by the one before, above which it is no fall."""
LEAST_WINDOWS = 3
"""Of each rate; the first one has the buffer in it."""
SETTLED_S = 2.0
DOUBTFUL = 0.25
"""Error of the model in random writes above which values of writes are doubtful. They are fitted to
writes in order and to single writes; a drive that cleans its flash meanwhile takes longer."""
SUSTAINED_AND_MODEL = "sustained writes, and the model"
MODEL_PIECES = 3000


@dataclass(frozen=True)
class Filled:
    """Writes in order into a region that was empty."""

    before: float
    """Bytes per second at first."""
    after: float
    """Bytes per second at the end."""
    error: float
    fell_after: int | None
    """Bytes after which the rate fell; None if it did not."""
    written: int


@dataclass(frozen=True)
class BufferFill:
    """Writes after a pause: taken fast, then as fast as the flash is."""

    bytes: int | None
    drain: float
    """Bytes per second."""
    before: float = math.nan
    """Bytes per second at which it was filled."""


def fill_region(device: LearntDevice, *, limit_s: float) -> Filled:
    """Write in order, so that reads of the region need the flash; return the rates."""
    first, last = device.writable_region
    last = min(last, first + LARGEST_REGION)
    depth = min(DEPTH, device.queue_depth)
    until_s = device.elapsed_s + limit_s
    ends: list[Times] = []
    at = -(-first // PIECE) * PIECE
    low = at
    while at + PIECE <= last and device.elapsed_s < until_s:
        count = min(PIECES_AT_A_TIME, (last - at) // PIECE)
        sector = [at + each * PIECE for each in range(count)]
        left_s = until_s - device.elapsed_s
        timings = device.writes(sector, PIECE, depth=depth, limit_s=left_s)
        ends.append(np.sort(timings.end_s))
        at += len(timings) * PIECE
    device.region = (low, at)
    return _filled(np.concatenate(ends))


def _filled(end_s: Times) -> Filled:
    """Return rates from the ends of the writes."""
    edges = np.linspace(0, len(end_s) - 1, min(WINDOWS, max(len(end_s) // 8, 2)) + 1).astype(int)
    spans_s = np.maximum(np.diff(end_s[edges]), 1e-9)
    rates = np.diff(edges) * PIECE * 512 / spans_s
    # A buffer is full sooner than any cache of the flash.
    begun = int(np.searchsorted(edges[:-1] * (PIECE * 512), LARGEST_BUFFER))
    enough = len(rates) - begun > 2 * LEAST_WINDOWS
    if enough:
        edges, rates = edges[begun:], rates[begun:]
    at = _fall(rates) if enough else None
    # The window with the fall in it has both rates.
    kept = rates[len(rates) // 3 :] if at is None else rates[at + 1 :]
    after = 1 / float(np.mean(1 / kept))  # bytes by time
    before = 1 / float(np.mean(1 / rates[:at])) if at is not None else after
    fell = int(edges[at]) * PIECE * 512 if at is not None else None
    error = float(np.std(kept) / math.sqrt(len(kept)))
    return Filled(before, after, error, fell, len(end_s) * PIECE * 512)


def _fall(rates: Times) -> int | None:
    """Return the window before which the rate was higher than after it; None if it did not fall.

    The window divides the times into two parts that are as even as they can be.
    """
    times = 1 / rates
    best: tuple[float, int] | None = None
    for at in range(LEAST_WINDOWS, len(times) - LEAST_WINDOWS + 1):
        parts = (times[:at], times[at:])
        squares = sum(float(np.sum((each - np.mean(each)) ** 2)) for each in parts)
        if best is None or squares < best[0]:
            best = (squares, at)
    if best is None:
        return None
    at = best[1]
    return at if float(np.mean(times[:at])) < FALL * float(np.mean(times[at:])) else None


def fill_buffer(device: LearntDevice, filled: Filled, *, limit_s: float) -> BufferFill:
    """Write in order after a pause; return what the buffer took before it was full."""
    depth = min(DEPTH, device.queue_depth)
    first, last = device.writable_region
    low, high = -(-first // PIECE), last // PIECE
    device.take_idle(SETTLED_S)
    sector = [(low + at % (high - low)) * PIECE for at in range(PIECES_AT_A_TIME)]
    timings = device.writes(sector, PIECE, depth=depth, limit_s=limit_s)
    return _knee(timings, filled)


def _knee(timings: RequestTimes, filled: Filled) -> BufferFill:
    """Return where the ends of writes change their slope as the buffer is full, and the slope after
    it.

    Behind the buffer a cache of the flash may be filled, which ends in another such place: it is
    filled as fast as the region was before the rate fell.
    """
    end_s = np.sort(timings.end_s) - timings.start_s[0]
    found = _slower_after(end_s)
    while found.bytes is not None:
        of_cache = filled.fell_after is not None and found.before < FASTER * filled.before
        before = _slower_after(end_s[: found.bytes // (PIECE * 512)])
        if before.bytes is None and not of_cache:
            break
        found = before
    return found


def _slower_after(end_s: Times) -> BufferFill:
    """Return how many bytes were written ahead of the rate of the second half."""
    count = len(end_s)
    written = np.arange(1, count + 1) * (PIECE * 512.0)
    if count < 2 * LEAST_PIECES:
        return BufferFill(None, float(written[-1] / end_s[-1]))
    drain = float(written[-1] - written[count // 2]) / float(end_s[-1] - end_s[count // 2])
    # Bytes ahead of a steady drain: they rise until the buffer is full.
    ahead = written - drain * end_s
    top = float(np.median(ahead[count // 2 :]))
    rate = float(written[3] / end_s[3])
    if top < 4 * PIECE * 512 or drain > 0.9 * rate:
        return BufferFill(None, drain)
    full = int(np.argmax(ahead > 0.9 * top))
    return BufferFill(int(top), drain, float(written[full] / end_s[full]))


def learn_flash_writes(
    device: LearntDevice,
    learnt: LearntDrive,
    filled: Filled,
    *,
    link_error_s: float,
    seconds: float,
    say: Say,
) -> None:
    """Learn what writes tell within `seconds`; the table has the values of reads.

    `link_error_s`: standard error of the time that 4 KiB take on the link.
    """
    say("write buffer")
    how = "writes in order into an empty region"
    buffer = fill_buffer(device, filled, limit_s=0.2 * seconds)
    learnt.add("sustained writes", filled.after / 1e6, "MB/s", how, filled.error / 1e6)
    learnt.add("drain of the write buffer", buffer.drain / 1e6, "MB/s", "writes after a pause")
    _buffer(learnt, buffer)
    _cache(learnt, filled)
    say("the model is fitted to the writes")
    _program(device, learnt, filled)
    say("single writes, and bursts of writes")
    device.take_idle(SETTLED_S)
    learn_controller(device, learnt, link_error_s)
    say("reads and writes at a time")
    device.take_idle(SETTLED_S)
    learn_priority(device, learnt, limit_s=0.2 * seconds)
    _loads(device, learnt, 0.5 * seconds, say)
    learnt.unknown.append(
        Unknown(
            "spare_ratio, garbage_collection, flash.erase_us",
            "seen only when all flash was written often",
        )
    )
    learnt.end_part("writes", device.take_others("writes"))


def _loads(device: LearntDevice, learnt: LearntDrive, limit_s: float, say: Say) -> None:
    """Measure random writes, and compare them with the model."""
    depths = (1, min(4, device.queue_depth), min(32, device.queue_depth))
    loads = [ScriptLoad(UNIT, depth, write=True) for depth in dict.fromkeys(depths)]
    for load in loads:
        say(load.name)
        device.take_idle(SETTLED_S)
        result = run_load(device, load, limit_s=limit_s / len(loads))
        if load.depth == 1:
            how = "random writes of 4 KiB, depth 1"
            learnt.add("latency of a write of 4 KiB, p50", result.p50_s * 1e6, "µs", how)
            learnt.add("latency of a write of 4 KiB, p99", result.p99_s * 1e6, "µs", how)
        # As many requests as measured: the buffer is full for as long.
        requests = max(result.requests, 1000)
        model = modelled_loads(learnt.table, [load], requests=requests, seed=5)[0]
        learnt.checks.append(check_of(load, result, model))
    missed = max(
        abs(each.modelled_iops / each.measured_iops - 1) for each in learnt.checks[-len(loads) :]
    )
    if missed > DOUBTFUL:
        learnt.doubt(
            SUSTAINED_AND_MODEL, f"the model misses random writes by {format_share(missed)}"
        )


def _buffer(learnt: LearntDrive, found: BufferFill) -> None:
    if found.bytes is None:
        why = "the flash takes writes as fast as the link, or the buffer is small"
        learnt.unknown.append(Unknown("write_buffer_bytes", why))
        return
    flash = cast("Table", learnt.table["flash"])
    page = int(cast("int", flash["page_bytes"])) * int(cast("int", flash["planes"]))
    learnt.table["write_buffer_bytes"] = max(found.bytes, 2 * page)
    how = "writes after a pause"
    learnt.add("write_buffer_bytes", found.bytes, "B", how, PIECE * 512 * DEPTH)


def _cache(learnt: LearntDrive, filled: Filled) -> None:
    if filled.fell_after is None:
        why = (
            f"the rate did not fall in {filled.written / 1e9:.2g} GB: of a larger cache, if there "
        )
        why += "is one, flash.program_us is the program time, and not of the flash"
        learnt.unknown.append(Unknown("slc_cache", why))
        return
    how = "writes in order: their rate falls"
    error = filled.written / WINDOWS
    learnt.add("slc_cache.bytes", filled.fell_after, "B", how, error)
    learnt.add("writes before the fall", filled.before / 1e6, "MB/s", how)


def _sequential_rate(device: LearntDevice, table: Table) -> float:
    load = ScriptLoad(PIECE, min(DEPTH, device.queue_depth), sequential=True, write=True)
    return modelled_loads(table, [load], requests=MODEL_PIECES)[0].iops * PIECE * 512


def _with_program(table: Table, program_us: float) -> Table:
    changed = copy.deepcopy(table)
    cast("Table", changed["flash"])["program_us"] = program_us
    return changed


def _program_us(device: LearntDevice, table: Table, rate: float) -> float | None:
    """Return the program time with which the model writes at that rate; None if another limit
    holds."""
    low, high = 5.0, 20_000.0
    if _sequential_rate(device, _with_program(table, low)) < 1.03 * rate:
        return None
    for _ in range(12):
        middle = math.sqrt(low * high)
        if _sequential_rate(device, _with_program(table, middle)) > rate:
            low = middle
        else:
            high = middle
    return math.sqrt(low * high)


def _program(device: LearntDevice, learnt: LearntDrive, filled: Filled) -> None:
    """Learn the program time from sustained writes, and that of a cache from those before."""
    flash = cast("Table", learnt.table["flash"])
    found_us = _program_us(device, learnt.table, filled.after)
    if found_us is None:
        why = "the link or the channels limit writes in order; ten reads of the flash are assumed"
        learnt.unknown.append(Unknown("flash.program_us", why))
        return
    flash["program_us"] = found_us
    error = found_us * max(filled.error / filled.after, 0.01)
    learnt.add("flash.program_us", found_us, "µs", SUSTAINED_AND_MODEL, error)
    if filled.fell_after is None:
        return
    fast_us = _program_us(device, learnt.table, filled.before) or 0.1 * found_us
    learnt.table["slc_cache"] = {"bytes": filled.fell_after, "program_us": fast_us}
    learnt.add("slc_cache.program_us", fast_us, "µs", "writes before the fall, and the model")
