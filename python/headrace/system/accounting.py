"""Ground: what /proc and cgroups say of CPU time, waits and bytes. Reads only; the probes and the job ledger use it."""

from __future__ import annotations

import contextlib
import os
from dataclasses import astuple, dataclass
from pathlib import Path
from types import TracebackType

NS_PER_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class CounterFile:
    """A file of /proc or /sys that is read again and again: opened once, read from its start each time."""

    def __init__(self, path: str | Path, size: int = 4096) -> None:
        """Raises OSError when it cannot be opened."""
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._size = size

    def read(self) -> bytes:
        """What stands in it now. Raises OSError when what it tells of has gone."""
        return os.pread(self._fd, self._size, 0)

    def close(self) -> None:
        """Safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> CounterFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True)
class Times:
    """Time that a thread, or several together, ran and waited, in ns."""

    run_ns: int = 0
    wait_cpu_ns: int = 0
    """Runnable, and no CPU free (run-queue delay)."""
    wait_block_ns: int = 0
    """In clock ticks' precision; 0 unless kernel.task_delayacct was on when the thread started."""

    def __add__(self, other: Times) -> Times:
        return Times(
            self.run_ns + other.run_ns,
            self.wait_cpu_ns + other.wait_cpu_ns,
            self.wait_block_ns + other.wait_block_ns,
        )

    def __sub__(self, earlier: Times) -> Times:
        """What came to pass since `earlier`, never below zero."""
        return Times(
            max(0, self.run_ns - earlier.run_ns),
            max(0, self.wait_cpu_ns - earlier.wait_cpu_ns),
            max(0, self.wait_block_ns - earlier.wait_block_ns),
        )


def possible(counted: Times, lifetimes_ns: int) -> tuple[Times, bool]:
    """What can be true of times counted for threads that lived so long together, and whether all of it can.

    Since Linux 6.12 a thread's block I/O wait can come out too long, by up to the time since the machine started: a thread
    that blocks while it owes CPU time leaves the run queue later (sched_delayed), and `__block_task` then has
    `delayacct_blkio_start` note the start with whoever runs (`current`), so that the thread's wait ends with an older
    start or none (kernel/sched/sched.h, kernel/delayacct.c). A wait beyond the threads' lives says nothing, and counts 0;
    any other is cut to the time in which they neither ran nor waited for a CPU.
    """
    if counted.wait_block_ns > lifetimes_ns + NS_PER_TICK:
        return Times(counted.run_ns, counted.wait_cpu_ns, 0), False
    asleep_ns = max(0, lifetimes_ns - counted.run_ns - counted.wait_cpu_ns)
    return Times(counted.run_ns, counted.wait_cpu_ns, min(counted.wait_block_ns, asleep_ns)), True


@dataclass(frozen=True)
class IoCounts:
    """/proc/PID/io: a process, its finished threads, and its children that were waited for."""

    read_chars: int = 0
    """Bytes returned by read calls, from wherever they came."""
    read_calls: int = 0
    read_bytes: int = 0
    """Bytes that it made block devices read, by calls or page faults."""
    write_bytes: int = 0
    """Bytes that it made devices write, sooner or later."""

    def __add__(self, other: IoCounts) -> IoCounts:
        return IoCounts(*(mine + its for mine, its in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, earlier: IoCounts) -> IoCounts:
        """What came to pass since `earlier`, never below zero."""
        return IoCounts(
            *(max(0, now - its) for now, its in zip(astuple(self), astuple(earlier), strict=True))
        )


def thread_times(pid: int) -> dict[int, Times]:
    """Each living thread's times; empty when the process is gone.

    `schedstat` gives time on a CPU and on a run queue in ns, field 42 of `stat` block I/O delay in clock ticks (proc(5)).
    """
    found: dict[int, Times] = {}
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    except OSError:
        return found
    for thread in threads:
        try:
            with CounterFile(f"/proc/{pid}/task/{thread}/schedstat") as file:
                run, wait = file.read().split()[:2]
            with CounterFile(f"/proc/{pid}/task/{thread}/stat") as file:
                fields = file.read().rpartition(b")")[2].split()
        except (OSError, ValueError):
            continue
        # The name in brackets is field 2, so that field 42 is the 40th after it.
        found[int(thread)] = Times(int(run), int(wait), int(fields[39]) * NS_PER_TICK)
    return found


def thread_count(pid: int) -> int:
    """Living threads of a process; 0 when it is gone."""
    try:
        return len(os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208
    except OSError:
        return 0


def io_counts(pid: int) -> IoCounts:
    """Bytes moved by a process; zeros when it is gone or may not be looked at."""
    try:
        with CounterFile(f"/proc/{pid}/io") as file:
            fields = dict(line.split(b": ") for line in file.read().splitlines())
    except OSError:
        return IoCounts()
    return IoCounts(*(int(fields[name]) for name in (b"rchar", b"syscr", b"read_bytes", b"write_bytes")))


def descendants(pid: int) -> list[int]:
    """Living processes below this one, the nearest first."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        parent = waiting.pop(0)
        children: list[int] = []
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{parent}/task"):  # noqa: PTH208
                with (
                    contextlib.suppress(OSError),
                    CounterFile(f"/proc/{parent}/task/{thread}/children") as file,
                ):
                    children.extend(int(child) for child in file.read().split())
        found.extend(children)
        waiting.extend(children)
    return found


def peak_rss_bytes(pid: int) -> int:
    """Largest resident memory of a process since it started or its peak was reset; 0 when it is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def reset_peak_rss() -> None:
    """Lets this process's own peak start from what it holds now (proc(5), clear_refs 5), where the kernel allows it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def delay_accounting() -> bool:
    """True when processes started now have their block I/O delays counted."""
    try:
        return Path("/proc/sys/kernel/task_delayacct").read_text().strip() == "1"
    except OSError:
        return False


class OwnPressure:
    """PSI of the cgroup (version 2) that holds this process and what it started, and nothing else."""

    def __init__(self, directory: Path) -> None:
        """Raises OSError where the kernel has no PSI."""
        self._cpu = CounterFile(directory / "cpu.pressure")
        try:
            self._io = CounterFile(directory / "io.pressure")
        except OSError:
            self._cpu.close()
            raise

    def read_ns(self) -> tuple[int, int]:
        """(cpu, io): time so far in which one thread or more waited for it."""
        return pressure_totals_us(self._cpu.read())[0] * 1000, pressure_totals_us(self._io.read())[0] * 1000

    def close(self) -> None:
        """Safe to call twice."""
        self._cpu.close()
        self._io.close()


def own_pressure() -> OwnPressure | None:
    """PSI for this process alone, or None when it shares its cgroup with others or the kernel has none."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        group = next(line[3:] for line in lines if line.startswith("0::"))
        if group == "/":
            return None
        mount = next(
            fields[4]
            for fields in (line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines())
            if fields[fields.index("-") + 1] == "cgroup2"
        )
        directory = Path(mount) / group.lstrip("/")
        own = {os.getpid(), *descendants(os.getpid())}
        if not {int(pid) for pid in (directory / "cgroup.procs").read_text().split()} <= own:
            return None
        return OwnPressure(directory)
    except (OSError, StopIteration):
        return None


def pressure_totals_us(text: bytes) -> tuple[int, int]:
    """(some, full) totals in microseconds of a PSI file; full is 0 where the kernel gives none."""
    totals = {line.split(maxsplit=1)[0]: int(line.rpartition(b"total=")[2]) for line in text.splitlines()}
    return totals.get(b"some", 0), totals.get(b"full", 0)
