"""What writes tell of an SSD: buffer, drain, sustained writes, latency of random writes."""

from __future__ import annotations

import math
from typing import cast

from headrace.drives.learning.device import UNIT, LearntDevice, Say
from headrace.drives.learning.flash_buffer import SETTLED_S, fill_buffer, set_buffer
from headrace.drives.learning.flash_commands import learn_controller, learn_priority
from headrace.drives.learning.flash_programs import (
    SUSTAINED_AND_MODEL,
    MoreDies,
    learn_programs,
    through_program_us,
    with_cache,
)
from headrace.drives.learning.flash_region import WINDOWS, Filled
from headrace.drives.learning.loads import (
    ScriptLoad,
    check_of,
    modelled_loads,
    run_load,
)
from headrace.drives.learning.values import LearntDrive, Unknown
from headrace.scenario import Table
from headrace.units import format_share

ROW = ("planes", "page_bytes", "pages_per_block", "channels", "dies_per_channel")
"""Their product is the bytes of a block of every die."""
OPEN_ROWS = 1
"""Blocks of every die that are free when the model begins to clean."""
DOUBTFUL = 0.25
"""Error of the model in random writes above which values of writes are doubtful. They are fitted to
writes in order and to single writes; a drive that cleans its flash meanwhile takes longer."""


def learn_flash_writes(
    device: LearntDevice,
    learnt: LearntDrive,
    filled: Filled,
    *,
    more_dies: MoreDies,
    link_error_s: float,
    seconds: float,
    say: Say,
) -> None:
    """Learn what writes tell within `seconds`; the table has the values of reads.

    `more_dies`: those that reads allow. `link_error_s`: standard error of the time that 4 KiB take
    on the link.
    """
    say("write buffer")
    how = "writes in order into an empty region"
    mapping = cast("Table", learnt.table["mapping"])
    unit_bytes = int(cast("int", mapping["unit_bytes"]))
    buffer = fill_buffer(device, filled, unit_bytes=unit_bytes, limit_s=0.2 * seconds)
    learnt.add("sustained writes", filled.after / 1e6, "MB/s", how, filled.error / 1e6)
    learnt.add("drain of the write buffer", buffer.drain / 1e6, "MB/s", "writes after a pause")
    say("single writes, and bursts of writes")
    device.take_idle(SETTLED_S)
    through_us = through_program_us(device, learnt)
    if through_us is not None:  # sustained writes depend on the buffer, and it on the program
        cast("Table", learnt.table["flash"])["program_us"] = through_us
    set_buffer(learnt, buffer, filled)
    filled = with_cache(device, learnt.table, filled, through_us)
    _cache(learnt, filled)
    learn_programs(device, learnt, filled, through_us, more_dies)
    if through_us is None and buffer.bytes is not None:
        set_buffer(learnt, buffer, filled)
    learn_controller(device, learnt, link_error_s)
    say("reads and writes at a time")
    device.take_idle(SETTLED_S)
    learn_priority(device, learnt, limit_s=0.2 * seconds)
    _loads(device, learnt, 0.5 * seconds, say)
    spare = "" if "spare_ratio" in learnt.table else "spare_ratio, "
    why = "seen only when all flash was written often"
    learnt.unknown.append(Unknown(f"{spare}garbage_collection, flash.erase_us", why))
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


def _spare(learnt: LearntDrive, written: int, error: float) -> None:
    """Set the spare flash with which the model, which is full of data, begins to clean after so
    many bytes: as soon as few blocks are free."""
    flash, capacity = (
        cast("Table", learnt.table["flash"]),
        cast("int", learnt.table["capacity_bytes"]),
    )
    row = math.prod(int(cast("int", flash[name])) for name in ROW)
    spare = (written + OPEN_ROWS * row) / capacity
    learnt.table["spare_ratio"] = spare
    how = "writes in order: their rate falls once more, after that of a cache"
    learnt.add("spare_ratio", spare, "", how, (error + row) / capacity)


def _cache(learnt: LearntDrive, filled: Filled) -> None:
    if filled.fell_after is None:
        why = (
            f"the rate did not fall in {filled.written / 1e9:.2g} GB: of a larger cache, if there "
        )
        why += "is one, flash.program_us is the program time, and not of the flash"
        learnt.unknown.append(Unknown("slc_cache", why))
        return
    if filled.cleans_after is not None:
        _spare(learnt, filled.cleans_after, filled.written / WINDOWS)
    how = "writes in order: their rate falls"
    error = filled.written / WINDOWS
    learnt.add("slc_cache.bytes", filled.fell_after, "B", how, error)
    learnt.add("writes before the fall", filled.before / 1e6, "MB/s", how)
