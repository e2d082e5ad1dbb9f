"""What commands of writes tell of an SSD apart from its flash: the controller's time and rate, and
which of reads and programs goes first.

Random writes that go on for long are as fast as the flash, or as the cleaning, is. So the
controller is seen in writes that the buffer takes: single ones after pauses, and bursts shorter
than it.
"""

from __future__ import annotations

import copy
import math
from typing import cast

import numpy as np

from headrace.drives.learning.device import UNIT, LearntDevice, modelled_device
from headrace.drives.learning.loads import MIDDLE, TAIL, mean_between
from headrace.drives.learning.values import LearntDrive, Unknown, standard_error
from headrace.scenario import Table

SINGLE, SINGLE_PAUSE_S = 100, 2e-3
"""Writes one at a time, and the pause before each, in which the flash takes the one before."""
BURSTS, BURST_PAUSE_S = 20, 30e-3
"""Bursts, and the pause before each, in which the buffer is emptied."""
BURST_WRITES = 32
BURST_OF_BUFFER = 0.5
"""Part of the buffer that a burst may fill."""
SMALL_BUFFER = 8
"""Writes of a burst if the buffer is not known."""
LIMITED = 0.9
"""Rate of bursts, divided by what the link lets through, below which the controller limits them."""
MIXED_DEPTH, MIXED_WRITES = 8, 0.5
MIXED_MOST = 20_000
MODEL_MOST = 8000
PROGRAMS = (0.2, 0.3, 0.45, 0.67, 1.0)
"""Program times that are tried where no other load tells one, divided by the assumed one."""
TOLD_APART = 0.05
"""Difference of errors below which two orders of reads and programs cannot be told apart."""
SINGLE_AND_MODEL = "single writes of 4 KiB after pauses, and the model"
PRIORITIES: tuple[Table, ...] = (
    {"kind": "between_operations"},
    {"kind": "fifo"},
    {"kind": "suspend", "suspend_us": 5.0},
    {"kind": "suspend", "suspend_us": 20.0},
    {"kind": "suspend", "suspend_us": 80.0},
)


def learn_controller(device: LearntDevice, learnt: LearntDrive, link_error_s: float) -> None:
    """Learn the controller's overhead and greatest rate of writes.

    `link_error_s`: standard error of the time that 4 KiB take on the link.
    """
    controller = cast("Table", learnt.table["controller"])
    controller["write_iops_max"] = 2e7
    rates = burst_rates(device, _burst_writes(learnt.table))
    rate = float(np.median(rates))
    model = modelled_device(learnt.table, seed=3, script_seed=3, writable=True)
    of_link = float(np.median(burst_rates(model, _burst_writes(learnt.table))))
    if rate < LIMITED * of_link:
        controller["write_iops_max"] = rate
        error = max(standard_error(rates), 0.005 * rate)
        learnt.add("controller.write_iops_max", rate, "1/s", "bursts of writes of 4 KiB", error)
    else:
        read_iops = float(cast("float", controller["read_iops_max"]))
        controller["write_iops_max"] = max(read_iops, rate)
        why = f"{rate:.3g} or more: the link limits bursts of writes"
        learnt.unknown.append(Unknown("controller.write_iops_max", why))
    _overhead(device, learnt, link_error_s)


def _overhead(device: LearntDevice, learnt: LearntDrive, link_error_s: float) -> None:
    """Set the overhead of writes so that the model's single write takes as long."""
    controller = cast("Table", learnt.table["controller"])
    single_s = single_writes_s(device)
    overhead_us = float(cast("float", controller["write_overhead_us"]))
    for _ in range(2):
        model = modelled_device(learnt.table, seed=3, script_seed=3, writable=True)
        more_s = float(np.median(single_s)) - float(np.median(single_writes_s(model)))
        overhead_us = max(overhead_us + more_s * 1e6, 0.1)
        controller["write_overhead_us"] = overhead_us
    error = max(standard_error(single_s), 0.005 * float(np.median(single_s)), link_error_s) * 1e6
    name = "controller.write_overhead_us"
    if any(each.name == "controller.write_iops_max" for each in learnt.values):
        learnt.add(name, overhead_us, "µs", SINGLE_AND_MODEL, error)
        return
    # A command takes 1/write_iops_max and the overhead, of which only the sum is seen.
    most_us = overhead_us + 1e6 / float(cast("float", controller["write_iops_max"]))
    why = f"{error:.2g} to {most_us:.3g} µs, with the greatest rate of writes that is not known"
    learnt.unknown.append(Unknown(name, f"{why}; the file's {overhead_us:.3g} fits it"))


