"""The time of a program of an SSD: from writes that are done when they are in the flash, and from
sustained writes.

A single write through the buffer takes a program longer than one into it. Where the drive has a
cache of the flash, that is a program of the cache. Sustained writes tell the dies that work at a
time, too, which reads do not where the controller limits them.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np

from headrace.drives.learning.device import UNIT, LearntDevice, modelled_device
from headrace.drives.learning.flash_region import DEPTH, PIECE, Filled
from headrace.drives.learning.loads import ScriptLoad, modelled_loads
from headrace.drives.learning.values import LearntDrive, Unknown
from headrace.scenario import Table

SUSTAINED_AND_MODEL = "sustained writes, and the model"
THROUGH_AND_MODEL = "writes through the buffer, and the model"
THROUGH = "single writes, into the buffer and through it"
MODEL_PIECES = 3000
THROUGH_WRITES, THROUGH_PAUSE_S = 60, 4e-3
"""Writes one at a time, and the pause before each, in which the flash takes the one before."""
AT_ONCE = 0.5
"""Of the read of a page: what a write through the buffer takes longer, below which the buffer is
protected. No program is faster than a read."""
LIMITED = 1.03
"""Greatest rate of the model, divided by that of the drive, below which another limit holds."""
TOO_SLOW = 1.15
"""Times or rates of the model, divided by those of the drive, that are no accident."""
TOO_FEW = 1.06
"""Program time from single writes, divided by that from sustained ones, above which more dies
program at a time than the model has."""
OF_CACHE = 0.7
"""Program time from single writes, divided by that from sustained ones, below which the drive has a
cache of the flash."""
LEAST_US, MOST_US = 5.0, 20_000.0

MoreDies = Callable[[int], int | None]
"""Returns how many dies, so many or a few more, meet the reads as well; None if none do."""


@dataclass(frozen=True)
class SustainedProgram:
    """The program time that meets a rate of writes in order."""

    program_us: float
    limited: bool
    """Another limit holds: it may be less."""


def with_cache(
    device: LearntDevice, table: Table, filled: Filled, through_us: float | None
) -> Filled:
    """Return the fall of the rate, even if it is slight, if single programs are faster than those
    of sustained writes: they go into a cache."""
    if filled.slightly is None or through_us is None:
        return filled
    last = _sustained(device, table, filled.slightly.after)
    if last.limited or through_us > OF_CACHE * last.program_us:
        return filled
    # A small buffer makes sustained writes slow, too; then the first ones are not as fast as the
    # model's with such programs.
    first_rate = _sequential_rate(device, table, through_us)
    return filled.slightly if first_rate < TOO_SLOW * filled.slightly.before else filled


def learn_programs(
    device: LearntDevice,
    learnt: LearntDrive,
    filled: Filled,
    through_us: float | None,
    more_dies: MoreDies,
) -> None:
    """Learn the program time, and that of a cache. `through_us`: that of single writes."""
    fell = filled.fell_after is not None
    first_rate = filled.before if fell else filled.after
    first = _sustained(device, learnt.table, first_rate)
    if through_us is not None and through_us > TOO_FEW * first.program_us:
        _add_dies(learnt, through_us / first.program_us, more_dies)
        first = _sustained(device, learnt.table, first_rate)
    elif through_us is not None and _buffer_limits(learnt.table, first, through_us):
        _learn_small_buffer(device, learnt, through_us, first_rate)
        first = SustainedProgram(through_us, limited=False)
    last = _sustained(device, learnt.table, filled.after) if fell else first
    if fell:
        fast_us = _chosen_us(first, through_us, 0.1 * last.program_us)
        learnt.table["slc_cache"] = {"bytes": filled.fell_after, "program_us": fast_us}
        how = "writes before the fall, and the model"
        learnt.add("slc_cache.program_us", fast_us, "µs", how)
        through_us = None  # of the cache
    _set_program(learnt, filled, last, through_us)


def _set_program(
    learnt: LearntDrive, filled: Filled, last: SustainedProgram, through_us: float | None
) -> None:
    """Set the program time from sustained writes, or from those through the buffer."""
    flash = cast("Table", learnt.table["flash"])
    ten_reads_us = 10 * float(cast("float", flash["read_us"]))
    found_us = _chosen_us(last, through_us, ten_reads_us)
    flash["program_us"] = found_us
    if not last.limited:
        error = found_us * max(filled.error / filled.after, 0.01)
        learnt.add("flash.program_us", found_us, "µs", SUSTAINED_AND_MODEL, error)
    elif through_us is not None:
        learnt.add("flash.program_us", found_us, "µs", THROUGH_AND_MODEL, 0.02 * found_us)
    else:
        why = f"{last.program_us:.3g} µs or less: the link or the channels limit writes in order"
        why += "; the file's meets reads and writes at a time best"
        learnt.unknown.append(Unknown("flash.program_us", why))


def _chosen_us(sustained: SustainedProgram, through_us: float | None, otherwise_us: float) -> float:
    """Return the program time; it is never one with which the model misses sustained writes."""
    if not sustained.limited:
        return sustained.program_us
    return min(otherwise_us if through_us is None else through_us, sustained.program_us)


def _add_dies(learnt: LearntDrive, times: float, more_dies: MoreDies) -> None:
    """Give the model so many times the dies, if reads are met as well."""
    flash = cast("Table", learnt.table["flash"])
    channels, deep = (int(cast("int", flash[name])) for name in ("channels", "dies_per_channel"))
    dies = more_dies(math.ceil(channels * deep * times))
    if dies is None or dies <= channels * deep:
        return
    flash["dies_per_channel"] = dies // channels
    why = f"with fewer than {dies}, which are in the file, the model's writes are too slow"
    learnt.values = [each for each in learnt.values if each.name != "dies"]
    learnt.unknown = [each for each in learnt.unknown if each.name != "dies"]
    learnt.unknown.append(Unknown("dies", why))


def _buffer_limits(table: Table, first: SustainedProgram, through_us: float) -> bool:
    """Return whether a buffer that no writes told may hold back the dies: with programs as short as
    single ones, the model's writes in order are too fast."""
    known = "write_buffer_bytes" in table
    return not known and not first.limited and through_us * TOO_SLOW < first.program_us


