"""Drive models against IOPS by requests in flight of two disks and an SSD."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.catalog import entry
from headrace.drives import Load, run_drive
from rows import Comparison, Kind, Row, relative

DEPTHS = (1, 2, 4, 8, 16, 32, 64)
LINK = 270e6
"""Bytes/s of a 3 Gb/s link: 300 MB/s of payload less its primitives; taken from the highest rate
of reads in sequence and so not independent of these measurements."""


@dataclass(frozen=True)
class Curve:
    """Measured IOPS of 4 KiB requests at `DEPTHS`, as far as they were measured."""

    rw: str
    iops: tuple[float, ...]
    fitted: tuple[str, ...] = ()
    """Path of the table's field that is set so that depth 1 agrees."""
    bounds: tuple[float, float] = (0.0, 0.0)
    """Of that field."""
    counts: bool = False
    """Whether the field is a whole number, with which IOPS rise; otherwise they fall with it."""
    assumed_from: int = 1000
    """Depth from which a value decides that was chosen with the measurement in sight."""
    ceiling_iops: float | None = None
    """What the data sheet says of many requests: the null model's upper limit. None: as at
    depth 1."""


def _disk(name: str, capacity: int, rpm: float, heads: int, outer: float, step_ms: float) -> Any:
    return {
        "kind": "hdd",
        "name": name,
        "capacity_bytes": capacity,
        "rotation_rpm": rpm,
        "heads": heads,
        "rates": {"outer_bytes_per_s": outer},
        "seek": {"curve": "sheet", "track_to_track_ms": step_ms, "average_ms": 9.0},
        "link_bytes_per_s": LINK,
    }


def _pro() -> Any:
    """The catalog's 860 PRO on the slower link."""
    table = deepcopy(entry("drives", "samsung-860-pro-1tb").written)
    for key in ("sheet", "source", "price"):
        table.pop(key, None)
    table["link_bytes_per_s"] = LINK
    return table


SEEK = ("seek", "average_ms")
RANGES = ("buffer", "write_cache_extents")
READ = ("flash", "read_us")
WRITE = ("controller", "write_overhead_us")
DRIVES: dict[str, tuple[Any, tuple[Curve, ...]]] = {
    "SpinPoint F1 1 TB": (
        _disk("spinpoint-f1", 1_000_204_886_016, 7200, 6, 110e6, 0.8),
        (
            Curve(
                "randread",
                (72.1, 72.8, 75.3, 85.8, 111.3, 130.3),
                SEEK,
                (3.0, 15.0),
                assumed_from=4,
            ),
            Curve(
                "randwrite",
                (147.6, 146.5, 149.1, 150.3, 149.1, 150.4),
                RANGES,
                (1, 1024),
                counts=True,
                assumed_from=2,
            ),
        ),
    ),
    "Raptor 74 GB": (
        _disk("raptor", 74_355_769_344, 10_000, 4, 72e6, 1.2)
        | {
            "seek_write": {"curve": "sheet", "track_to_track_ms": 1.2, "average_ms": 5.9},
        },
        (
            Curve(
                "randread",
                (124.0, 124.2, 123.6, 142.2, 164.3, 181.3, 186.7),
                SEEK,
                (2.0, 9.0),
                assumed_from=2,
            ),
            Curve(
                "randwrite",
                (169.7, 171.6, 170.8, 171.5, 174.0, 176.0, 186.3),
                RANGES,
                (1, 1024),
                counts=True,
                assumed_from=2,
            ),
        ),
    ),
    "860 PRO, 3 Gb/s": (
        None,
        (
            Curve(
                "randread",
                (16225, 32279, 50764, 52408, 52418, 52410, 52392),
                READ,
                (5.0, 100.0),
                assumed_from=4,
                ceiling_iops=LINK / 4096,
            ),
            Curve(
                "randwrite",
                (22304, 44488, 50343, 50352, 50377, 50321, 50211),
                WRITE,
                (0.0, 60.0),
                assumed_from=4,
                ceiling_iops=LINK / 4096,
            ),
        ),
    ),
}


def iops(table: Any, curve: Curve, depth: int, seconds: float) -> float:
    """Return the model's 4 KiB requests per second over the whole drive."""
    load = Load(
        rw=curve.rw,
        bs_bytes=4096,
        iodepth=depth,
        runtime_s=seconds,
        ramp_time_s=seconds / 20,
        seed=1,
    )
    return run_drive(table, load)["read" if curve.rw == "randread" else "write"]["iops"]


def _set(table: Any, path: tuple[str, ...], value: float) -> None:
    for key in path[:-1]:
        table = table.setdefault(key, {})
    table[path[-1]] = value


def _fit(table: Any, curve: Curve, seconds: float) -> None:
    """Set the curve's field so that depth 1 agrees, as well as its bounds allow."""
    low, high = curve.bounds
    for _ in range(12):
        middle = (low + high) // 2 if curve.counts else (low + high) / 2
        if middle == low:
            break
        if (_at_depth_1(table, curve, middle, seconds) > curve.iops[0]) != curve.counts:
            low = middle
        else:
            high = middle
    error = {
        value: abs(_at_depth_1(table, curve, value, seconds) / curve.iops[0] - 1)
        for value in (low, high)
    }
    _set(table, curve.fitted, min(error, key=error.__getitem__))


