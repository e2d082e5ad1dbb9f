"""The write buffer of an SSD, from writes after a pause: it takes them fast until it is full."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from headrace.drives.learning.device import (
    UNIT,
    LearntDevice,
    RequestTimes,
    Times,
    modelled_device,
)
from headrace.drives.learning.flash_region import DEPTH, PIECE, PIECES_AT_A_TIME, Filled
from headrace.drives.learning.values import LearntDrive, Unknown
from headrace.scenario import Table

SETTLED_S = 2.0
FASTER = 1.3
"""Rate at which a buffer is filled, divided by that of the cache behind it, at least."""
LEAST_PIECES = 8
LEAST_PIECES_AHEAD = 4
"""Of writes that a buffer holds, below which it is not told from the queue."""

REFINED = 8
"""Times that the model is filled, to find the size with which it takes as many writes."""
MODEL_S = 1.0


@dataclass(frozen=True)
class BufferWrites:
    """Writes that may fill a buffer."""

    sectors: int
    depth: int
    ordered: bool


WRITES = (
    BufferWrites(PIECE, DEPTH, ordered=True),
    # They end in a buffer too small for a few large ones.
    BufferWrites(4 * UNIT, 2 * DEPTH, ordered=True),
    # They fill a buffer of a drive whose flash takes writes in order as fast as the link, where
    # each takes as much of the buffer, and of the flash, as the mapping keeps together.
    BufferWrites(UNIT, 8 * DEPTH, ordered=False),
)


@dataclass(frozen=True)
class BufferFill:
    """Writes after a pause: taken fast, then as fast as the flash is."""

    bytes: int | None
    drain: float
    """Bytes per second."""
    before: float = math.nan
    """Bytes per second at which it was filled."""
    error: float = 0.0
    """Standard error of the bytes."""
    writes: BufferWrites | None = None
    """The writes that filled it."""


def fill_buffer(
    device: LearntDevice, filled: Filled, *, unit_bytes: int, limit_s: float
) -> BufferFill:
    """Write after a pause; return what the buffer took before it was full.

    `unit_bytes`: what the mapping keeps together, of which smaller writes take a whole one.
    """
    device.take_idle(SETTLED_S)
    found: list[BufferFill] = []
    for writes in WRITES:
        if found:
            device.take_idle(SETTLED_S / 2)
        timings = _written(device, writes, limit_s / len(WRITES))
        taken = max(writes.sectors * 512, unit_bytes)
        found.append(replace(_knee(timings, filled, taken), writes=writes))
        if found[-1].bytes is not None:
            break
    return replace(found[-1], drain=found[0].drain)


def refined(table: Table, found: BufferFill, filled: Filled) -> BufferFill:
    """Return the size of a buffer with which the model takes as many bytes before it is full.

    The bytes ahead of the drain are less than the buffer: what is being programmed is still in it.
    """
    writes = found.writes
    if found.bytes is None or writes is None:
        return found
    mapping, flash = cast("Table", table["mapping"]), cast("Table", table["flash"])
    taken = max(writes.sectors * 512, int(cast("int", mapping["unit_bytes"])))
    page = int(cast("int", flash["page_bytes"])) * int(cast("int", flash["planes"]))
    size = found.bytes
    for _ in range(REFINED):
        size = max(size, 2 * page)
        changed = {**table, "write_buffer_bytes": size}
        model = modelled_device(changed, seed=3, script_seed=3, writable=True)
        modelled = _knee(_written(model, writes, MODEL_S), filled, taken)
        if modelled.bytes is None:  # not even as much as is being programmed
            size = 2 * size
            continue
        more = found.bytes - modelled.bytes
        size = max(size + more, found.bytes // 2)
        if abs(more) < 0.02 * found.bytes:
            return replace(found, bytes=size)
    return found


def _written(device: LearntDevice, writes: BufferWrites, limit_s: float) -> RequestTimes:
    """Write without a pause for up to `limit_s`."""
    depth, sectors = min(writes.depth, device.queue_depth), writes.sectors
    first, last = device.writable_region
    low, high = -(-first // sectors), last // sectors
    if writes.ordered:
        places = [(low + at % (high - low)) * sectors for at in range(PIECES_AT_A_TIME)]
    else:
        places = device.writable_sectors(PIECES_AT_A_TIME * 4, sectors)
    return device.writes(places, sectors, depth=depth, limit_s=limit_s)


def _knee(timings: RequestTimes, filled: Filled, taken: int) -> BufferFill:
    """Return where the ends of writes change their slope as the buffer is full, and the slope after
    it. `taken`: bytes that one of them takes.

    Behind the buffer a cache of the flash may be filled, which ends in another such place: it is
    filled as fast as the region was before the rate fell.
    """
    end_s = np.sort(timings.end_s) - timings.start_s[0]
    found = _slower_after(end_s, taken)
    while found.bytes is not None:
        of_cache = filled.fell_after is not None and found.before < FASTER * filled.before
        before = _slower_after(end_s[: found.bytes // taken], taken)
        if before.bytes is None and not of_cache:
            break
        found = before
    return found


def _slower_after(end_s: Times, taken: int) -> BufferFill:
    """Return how many bytes were written ahead of the rate of the second half."""
    count = len(end_s)
    written = np.arange(1, count + 1) * float(taken)
    if count < 2 * LEAST_PIECES:
        return BufferFill(None, float(written[-1] / end_s[-1]))
    drain = float(written[-1] - written[count // 2]) / float(end_s[-1] - end_s[count // 2])
    # Bytes ahead of a steady drain: they rise until the buffer is full.
    ahead = written - drain * end_s
    top = float(np.median(ahead[count // 2 :]))
    full = int(np.argmax(ahead > 0.9 * top))
    if top < LEAST_PIECES_AHEAD * taken or full == 0:
        return BufferFill(None, drain)
    # From the first end on: until then the first commands were on their way.
    rate = float(written[full] - written[0]) / float(end_s[full] - end_s[0])
    if drain > 0.9 * rate:
        return BufferFill(None, drain)
    return BufferFill(int(top), drain, float(written[full] / end_s[full]), float(DEPTH * taken))


def set_buffer(learnt: LearntDrive, found: BufferFill, filled: Filled) -> None:
    """Add the size of the buffer, or say why it is not known. The table has the program time."""
    if found.bytes is None:
        why = "the flash takes writes as fast as the link, or the buffer is small"
        learnt.unknown.append(Unknown("write_buffer_bytes", why))
        return
    size = refined(learnt.table, found, filled).bytes or found.bytes
    flash = cast("Table", learnt.table["flash"])
    page = int(cast("int", flash["page_bytes"])) * int(cast("int", flash["planes"]))
    learnt.table["write_buffer_bytes"] = max(size, 2 * page)
    learnt.values = [each for each in learnt.values if each.name != "write_buffer_bytes"]
    how = "writes after a pause, and the model"
    learnt.add("write_buffer_bytes", size, "B", how, found.error)
