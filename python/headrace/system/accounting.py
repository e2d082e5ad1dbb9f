"""Base layer: CPU time, waits and bytes from /proc and cgroups, for probes and ledger."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import msgspec

NS_PER_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class CounterFile:
    """A file of /proc or /sys for repeated reads: opened once, read from its start each time."""

    def __init__(self, path: str | Path, size: int = 4096) -> None:
        """Raises OSError when the file cannot be opened."""
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._size = size

    def read(self) -> bytes:
        """Return the current contents. Raises OSError when the process no longer exists."""
        return os.pread(self._fd, self._size, 0)

    def read_whole(self) -> bytes:
        """Return the same of a list without a known length: the kernel returns a page at a time."""
        parts: list[bytes] = []
        length = 0
        while part := os.pread(self._fd, self._size, length):
            parts.append(part)
            length += len(part)
        return b"".join(parts)

    def close(self) -> None:
        """Safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> CounterFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def read_once(path: str, size: int = 4096) -> bytes:
    """Return the contents of a file of /proc or /sys. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, size)
    finally:
        os.close(handle)


class Times(msgspec.Struct, frozen=True):
    """Time that one or more threads ran and waited, in ns."""

    run_ns: int = 0
    wait_cpu_ns: int = 0
    """Runnable, but no CPU free (run-queue delay)."""
    wait_block_ns: int = 0
    """At clock-tick resolution; 0 unless kernel.task_delayacct was on when the thread started."""

    def __add__(self, other: Times) -> Times:
        return Times(
            self.run_ns + other.run_ns,
            self.wait_cpu_ns + other.wait_cpu_ns,
            self.wait_block_ns + other.wait_block_ns,
        )

    def __sub__(self, earlier: Times) -> Times:
        """Return the increase since `earlier`, never below zero."""
        return Times(
            max(0, self.run_ns - earlier.run_ns),
            max(0, self.wait_cpu_ns - earlier.wait_cpu_ns),
            max(0, self.wait_block_ns - earlier.wait_block_ns),
        )


def possible(counted: Times, lifetimes_ns: int) -> tuple[Times, bool]:
    """Correct implausible times of threads; return them and whether they were consistent.

    `lifetimes_ns` is the sum of the threads' lifetimes. Since Linux 6.12 a thread's block I/O wait
    can be too long, by up to the machine's uptime: a thread that blocks while it owes CPU time
    leaves the run queue later (sched_delayed), and `__block_task` then lets `delayacct_blkio_start`
    store the start time in the running thread (`current`), so that the blocked thread's wait ends
    with an older start time or none (kernel/sched/sched.h, kernel/delayacct.c). A wait longer than
    the lifetimes is meaningless and counts as 0; any other wait is limited to the time in which the
    threads neither ran nor waited for a CPU.
    """
    if counted.wait_block_ns > lifetimes_ns + NS_PER_TICK:
        return Times(counted.run_ns, counted.wait_cpu_ns, 0), False
    asleep_ns = max(0, lifetimes_ns - counted.run_ns - counted.wait_cpu_ns)
    return Times(counted.run_ns, counted.wait_cpu_ns, min(counted.wait_block_ns, asleep_ns)), True


class IoCounts(msgspec.Struct, frozen=True):
    """/proc/PID/io: a process, its finished threads, and its children that were waited for."""

    read_chars: int = 0
    """Bytes returned by read calls, from any source."""
    read_calls: int = 0
    written_chars: int = 0
    """Bytes passed to write calls, to any destination."""
    read_bytes: int = 0
    """Bytes read from block devices on its behalf, by calls or page faults."""
    write_bytes: int = 0
    """Bytes that it caused to be written to devices, possibly later."""

    def __add__(self, other: IoCounts) -> IoCounts:
        return IoCounts(
            self.read_chars + other.read_chars,
            self.read_calls + other.read_calls,
            self.written_chars + other.written_chars,
            self.read_bytes + other.read_bytes,
            self.write_bytes + other.write_bytes,
        )

    def __sub__(self, earlier: IoCounts) -> IoCounts:
        """Return the increase since `earlier`, never below zero."""
        return IoCounts(
            max(0, self.read_chars - earlier.read_chars),
            max(0, self.read_calls - earlier.read_calls),
            max(0, self.written_chars - earlier.written_chars),
            max(0, self.read_bytes - earlier.read_bytes),
            max(0, self.write_bytes - earlier.write_bytes),
        )

    def at_least(self, other: IoCounts) -> IoCounts:
        """Return the larger of each value: a counter does not go back."""
        return IoCounts(
            max(self.read_chars, other.read_chars),
            max(self.read_calls, other.read_calls),
            max(self.written_chars, other.written_chars),
            max(self.read_bytes, other.read_bytes),
            max(self.write_bytes, other.write_bytes),
        )


NOTHING_MOVED = IoCounts()


@dataclass(frozen=True)
class UseSoFar:
    """CPU time and bytes of a process while it runs, with its children that were waited for."""

    cpu_s: float = 0.0
    read_bytes: int = 0
    """Returned by read calls or, if more (mapped files), read from devices."""
    written_bytes: int = 0
    """Passed to write calls or, if more, written to devices."""

    def __add__(self, other: UseSoFar) -> UseSoFar:
        return UseSoFar(
            self.cpu_s + other.cpu_s,
            self.read_bytes + other.read_bytes,
            self.written_bytes + other.written_bytes,
        )

    def at_least(self, other: UseSoFar) -> UseSoFar:
        """Return the larger of each value: a counter does not go back."""
        return UseSoFar(
            max(self.cpu_s, other.cpu_s),
            max(self.read_bytes, other.read_bytes),
            max(self.written_bytes, other.written_bytes),
        )


def process_use(pid: int) -> UseSoFar | None:
    """Return what a process has used; None when it no longer exists or is not readable.

    Two small files of /proc (proc(5)): about 20 us.
    """
    try:
        with CounterFile(f"/proc/{pid}/stat") as file:
            times = file.read().rpartition(b")")[2].split()
        with CounterFile(f"/proc/{pid}/io") as file:
            counts = [int(line.rpartition(b" ")[2]) for line in file.read().splitlines()]
        # The name in brackets is field 2: utime, stime, cutime, cstime are fields 14 to 17.
        ticks = sum(map(int, times[11:15]))
        # rchar, wchar, syscr, syscw, read_bytes, write_bytes, cancelled_write_bytes
        return UseSoFar(
            ticks * NS_PER_TICK / 1e9, max(counts[0], counts[4]), max(counts[1], counts[5])
        )
    except (OSError, ValueError, IndexError):
        return None


def thread_times(pid: int) -> dict[int, Times]:
    """Return each living thread's times; empty when the process no longer exists.

    `schedstat` holds the time on a CPU and on a run queue in ns, field 42 of `stat` the block I/O
    delay in clock ticks (proc(5)).
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
        # The name in brackets is field 2, so field 42 is the 40th after it.
        found[int(thread)] = Times(int(run), int(wait), int(fields[39]) * NS_PER_TICK)
    return found


