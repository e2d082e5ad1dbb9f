"""The script of an SSD: random reads by depth, by size and in order; then the values with which the
model meets them.

What a single read takes is seen directly. How it divides between controller, flash and channel, and
how many reads go on at once, is seen in how latencies grow with size and depth.
"""

from __future__ import annotations

import math

from headrace.drives.learning.device import UNIT, LearntDevice, Say
from headrace.drives.learning.flash_alike import OF_ERROR, Alike, more_dies, settle
from headrace.drives.learning.flash_buffer import SETTLED_S
from headrace.drives.learning.flash_fit import best_fit
from headrace.drives.learning.flash_model import (
    WELL_MET,
    FlashFit,
    Measured,
    missed,
    table_of,
)
from headrace.drives.learning.flash_region import Filled, fill_region
from headrace.drives.learning.flash_starts import reads_ahead
from headrace.drives.learning.flash_writes import learn_flash_writes
from headrace.drives.learning.loads import ScriptLoad, check_of, modelled_loads, run_load
from headrace.drives.learning.values import LearntDrive, Unknown
from headrace.units import format_share

DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128)
FITTED = (
    ("controller.read_overhead_us", "µs"),
    ("controller.read_iops_max", "1/s"),
    ("flash.read_us", "µs"),
    ("flash.channel_bytes_per_s", "B/s"),
    ("link_bytes_per_s", "B/s"),
)
LINK = len(FITTED) - 1
MOST_ERROR = 0.25
"""Standard error of a logarithm; above it a value is not determined."""

WRITES_SHARE = 0.25
"""Of the time, when writes are allowed."""
FILL_SHARE = 0.2
"""Of the time, for the writes in order that reads need."""
READS_SHARE = 0.65
"""Of the time that is left, for each load once."""
AGAIN_SHARE = 0.125
"""Of the same, for each time that loads are measured again."""
AGAIN = 2
"""Times that loads are measured again at most."""
MOST_S = 15.0
"""For one load: more tells no more."""
PAGE_LOADS = [*(ScriptLoad(4 * UNIT, depth) for depth in (2, 8)), ScriptLoad(16 * UNIT, 1)]
"""They tell the size of a page where reads in order are read ahead, and do not show it. Without the
last one a page of 64 KiB in one channel is as good as one of 32 KiB, which is in two."""
DOUBTFUL = 0.05
"""Error of the model above which what follows from it is doubtful."""
AHEAD_NAME = "controller.read_ahead_bytes"
FROM_ALL = "all loads, and the model"
WRITES_UNKNOWN = (
    ("write_buffer_bytes, flash.program_us", "nothing was written: ten reads of the flash"),
    ("controller.write_overhead_us, write_iops_max", "nothing was written: those of reads"),
    ("spare_ratio, slc_cache, garbage_collection", "nothing was written: the model's defaults"),
)


def loads_of(queue_depth: int) -> list[ScriptLoad]:
    """Return the loads of the script."""
    depths = [depth for depth in DEPTHS if depth <= queue_depth]
    deep = min(16, queue_depth)
    by_depth = [ScriptLoad(UNIT, depth) for depth in depths]
    by_size = [ScriptLoad(sectors, 1) for sectors in (16, 32, 64, 256, 1024)]
    large = [
        ScriptLoad(16, min(8, queue_depth)),
        ScriptLoad(64, deep),
        ScriptLoad(256, deep),
        ScriptLoad(1024, min(8, queue_depth)),
    ]
    ordered = [ScriptLoad(UNIT, 1, sequential=True), ScriptLoad(256, 1, sequential=True)]
    return list(dict.fromkeys([*by_depth, *by_size, *large, *ordered]))


