"""Counters of one process from /proc (proc(5)), in files that stay open: a read takes 1 to 5 us.

Those of all processes are read by crates/threadstates (`counters.rs`), those of single threads
here.
"""

from __future__ import annotations

import contextlib
import os
import resource

import msgspec

from headrace._core import ProcessReader
from headrace.system.accounting import NS_PER_TICK, CounterFile
from headrace.system.taskstats import TaskDelays, TaskstatsSocket

_STAT_BYTES = 1024


class Moved(msgspec.Struct, frozen=True):
    """Bytes of a process or job."""

    read: int = 0
    """Returned by read calls."""
    written: int = 0
    """Passed to write calls."""
    storage_read: int = 0
    """Read from storage on its behalf, by calls, page faults and read-ahead."""
    storage_written: int = 0
    """That it made storage write, possibly later."""
    read_calls: int = 0
    write_calls: int = 0

    @property
    def served(self) -> int:
        """Given to the job: by read calls or, if more (mapped files), from storage."""
        return max(self.read, self.storage_read)

    def __add__(self, other: Moved) -> Moved:
        """Return the sum."""
        return Moved(
            self.read + other.read,
            self.written + other.written,
            self.storage_read + other.storage_read,
            self.storage_written + other.storage_written,
            self.read_calls + other.read_calls,
            self.write_calls + other.write_calls,
        )

    def __sub__(self, other: Moved) -> Moved:
        """Return the increase since `other`, never below zero."""
        return Moved(
            max(0, self.read - other.read),
            max(0, self.written - other.written),
            max(0, self.storage_read - other.storage_read),
            max(0, self.storage_written - other.storage_written),
            max(0, self.read_calls - other.read_calls),
            max(0, self.write_calls - other.write_calls),
        )

    def __ge__(self, other: Moved) -> bool:
        """Return whether each number is at least that of `other`."""
        return (
            self.read >= other.read
            and self.written >= other.written
            and self.storage_read >= other.storage_read
            and self.storage_written >= other.storage_written
        )


NOTHING = Moved()


class ProcessReading(msgspec.Struct, frozen=True):
    """What a process has used and waited since its start, all its threads together."""

    parent: int
    threads: int
    run_ns: int
    """On a CPU: of its living threads, or if `ended_counted` of all."""
    wait_cpu_ns: int
    """On a run queue, likewise."""
    wait_block_ns: int
    """For block I/O, as far as the kernel counts it."""
    wait_memory_ns: int
    """Part of `wait_block_ns`: for pages that were in memory before and had to be dropped."""
    user_ticks: int
    system_ticks: int
    """CPU time of all its threads, those that ended too, in clock ticks."""
    ended_ticks: int
    """CPU time of its children that it waited for."""
    moved: Moved
    io_readable: bool
    ended_counted: bool
    """Whether the times include threads that ended."""