def _at_depth_1(table: Any, curve: Curve, value: float, seconds: float) -> float:
    """Return the IOPS with this value of the curve's field."""
    _set(table, curve.fitted, value)
    return iops(table, curve, 1, seconds)


def _kind(curve: Curve, depth: int) -> Kind:
    if depth == 1 and curve.fitted:
        return "fitted"
    return "assumption" if depth >= curve.assumed_from else "predicted"


def rows(data: Path | None) -> list[Row]:
    """Return one row per drive, direction and depth."""
    found: list[Row] = []
    for name, (disk, curves) in DRIVES.items():
        table = deepcopy(disk) if disk else _pro()
        seconds = 400.0 if disk else 60.0
        for curve in curves:
            if curve.fitted:
                _fit(table, curve, seconds)
            for depth, measured in zip(DEPTHS, curve.iops, strict=False):
                null = curve.iops[0]
                if curve.ceiling_iops is not None:
                    null = min(depth * null, curve.ceiling_iops)
                words = "reads" if curve.rw == "randread" else "writes"
                found.append(
                    relative(
                        f"{name}, {words}, depth {depth}",
                        "IOPS",
                        iops(table, curve, depth, seconds),
                        measured,
                        null,
                        _kind(curve, depth),
                    )
                )
    return found


COMPARISON = Comparison(
    title="Random 4 KiB by requests in flight",
    model="hard disk and SSD",
    source=(
        "fio with O_DIRECT over the whole drive, 60 s: Samsung SpinPoint F1 1 TB (7200 rpm, AHCI), "
        "WD Raptor 74 GB (10 000 rpm), Samsung 860 PRO on a 3 Gb/s link."
    ),
    null=(
        "disks: the measured rate at depth 1 whatever the depth; SSD: depth times the measured "
        "rate at depth 1, up to 270 MB/s."
    ),
    rows=rows,
    notes=(
        "Fitted: the disks' average seek to reads at depth 1, and the ranges that their write "
        "cache holds to writes at depth 1; the SSD's latency of the controller to depth 1, for "
        "reads and for writes.",
        "Ranges of the write cache: no data sheet states them. Before 2026-11-27 writes of the "
        "disks were not fitted, and both disks had the default of 64: the F1 erred by +3 to +6 %, "
        "the Raptor by +27 to +42 %. That they decide writes at depth 1 was known with the rows.",
        "The disks' tables have typical values, not looked-up data sheets: F1 track-to-track "
        "0.8 ms, 110 MB/s on the outside, 6 heads; Raptor 72 MB/s, 4 heads. With 1.5 and 2 ms "
        "track-to-track the F1's reads at depth 32 err by -4 and -7 %.",
        "Raptor: which of two drives of that name was measured is not stated, nor the system. "
        "It is taken as the later one (WD740ADFD), whose queue holds 32 commands, without a "
        "scheduler. The earlier one (WD740GD) shows the host no queue, and its requests would "
        "be ordered by mq-deadline. For the later one speak the rows themselves: reads gain "
        "nothing beyond 32, and writes hardly anything at all, while the kernel's order would "
        "save a third of their time; so this is an assumption. As the earlier drive with mq- "
        "deadline reads err by up to 9 %, writes by +10, +24 and +33 % at depth 16, 32 and "
        "64. Average write seek 5.9 ms: sheet of the earlier one (4.5 ms for reads). Track- "
        "to-track 1.2 ms: the measured curve of the Cheetah 9LP, of as many revolutions, at "
        "one cylinder; with 0.6 ms reads at 32 err by +24 %. All were looked up when the "
        "measurements were known. With `reordering` 0.2 instead of the default of 0.3 all "
        "rows are within 10 %, with 0.4 reads err by up to +24 %: it was left as it is.",
        "That `reordering` rounds down, so that a disk with 0.3 gains nothing until five commands "
        "wait, meets the F1. If fractions of a command added up, it would err by +7 % at depth 4 "
        "and +10 % at depth 8.",
        "SSD, depth 4 and more: the bytes that a command takes on a SATA link (940 for a read, "
        "1116 for a write) were chosen with the measured 52 400 reads/s in sight, as two exchanges "
        "of primitives of 20 doublewords per frame. With exchanges of 0, 10, 20 and 30 doublewords "
        "a link of 270 MB/s carries 63 700, 58 200, 53 600 and 49 700 reads/s. The 270 MB/s of the "
        "link are taken from the 66 000 commands/s of 4 KiB that the model gave before.",
        "The rest of the 860 PRO's table is the catalog's, from its data sheet. The time of a "
        "flash read is set so that reads at depth 1 agree: 8 us, less than flash takes, since the "
        "sheet's depth 1 (11 000 reads/s) leaves 23 us to the controller. Only their sum counts "
        "here: with 0, 9 and 23 us of the controller depth 2 has 32 452, 32 460 and 32 453 "
        "reads/s. The model runs 60 s of virtual time as the measurement did; 2 s give the same "
        "within 0.02 %.",
    ),
)