def single_writes_s(device: LearntDevice) -> np.ndarray:
    """Return response times of single writes into an empty buffer."""
    places = device.writable_sectors(SINGLE, UNIT)
    return device.writes(places, UNIT, wait_s=SINGLE_PAUSE_S).response_s


def burst_rates(device: LearntDevice, count: int) -> np.ndarray:
    """Return the writes per second of bursts into an empty buffer."""
    found: list[float] = []
    for _ in range(BURSTS):
        device.take_idle(BURST_PAUSE_S)
        ends = np.sort(device.writes(device.writable_sectors(count), UNIT, depth=count).end_s)
        # Half of them are left out, as a drive may take the first commands at once.
        half = count // 2
        found.append((count - 1 - half) / max(float(ends[-1] - ends[half]), 1e-9))
    return np.asarray(found)


def _burst_writes(table: Table) -> int:
    """Return how many writes the buffer takes for sure."""
    depth = int(cast("int", table["queue_depth"]))
    buffer = table.get("write_buffer_bytes")
    room = SMALL_BUFFER
    if buffer is not None:
        mapping = cast("Table", table["mapping"])
        taken = max(int(cast("int", mapping["unit_bytes"])), UNIT * 512)
        room = int(BURST_OF_BUFFER * int(cast("int", buffer)) / taken)
    return max(min(BURST_WRITES, depth, room), 4)


def learn_priority(device: LearntDevice, learnt: LearntDrive, *, limit_s: float) -> None:
    """Learn whether reads wait for programs, from reads and writes at a time."""
    measured = _mixed(device, MIXED_MOST, limit_s)
    met = [
        min(
            (_error(learnt.table, priority, program_us, measured, limit_s), program_us)
            for program_us in _program_times(learnt)
        )
        for priority in PRIORITIES
    ]
    errors = [error for error, _ in met]
    best = int(np.argmin(errors))
    learnt.table["read_priority"] = PRIORITIES[best]
    cast("Table", learnt.table["flash"])["program_us"] = met[best][1]
    others = {
        str(each["kind"])
        for each, error in zip(PRIORITIES, errors, strict=True)
        if error < errors[best] + TOLD_APART and each["kind"] != PRIORITIES[best]["kind"]
    }
    if others:
        also = " or ".join(sorted(others))
        why = f"with {also} the model meets reads and writes as well as with the file's"
        learnt.unknown.append(Unknown("read_priority", f"{why} {PRIORITIES[best]['kind']}"))
    learnt.add(
        "error of the model with writes", 100 * errors[best], "%", "reads and writes at once"
    )


def _program_times(learnt: LearntDrive) -> list[float]:
    """Return the program times to try, in microseconds: that of the table, and shorter ones if
    nothing told it yet."""
    flash = cast("Table", learnt.table["flash"])
    now_us = float(cast("float", flash["program_us"]))
    if not any(each.name == "flash.program_us" for each in learnt.unknown):
        return [now_us]
    return [now_us * each for each in PROGRAMS]


def _error(
    known: Table,
    priority: Table,
    program_us: float,
    measured: tuple[float, float, float],
    limit_s: float,
) -> float:
    """Return how far the model misses reads and writes at a time."""
    table = {**copy.deepcopy(known), "read_priority": priority}
    cast("Table", table["flash"])["program_us"] = program_us
    model = modelled_device(table, seed=3, script_seed=3, writable=True)
    found = _mixed(model, MODEL_MOST, limit_s)
    logs = [math.log(one / other) for one, other in zip(found, measured, strict=True)]
    return float(np.sqrt(np.mean(np.square(logs))))


def _mixed(device: LearntDevice, most: int, limit_s: float) -> tuple[float, float, float]:
    """Return IOPS, the middle and the tail of reads, of reads and writes at a time."""
    depth = min(MIXED_DEPTH, device.queue_depth)
    write = np.random.default_rng(1).random(most) < MIXED_WRITES
    places = device.writable_sectors(most)
    timings = device.mixed(places, UNIT, write.tolist(), depth=depth, limit_s=limit_s)
    count = len(timings)
    skipped = count // 4  # until the buffer is full
    reads_s = np.sort(timings.response_s[skipped:][~write[skipped:count]])
    span_s = float(timings.end_s.max() - timings.start_s[skipped])
    return (
        (count - skipped) / span_s,
        mean_between(reads_s, *MIDDLE),
        mean_between(reads_s, *TAIL),
    )