def own_run_delay_ns() -> int:
    """Return how long the calling thread could run and had no CPU; 0 if that is not known."""
    try:
        with CounterFile("/proc/thread-self/schedstat") as file:
            return int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def thread_count(pid: int) -> int:
    """Return the number of living threads of a process; 0 when it no longer exists."""
    try:
        return len(os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208
    except OSError:
        return 0


def io_counts(pid: int) -> IoCounts:
    """Return the bytes a process moved; zeros when it no longer exists or is not readable."""
    try:
        words = read_once(f"/proc/{pid}/io").split()
    except OSError:
        return NOTHING_MOVED
    # rchar, wchar, syscr, syscw, read_bytes, write_bytes: each a name and its value
    return IoCounts(*(int(words[at]) for at in (1, 5, 3, 9, 11)))


def descendants(pid: int) -> list[int]:
    """Return the living descendants of a process, nearest generation first."""
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
    """Return the peak resident memory of a process since its start or the last reset.

    0 when it no longer exists.
    """
    with contextlib.suppress(OSError):
        # Bytes: the kernel cuts a program's name after 15 of them, also within a letter.
        for line in Path(f"/proc/{pid}/status").read_bytes().splitlines():
            if line.startswith(b"VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def reset_peak_rss(pid: int | None = None) -> None:
    """Reset the peak of this or another process to its current memory, if permitted.

    proc(5), clear_refs 5.
    """
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid or 'self'}/clear_refs").write_text("5")


def delay_accounting() -> bool:
    """Return True when the kernel counts block I/O delays of newly started processes."""
    try:
        return read_once("/proc/sys/kernel/task_delayacct").strip() == b"1"
    except OSError:
        return False


def delays_misplaced(release: str | None = None, features: str | None = None) -> bool:
    """Return True when the kernel may start a thread's block I/O wait in another thread.

    Since Linux 6.12 threads that block can leave the run queue later (DELAY_DEQUEUE). The start of
    their wait is then stored in whichever thread runs at that time, and their wait counts from the
    start of an older one (see `possible`). Such counts look plausible and are up to several points
    of the wall time too large, so no test of the counts finds them.

    `release`: of uname, `features`: of the scheduler in debugfs; by default those of this machine.
    Features tell for kernels with this change backported; only root may read them.
    """
    if features is None:
        with contextlib.suppress(OSError):
            features = Path("/sys/kernel/debug/sched/features").read_text()
    if features:
        return "DELAY_DEQUEUE" in features.split()
    found = re.match(r"(\d+)\.(\d+)", release or os.uname().release)
    return found is None or (int(found[1]), int(found[2])) >= (6, 12)


class OwnPressure:
    """PSI of the cgroup (version 2) that contains only this process and its descendants."""

    def __init__(self, directory: Path) -> None:
        """Raises OSError when the kernel has no PSI."""
        self._cpu = CounterFile(directory / "cpu.pressure")
        try:
            self._io = CounterFile(directory / "io.pressure")
        except OSError:
            self._cpu.close()
            raise

    def read_ns(self) -> tuple[int, int]:
        """Return (cpu, io): total time in which at least one thread waited for it."""
        return pressure_totals_us(self._cpu.read())[0] * 1000, pressure_totals_us(self._io.read())[
            0
        ] * 1000

    def close(self) -> None:
        """Safe to call twice."""
        self._cpu.close()
        self._io.close()


def own_pressure() -> OwnPressure | None:
    """Return the PSI of this process's cgroup.

    None when the cgroup has other processes or the kernel has no PSI.
    """
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        group = next(line[3:] for line in lines if line.startswith("0::"))
        if group == "/":
            return None
        mount = next(
            fields[4]
            for fields in (
                line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()
            )
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
    """Return (some, full) totals of a PSI file in microseconds; full is 0 when missing."""
    totals = {
        line.split(maxsplit=1)[0]: int(line.rpartition(b"total=")[2]) for line in text.splitlines()
    }
    return totals.get(b"some", 0), totals.get(b"full", 0)