class ProcessCounters:
    """The counters of one process. Raises OSError when it does not exist."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._files = ProcessReader(pid)
        self.threads = Threads(pid)
        self._last: ProcessReading | None = None

    def read(self, taskstats: TaskstatsSocket | None, delays: bool) -> ProcessReading:
        """Return the counters of now. Raises OSError when the process has ended.

        `taskstats`: used where it tells more than /proc. `delays`: the kernel counts block I/O
        waits of new processes, and they can be believed.
        """
        alone = not delays and self._last is not None and self._last.threads == 1
        found = self._files.read(alone)
        if found is None:  # asleep then, and not on a CPU since
            assert self._last is not None
            return self._last
        state, parent, count, ticks, sched, moved = found
        if state in ("Z", "X"):
            raise ProcessLookupError(self.pid)
        self.threads.refresh(count)
        waited: TaskDelays | None = None
        block_ns = memory_ns = 0
        if sched is not None and count == 1:
            run_ns, wait_ns = sched
        elif taskstats is not None and (delays or count > 1):
            waited = taskstats.of_process(self.pid)
            run_ns, wait_ns = waited.run_ns, waited.wait_cpu_ns
            block_ns, memory_ns = waited.wait_block_ns, waited.wait_memory_ns
        else:
            run_ns, wait_ns, block_ns = self.threads.times(delays)
        self._last = ProcessReading(
            parent=parent,
            threads=count,
            run_ns=run_ns,
            wait_cpu_ns=wait_ns,
            wait_block_ns=block_ns,
            wait_memory_ns=memory_ns,
            user_ticks=ticks[0],
            system_ticks=ticks[1],
            ended_ticks=ticks[2],
            moved=NOTHING
            if moved is None
            else Moved(moved[0], moved[1], moved[4], moved[5], moved[2], moved[3]),
            io_readable=moved is not None,
            ended_counted=waited is not None,
        )
        return self._last

    def children(self) -> list[int]:
        """Return the living children of all threads."""
        return self.threads.children()

    def close(self) -> None:
        """Safe to call twice."""
        self._files.close()
        self.threads.close()


class Threads:
    """The threads of a process: their times and children, in files that stay open."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._files: dict[int, _ThreadFiles] = {}

    @property
    def ids(self) -> list[int]:
        """The threads, as known since the last `refresh`."""
        return [*self._files]

    def refresh(self, count: int) -> None:
        """Look which threads there are, unless there is only the one known."""
        if count == 1 and len(self._files) == 1 and self._pid in self._files:
            return
        now = {int(name) for name in os.listdir(f"/proc/{self._pid}/task")}  # noqa: PTH208
        for gone in self._files.keys() - now:
            self._files.pop(gone).close()
        for thread in now - self._files.keys():
            self._files[thread] = _ThreadFiles(self._pid, thread)

    def times(self, delays: bool) -> tuple[int, int, int]:
        """Return run time, run-queue delay and block I/O delay of the living threads, in ns."""
        run = wait = block = 0
        for files in self._files.values():
            with contextlib.suppress(OSError, ValueError, IndexError):
                mine = files.read("schedstat", 128).split()
                run += int(mine[0])
                wait += int(mine[1])
                if delays:
                    # The name in brackets is field 2, so field 42 is the 40th after it.
                    fields = files.read("stat", _STAT_BYTES).rpartition(b")")[2].split()
                    block += int(fields[39]) * NS_PER_TICK
        return run, wait, block

    def children(self) -> list[int]:
        """Return the living children of all threads."""
        found: list[int] = []
        for files in self._files.values():
            with contextlib.suppress(OSError):
                found.extend(map(int, files.read("children", 65536).split()))
        return found

    def read(self, thread: int, name: str) -> bytes:
        """Return a file of a thread. Raises OSError when it has ended or may not be read."""
        files = self._files.get(thread)
        if files is None:
            raise ProcessLookupError(thread)
        return files.read(name, _STAT_BYTES)

    def close(self) -> None:
        """Safe to call twice."""
        for files in self._files.values():
            files.close()
        self._files.clear()


class _ThreadFiles:
    """Files of /proc/PID/task/THREAD, kept open while there are descriptors to spare."""

    _open = 0
    """Kept files of all threads."""

    def __init__(self, pid: int, thread: int) -> None:
        self._place = f"/proc/{pid}/task/{thread}"
        self._kept: dict[str, CounterFile] = {}

    def read(self, name: str, size: int) -> bytes:
        """Return the contents of now. Raises OSError."""
        kept = self._kept.get(name)
        if kept is not None:
            return kept.read()
        file = CounterFile(f"{self._place}/{name}", size)
        if _ThreadFiles._open < _most_files():
            self._kept[name] = file
            _ThreadFiles._open += 1
            return file.read()
        with file:
            return file.read()

    def close(self) -> None:
        """Close what is open."""
        _ThreadFiles._open -= len(self._kept)
        for file in self._kept.values():
            file.close()
        self._kept.clear()


_most = 0


def _most_files() -> int:
    """Return how many files of threads may stay open: half of the limit, which is raised first."""
    global _most
    if not _most:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = min(hard if hard != resource.RLIM_INFINITY else 1 << 16, 1 << 16)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                soft = wanted
        _most = (soft if soft != resource.RLIM_INFINITY else 1 << 16) // 2
    return _most


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None when it does not run."""
    try:
        with CounterFile(f"/proc/{pid}/stat", _STAT_BYTES) as file:
            fields = file.read().rpartition(b")")[2].split()
        return None if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


def name_of(pid: int) -> str:
    """Return the kernel's name of a process, `?` when it has ended."""
    try:
        with CounterFile(f"/proc/{pid}/comm", 64) as file:
            return file.read().decode(errors="replace").strip()
    except OSError:
        return "?"