def _learn_small_buffer(
    device: LearntDevice, learnt: LearntDrive, through_us: float, rate: float
) -> None:
    """Set the buffer with which the model writes in order at a rate: pages of the dies that program
    are in it."""
    flash = cast("Table", learnt.table["flash"])
    names = ("planes", "page_bytes", "channels", "dies_per_channel")
    planes, page_bytes, channels, deep = (int(cast("int", flash[name])) for name in names)
    page = planes * page_bytes
    low, high = 2.0 * page, 2.0 * page * max(channels * deep, 2)
    for _ in range(10):
        middle = math.sqrt(low * high)
        table = {**learnt.table, "write_buffer_bytes": int(middle)}
        if _sequential_rate(device, table, through_us) < rate:
            low = middle
        else:
            high = middle
    learnt.table["write_buffer_bytes"] = int(high)
    learnt.unknown = [each for each in learnt.unknown if each.name != "write_buffer_bytes"]
    learnt.add("write_buffer_bytes", int(high), "B", SUSTAINED_AND_MODEL, float(page))


def through_program_us(device: LearntDevice, learnt: LearntDrive) -> float | None:
    """Return the time of a program from single writes; None if the buffer is protected, which
    is added."""
    table = copy.deepcopy(learnt.table)
    flash = cast("Table", table["flash"])
    longer_s = _longer_s(device, table)
    protected = longer_s < AT_ONCE * float(cast("float", flash["read_us"])) * 1e-6
    learnt.table["write_buffer_protected"] = protected
    learnt.add("write_buffer_protected", float(protected), "", THROUGH)
    if protected:
        return None
    for _ in range(2):
        model = modelled_device(table, seed=3, script_seed=3, writable=True)
        more_us = 1e6 * (longer_s - _longer_s(model, table))
        flash["program_us"] = max(float(cast("float", flash["program_us"])) + more_us, LEAST_US)
    return float(cast("float", flash["program_us"]))


def _longer_s(device: LearntDevice, table: Table) -> float:
    """Return what a single write takes longer if it is done when it is in the flash."""
    mapping = cast("Table", table["mapping"])
    sectors = max(int(cast("int", mapping["unit_bytes"])) // 512, UNIT)
    times_s: list[float] = []
    for through in (False, True):
        places = device.writable_sectors(THROUGH_WRITES, sectors)
        made = device.writes(places, sectors, wait_s=THROUGH_PAUSE_S, through=through)
        times_s.append(float(np.median(made.response_s)))
    return times_s[1] - times_s[0]


def _sequential_rate(device: LearntDevice, table: Table, program_us: float) -> float:
    changed = copy.deepcopy(table)
    cast("Table", changed["flash"])["program_us"] = program_us
    load = ScriptLoad(PIECE, min(DEPTH, device.queue_depth), sequential=True, write=True)
    return modelled_loads(changed, [load], requests=MODEL_PIECES)[0].iops * PIECE * 512


def _sustained(device: LearntDevice, table: Table, rate: float) -> SustainedProgram:
    """Return the greatest program time with which the model writes at that rate."""
    low, high = LEAST_US, MOST_US
    greatest = _sequential_rate(device, table, low)
    limited = greatest < LIMITED * rate
    target = min(rate, greatest / LIMITED) if limited else rate
    for _ in range(12):
        middle = math.sqrt(low * high)
        if _sequential_rate(device, table, middle) > target:
            low = middle
        else:
            high = middle
    return SustainedProgram(math.sqrt(low * high), limited)
