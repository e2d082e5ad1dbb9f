"""RAID levels against the arithmetic of Linux md: how many disks' worth of a load they do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from headrace.catalog import CatalogEntry, entry
from headrace.drives import Load, run_drive
from headrace.drives.running import replay_trace
from headrace.drives.traces import WRITE, Trace
from rows import Comparison, Kind, Row, relative

DRIVE = "sata-7200-500gb"
SSD = "samsung-870-evo-1tb"
NOT_THE_MODEL_S = frozenset({"sheet", "source", "price"})
CHUNK_BYTES = 64 << 10
MIB = 2048
"""Sectors of 1 MiB."""
IN_ORDER = ((0, 4, 4.0), (1, 2, 1.0), (5, 3, 2.0), (5, 4, 3.0), (6, 6, 4.0), (10, 4, 2.0))
"""Level, disks, and how many disks hold different data."""
SMALL = ((0, 4, 1.0, 4), (5, 4, 0.5, 3), (5, 8, 0.5, 7), (6, 6, 0.5, 4))
"""One write of 4 KiB at a time: over parity old data are read first, and written a turn later. Last
the disks that hold different data."""
DEPTH = 8
MANY = 32
"""Requests in flight per drive, with which every drive is busy."""
BUSY = (
    ("RAID 5 of 8, 4 KiB read at random", DRIVE, "randread", 5, 8, 8.0),
    ("RAID 5 of 8, 4 KiB written at random", DRIVE, "randwrite", 5, 8, 2.0),
    ("RAID 6 of 8, 4 KiB written at random", DRIVE, "randwrite", 6, 8, 8 / 6),
    ("RAID 10 of 8, 4 KiB written at random", DRIVE, "randwrite", 10, 8, 4.0),
    ("RAID 0 of 3 SSDs, 4 KiB read at random", SSD, "randread", 0, 3, 3.0),
    ("RAID 0 of 3 SSDs, 4 KiB written at random", SSD, "randwrite", 0, 3, 3.0),
)
"""Load with O_DIRECT, drives, and the worth of so many in flight: a write over parity takes four
(RAID 5) or six (RAID 6) I/Os, over mirrors two."""
REACH = 100_000 * MIB
"""Sectors of each disk where small writes are."""


def _without_cache() -> CatalogEntry:
    """Return the disk with its write cache off, so that every write is on the medium."""
    return entry("drives", f"{DRIVE} write-cache=off")


def _rate(raid: Any, sector: Any, sectors: int, depth: int) -> float:
    """Return writes per second in a closed loop (Little's law)."""
    count = len(sector)
    trace = Trace(
        Path("writes"),
        np.zeros(count, np.uint64),
        np.full(count, WRITE, np.uint8),
        np.asarray(sector, np.uint64),
        np.full(count, sectors, np.uint32),
    )
    response_ns = replay_trace(_without_cache(), trace, iodepth=depth, raid=raid)
    return depth / float(response_ns.mean()) * 1e9


def _busy(drive: str, rw: str, raid: Any, depth: int) -> float:
    """Return requests of 4 KiB per second with so many in flight."""
    found = entry("drives", drive) if drive == SSD else _without_cache()
    table = {key: value for key, value in found.written.items() if key not in NOT_THE_MODEL_S}
    seconds = 1.0 if drive == SSD else 200.0
    load = Load(
        rw=rw, bs_bytes=4096, iodepth=depth, runtime_s=seconds, ramp_time_s=seconds / 10, raid=raid
    )
    return run_drive(table, load)["read" if rw == "randread" else "write"]["iops"]


def _raid(level: int, disks: int) -> Any:
    return {"level": level, "drives": disks, "chunk_bytes": CHUNK_BYTES}


def _row(name: str, obtained: float, worth: float, disks: int, kind: Kind) -> Row:
    return relative(name, "disks", obtained, worth, float(disks), kind)


def rows(_: Path | None) -> list[Row]:
    """Write in order, and at random places, to every level and to one disk."""
    places = np.random.default_rng(1)
    in_order = np.arange(3000) * MIB
    found: list[Row] = []
    one = _rate(None, in_order, MIB, DEPTH)
    for level, disks, worth in IN_ORDER:
        obtained = _rate(_raid(level, disks), in_order, MIB, DEPTH) / one
        name = f"RAID {level} of {disks}, 1 MiB in order"
        found.append(_row(name, obtained, worth, disks, "predicted"))
    one = _rate(None, places.integers(0, REACH // 8, 3000) * 8, 8, 1)
    for level, disks, worth, data in SMALL:
        random = places.integers(0, REACH // 8 * data, 3000) * 8
        name = f"RAID {level} of {disks}, 4 KiB at random, one at a time"
        obtained = _rate(_raid(level, disks), random, 8, 1) / one
        found.append(_row(name, obtained, worth, disks, "assumption"))
    for name, drive, rw, level, drives, worth in BUSY:
        one = _busy(drive, rw, None, MANY)
        obtained = _busy(drive, rw, _raid(level, drives), MANY * drives) / one
        found.append(
            _row(f"{name}, {MANY * drives} in flight", obtained, worth, drives, "assumption")
        )
    return found


COMPARISON = Comparison(
    title="RAID levels and their arithmetic",
    model="RAID of Linux md",
    source="no measurement: what follows from md's layout and its writes in whole stripes, in "
    "disks' worth. In order: as many disks as hold different data. At random over parity: a read "
    "and, about a turn later, a write at the same places, so half the writes of one disk. Many in "
    "flight: drives over I/Os per request. "
    f"The disk is `{DRIVE}` with its write cache off; chunks of 64 KiB.",
    null="every disk adds its own rate.",
    rows=rows,
    notes=(
        "The arithmetic of small writes is a rule of thumb: the slowest of the disks that are read "
        "decides, and the turn that follows is shorter than a random seek and half a turn.",
        "Small writes go to the same part of every disk, so that seeks are equally long. A first "
        "run wrote to the same part of every array (RAID 0: 1.28 disks: its seeks were shorter), "
        "so these rows are assumptions.",
        "Many in flight: md's rule for writes that are waited for was added when RAID 5 of 8 had "
        "been seen to do 228 writes per second with 128 in flight where the arithmetic gives 264 "
        "(now 256): assumptions. The write follows its read at the same place and so costs less "
        "than a random one; the busiest drive holds up the rest, which costs more.",
    ),
)