def learn_flash(
    device: LearntDevice, *, seconds: float, say: Say, at_most: int = 60_000
) -> LearntDrive:
    """Learn an SSD by reads, and by writes if the device may be written."""
    learnt = LearntDrive()
    write_s = seconds * WRITES_SHARE if device.writable else 0.0
    filled: Filled | None = None
    if device.writable:
        say("writes in order")
        # Reads of what was never written would not need the flash.
        filled = fill_region(device, limit_s=FILL_SHARE * seconds)
        device.take_idle(SETTLED_S)
        learnt.end_part("writes in order", device.take_others("writes in order"))
        seconds -= write_s + FILL_SHARE * seconds
    measured, best = _read(device, seconds=seconds, say=say, at_most=at_most)
    say("other values are sought that meet the loads as well")
    alike = settle(device, best, measured)
    learnt.table = table_of(device, alike.best.layout, alike.best.logs)
    _report(learnt, measured, alike)
    modelled = modelled_loads(learnt.table, measured, requests=8000, seed=5)
    for (load, result), model in zip(measured.items(), modelled, strict=True):
        learnt.checks.append(check_of(load, result, model))
    learnt.end_part("reads", device.take_others("reads"))
    if filled is not None:
        slowest, fastest = alike.range_of(LINK)
        link_error_s = UNIT * 512 * (1 / slowest - 1 / fastest) / (2 * OF_ERROR)
        learn_flash_writes(
            device,
            learnt,
            filled,
            more_dies=lambda least: more_dies(device, alike.best, measured, least),
            link_error_s=link_error_s,
            seconds=write_s,
            say=say,
        )
    else:
        learnt.unknown += [Unknown(name, why) for name, why in WRITES_UNKNOWN]
    return learnt


def _read(
    device: LearntDevice, *, seconds: float, say: Say, at_most: int
) -> tuple[Measured, FlashFit]:
    """Measure each load, and again those that the model misses; return them with the best fit.

    What disturbs the drive or this program only slows a load, so that the faster result is kept. A
    load that the model cannot meet comes out the same again.
    """
    # The kernel queues what the drive does not: a short queue shows its limits, too.
    loads = loads_of(min(max(device.queue_depth, 32), device.most_in_flight))
    measured: Measured = {}

    def measure(chosen: list[ScriptLoad], share: float) -> None:
        limit_s = min(share * seconds / len(chosen), MOST_S)
        for load in chosen:
            say(load.name)
            result = run_load(device, load, limit_s=limit_s, at_most=at_most)
            if load not in measured or result.iops > measured[load].iops:
                measured[load] = result

    measure(loads, READS_SHARE)
    if reads_ahead(measured):
        measure(PAGE_LOADS, AGAIN_SHARE)
    best = best_fit(device, measured, say)
    for _ in range(AGAIN):
        if best.error <= WELL_MET:
            break
        say(f"the model misses the loads by {format_share(best.error)}: some are measured again")
        measure(missed(device, best, measured) or loads, AGAIN_SHARE)
        best = best_fit(device, measured, say, about=best.layout.dies)
    return measured, best


def _report(learnt: LearntDrive, measured: Measured, alike: Alike) -> None:
    """Add the values with their standard errors, or say between which values they are."""
    best = alike.best
    one = measured[ScriptLoad(UNIT, 1)]
    learnt.add("latency of a read of 4 KiB", one.p50_s * 1e6, "µs", "depth 1")
    errors = alike.standard_errors()
    for index, ((name, unit), log, error) in enumerate(zip(FITTED, best.logs, errors, strict=True)):
        value = math.exp(float(log))
        if error <= MOST_ERROR:
            learnt.add(name, value, unit, FROM_ALL, value * float(error))
            continue
        low, high = alike.range_of(index)
        why = f"{low:.3g} to {high:.3g} {unit} meet the loads as well as the file's {value:.3g}"
        learnt.unknown.append(Unknown(name, why))
    _report_layout(learnt, alike)
    learnt.add("error of the model", 100 * best.error, "%", "the model beside all loads")
    if best.error > DOUBTFUL:
        learnt.doubt(FROM_ALL, f"the model misses the loads by {format_share(best.error)}")


def _report_layout(learnt: LearntDrive, alike: Alike) -> None:
    """Add the whole numbers, or say which others meet the loads as well."""
    layout, unit_bytes = alike.best.layout, UNIT * 512
    page_from = FROM_ALL if layout.ahead_bytes else "reads in order"
    for key, name, number, factor, unit, how in (
        ("dies", "dies", layout.dies, 1, "", FROM_ALL),
        ("channels", "flash.channels", layout.channels, 1, "", FROM_ALL),
        ("page", "page", layout.page_units, unit_bytes, "B", page_from),
        ("mapping", "mapping.unit_bytes", layout.mapped_units, unit_bytes, "B", FROM_ALL),
        ("ahead", AHEAD_NAME, layout.ahead_bytes, 1, "B", "reads in order"),
    ):
        if not number:  # no read-ahead
            continue
        if key in alike.numbers:
            also = " or ".join(str(each * factor) for each in alike.numbers[key])
            why = f"with {also} the model meets the loads as well as with {number * factor}"
            learnt.unknown.append(Unknown(name, f"{why}, which is in the file"))
        else:
            learnt.add(name, number * factor, unit, how)
