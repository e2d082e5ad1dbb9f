"""Processes: their counters, all of which one call reads (crates/threadstates), start and name."""

from __future__ import annotations

from headrace._core import Moved, ProcessReader, ProcessReading, read_processes
from headrace.system.accounting import CounterFile
from headrace.system.taskstats import TaskstatsSocket

__all__ = [
    "NOTHING",
    "Moved",
    "ProcessReader",
    "ProcessReading",
    "name_of",
    "read_processes",
    "start_ticks",
    "timed",
]

_STAT_BYTES = 1024
NOTHING = Moved()


def timed(
    reading: ProcessReading | None, pid: int, taskstats: TaskstatsSocket | None
) -> ProcessReading | None:
    """Return a reading with the times that taskstats has; None when the process has ended."""
    if reading is None or reading.timed or taskstats is None:
        return reading
    try:
        waited = taskstats.of_process(pid)
    except OSError:
        return None
    return reading.with_times(
        waited.run_ns, waited.wait_cpu_ns, waited.wait_block_ns, waited.wait_memory_ns
    )


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None when it does not run."""
    try:
        with CounterFile(f"/proc/{pid}/stat", _STAT_BYTES) as file:
            fields = file.read().rpartition(b")")[2].split()
        # Its first thread may have ended before the others: num_threads is field 20 of proc(5).
        ended = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1
        return None if ended else int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


def name_of(pid: int) -> str:
    """Return the kernel's name of a process, `?` when it has ended."""
    try:
        with CounterFile(f"/proc/{pid}/comm", 64) as file:
            return file.read().decode(errors="replace").strip()
    except OSError:
        return "?"
