"""The figures of an outline with their bounds; pure.

Counters of the kernel are exact, but they count reads of everything together: data files, pipes,
sockets, settings, /proc. The bounds say what this means for the reads of data files.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from headrace.outline.block_order import LARGEST_READ_BYTES, BlockReads
from headrace.watching.process import Moved

SMALL_SHARE = 0.1
"""Assumption: at most so much of the bytes is of files that were open only between two looks, such
as settings and /proc."""
_LEDGER_POINTS = 0.02
"""Tests of the ledger find each share within these points of the truth."""
_TICK_S = 0.01
"""The kernel counts a thread's CPU time when it leaves the CPU, and once in a tick."""
_OVER_READ = 1.2
"""Storage read so much more than was requested: read-ahead fills the gaps between reads."""


@dataclass(frozen=True)
class BoundedFigure:
    """A number and what it can be."""

    value: float
    low: float
    high: float
    source: str

    @classmethod
    def around(cls, value: float, by: float, source: str) -> BoundedFigure:
        """Return a figure that may be off by so much."""
        return cls(value, max(0.0, value - by), value + by, source)


@dataclass(frozen=True)
class Seen:
    """What a watch saw of a job."""

    wall_s: float
    cpu_s: float
    wait_cpu_s: float
    wait_storage_s: float
    sleep_s: float
    uncertainty_s: float
    """Standard uncertainty of `wait_storage_s` from sampling."""
    moved: Moved
    io_readable: bool
    looks: int
    threads: int
    """The most at one look."""
    several: bool
    """Whether it had several threads or processes, of which some may have ended unseen."""
    memory_bytes: int
    others: frozenset[str] = frozenset()
    """Kinds of other descriptors that can be read, as in `OpenFiles`."""
    mapped: bool = False
    """Whether data files were mapped into memory, so that reads of them are no calls."""
    block: BlockReads | None = None


def figures_of(seen: Seen) -> dict[str, BoundedFigure]:
    """Return the figures by name, units last; those of bytes only where they could be read."""
    slack_s = 2 * _TICK_S * (seen.threads + (seen.looks if seen.several else 0))
    parts_s = _LEDGER_POINTS * seen.wall_s + 2 * seen.uncertainty_s
    found = {
        "cpu_s": BoundedFigure.around(seen.cpu_s, slack_s, "scheduler of the kernel, all threads"),
        "wait_cpu_s": BoundedFigure.around(
            seen.wait_cpu_s, parts_s, "run-queue delay of the kernel"
        ),
        "wait_storage_s": BoundedFigure.around(
            seen.wait_storage_s, parts_s, "ledger of the watch, from thread states"
        ),
        "sleep_s": BoundedFigure.around(seen.sleep_s, parts_s, "rest of the time watched"),
        "memory_bytes": BoundedFigure.around(
            seen.memory_bytes, 256 * 1024 * seen.threads, "largest resident set of a process"
        ),
    }
    return found | (_io_figures(seen) if seen.io_readable else {})


def _io_figures(seen: Seen) -> dict[str, BoundedFigure]:
    moved, block = seen.moved, seen.block
    among = f"; {_listed(seen.others)} were open, too" if seen.others else ""
    # Mapped files are read without calls; else what storage read besides was read-ahead.
    read = max(moved.read, moved.storage_read) if seen.mapped else moved.read
    least = 0.0 if seen.others else (1 - SMALL_SHARE) * moved.read
    runs = block.runs if block is not None and not block.lost else 0
    calls_low = min(moved.read_calls, max(runs, math.ceil(least / LARGEST_READ_BYTES)))
    mean = moved.read / moved.read_calls if moved.read_calls else 0.0
    mean_low = least / moved.read_calls if moved.read_calls else 0.0
    mean_high = max(mean, moved.read / calls_low) if calls_low else max(mean, moved.read)
    found = {
        "read_bytes": BoundedFigure(
            read, least, read, f"/proc/PID/io: all reads, not only of data files{among}"
        ),
        "read_calls": BoundedFigure(
            moved.read_calls, calls_low, moved.read_calls, f"/proc/PID/io{among}"
        ),
        "read_mean_bytes": BoundedFigure(mean, mean_low, mean_high, "bytes over calls"),
        "written_bytes": BoundedFigure(
            moved.written, 0.0, moved.written, "/proc/PID/io: all writes, pipes and logs included"
        ),
        "write_calls": BoundedFigure(moved.write_calls, 0.0, moved.write_calls, "/proc/PID/io"),
        "storage_read_bytes": BoundedFigure.around(
            moved.storage_read, 0.0, "/proc/PID/io: what storage read for the job"
        ),
        "storage_written_bytes": BoundedFigure.around(
            moved.storage_written,
            0.0,
            "/proc/PID/io: what the job made storage write, then or later",
        ),
    }
    order = sequential_share(moved, block)
    return found if order is None else {**found, "sequential_share": order}


def sequential_share(moved: Moved, block: BlockReads | None) -> BoundedFigure | None:
    """Return the share of the requested bytes that lie behind those of the read before.

    A run of neighbouring blocks begins with a read elsewhere. How large that read was is known as
    the mean of all reads, and as the first request of the run: each can only be too small. Reads of
    a small file at random neighbour a recent one by chance: the value and the low bound are what is
    left without these. None without block reads: then the order is unknown.
    """
    if block is None or not block.requests or block.lost:
        return None
    mean = moved.read / moved.read_calls if moved.read_calls else 0.0
    elsewhere = max(block.first_bytes, block.runs * min(mean, LARGEST_READ_BYTES))
    share = max(0.0, 1 - elsewhere / block.bytes)
    noise = 4 * math.sqrt(share * (1 - share) / block.requests)
    meant = max(0.0, (share - block.by_chance) / (1 - block.by_chance))
    largest = min(moved.read / block.runs, LARGEST_READ_BYTES)
    low = max(0.0, min(meant, 1 - block.runs * largest / block.bytes))
    covered = min(1.0, block.bytes / moved.read) if moved.read else 1.0
    if block.bytes > _OVER_READ * moved.read:
        low = 0.0
    return BoundedFigure(
        meant,
        max(0.0, covered * (low - noise)),
        min(1.0, covered * (share + noise) + 1 - covered),
        f"{block.requests} block reads of {100 * covered:.0f} % of the bytes",
    )


def _listed(kinds: Iterable[str]) -> str:
    return " and ".join(sorted(kinds))
