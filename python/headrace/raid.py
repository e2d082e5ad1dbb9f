"""Base layer: RAID levels, how many drives each of them takes, and how much data they hold."""

from __future__ import annotations

from typing import Literal

RaidLevel = Literal[0, 1, 5, 6, 10]
LEAST_DRIVES: dict[int, int] = {0: 2, 1: 2, 5: 3, 6: 4, 10: 4}
"""btrfs accepts a raid10 of two drives, which is no RAID 10."""
SMALLEST_CHUNK_BYTES = 512
"""One sector: the smallest chunk that a model takes."""
MOST_CHUNK_BYTES = 1 << 30
"""Largest chunk that a model takes."""


def check_drives(level: RaidLevel, drives: int) -> None:
    """Raise ValueError when a RAID of this level cannot have that many drives."""
    least = LEAST_DRIVES[level]
    if drives < least:
        raise ValueError(f"RAID {level} takes {least} drives at least (given {drives})")
    if level == 10 and drives % 2:
        raise ValueError(f"RAID 10 takes an even number of drives (given {drives})")


def drives_of_data(level: int | None, drives: int) -> float:
    """Return how many of the drives' capacities a RAID offers for data; all without a RAID.

    RAID 1 keeps one copy on every drive, RAID 10 two copies.
    """
    match level:
        case 1:
            return 1.0
        case 5 | 6:
            return drives - (level - 4)
        case 10:
            return drives / 2
        case _:
            return float(drives)


def read_ahead_of_md(level: int, drives: int, chunk_bytes: int) -> int:
    """Return the read-ahead that Linux md sets at least for a striped RAID, in bytes: the data of
    two stripes (drivers/md/raid0.c, raid5.c, raid10.c). 0 for RAID 1, which has no stripes."""
    return 0 if level == 1 else 2 * chunk_bytes * int(drives_of_data(level, drives))
