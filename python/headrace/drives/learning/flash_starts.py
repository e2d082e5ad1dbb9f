"""Values with which the fit of an SSD's layout begins.

A fit ends in the minimum nearest to its start, and a limit that holds nothing back has no gradient:
so each limit that may hold is one start.

The model's resources overlap, so that most of them show only where they are the limit:

- a single read of 4 KiB takes the command, overhead, flash, channel and link, one after the other;
- one that the die's register serves takes all of them but the flash;
- one whose data the controller has read ahead takes the command, overhead and link;
- the greatest rate is that of the link, of all channels, or of what the dies read;
- the greatest number of reads per second is that of the controller, or of one of the others.
"""

from __future__ import annotations

import itertools

import numpy as np

from headrace.drives.learning.device import UNIT, LearntDevice
from headrace.drives.learning.flash_layouts import FlashLayout
from headrace.drives.learning.flash_model import SATA_BYTES_PER_S, SATA_DEPTH, Measured, Values
from headrace.drives.learning.loads import ScriptLoad

UNIT_BYTES = UNIT * 512
REGISTER = 0.93
"""Quick reads in order, divided by the median of random ones, below which registers serve them."""
FLASH_SHARES = (0.45, 0.7, 0.9)
"""Of a single read, where no register tells what is of the flash."""
AHEAD_SHARES = (0.5, 0.75, 0.95)
"""Of what a single read takes longer than one whose data were read ahead, for the flash."""
AHEAD_LATE = 0.2
"""What the slowest reads in order take longer than the quick ones, divided by what random ones do,
below which none of them waits for the flash."""
SLACK = 0.4
"""Of the time in which a link or a channel that is no limit carries a unit at the greatest rate."""
LEAST = 0.02
"""Of a single read, for each of its parts."""


def bounds(device: LearntDevice, measured: Measured) -> tuple[Values, Values]:
    """Return the least and the greatest logarithms of the values."""
    one_us = measured[ScriptLoad(UNIT, 1)].p50_s * 1e6
    rate = greatest_rate(measured)
    sata = device.queue_depth <= SATA_DEPTH and rate < SATA_BYTES_PER_S
    fastest = SATA_BYTES_PER_S if sata else 1e11
    low = np.log([0.02 * one_us, 100.0, 0.02 * one_us, 1e6, 1e6])
    high = np.log([1.1 * one_us, 2e7, 1.1 * one_us, 1e11, fastest])
    return low, high


def reads_ahead(measured: Measured) -> bool:
    """Return whether the controller reads ahead: of small reads in order not even those that begin
    a page wait for the flash. (A page of 64 KiB would show in each 16th of them.)"""
    slow_s = measured[ScriptLoad(UNIT, 1)].p50_s
    ordered = measured[ScriptLoad(UNIT, 1, sequential=True)]
    late_s = AHEAD_LATE * (slow_s - ordered.p10_s)
    return ordered.p10_s < REGISTER * slow_s and ordered.tail_s < ordered.p10_s + late_s


def greatest_rate(measured: Measured) -> float:
    """Return the most bytes per second of the loads."""
    return max(result.iops * load.sectors * 512 for load, result in measured.items())


def starts_of(measured: Measured, layout: FlashLayout) -> list[Values]:
    """Return values to begin with for a layout, by what may limit the drive."""
    one_s = measured[ScriptLoad(UNIT, 1)].p50_s
    least_s = LEAST * one_s
    iops = max(result.iops for load, result in measured.items() if load.sectors == UNIT)
    unit_s = UNIT_BYTES / greatest_rate(measured)
    link_limits = (SLACK * layout.channels * unit_s, unit_s)
    channels_limit = (layout.channels * unit_s, SLACK * unit_s)
    dies_limit = (SLACK * layout.channels * unit_s, SLACK * unit_s)
    found: list[Values] = []
    for flash_s, (channel_s, link_s), command_s in itertools.product(
        _flash_times(measured, layout, iops),
        (link_limits, channels_limit, dies_limit),
        (1 / (1.02 * iops), 0.1 / iops),
    ):
        # A channel that cannot be as slow as this is still a start, as fast as it can be.
        over_s = min(channel_s, max(one_s - flash_s, least_s))
        overhead_s = max(one_s - flash_s - over_s - link_s - command_s, least_s)
        found.append(
            np.log(
                [
                    overhead_s * 1e6,
                    1 / command_s,
                    flash_s * 1e6,
                    UNIT_BYTES / over_s,
                    UNIT_BYTES / link_s,
                ]
            )
        )
    return found


def _flash_times(measured: Measured, layout: FlashLayout, iops: float) -> list[float]:
    """Return what the flash may take of a single read, in seconds."""
    one_s = measured[ScriptLoad(UNIT, 1)].p50_s
    hit_s = measured[ScriptLoad(UNIT, 1, sequential=True)].p10_s
    if layout.ahead_bytes:  # a hit spares the flash and its channel
        return [share * max(one_s - hit_s, LEAST * one_s) for share in AHEAD_SHARES]
    if layout.page_units > 1 and hit_s < REGISTER * one_s:
        return [min(max(one_s - hit_s, LEAST * one_s), (1 - 2 * LEAST) * one_s)]
    times_s = [share * one_s for share in FLASH_SHARES]
    by_dies_s = layout.dies / iops
    return [*times_s, by_dies_s] if LEAST * one_s < by_dies_s < one_s else times_s
