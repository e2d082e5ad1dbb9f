from collections.abc import Callable, Sequence
from pathlib import Path

__version__: str
SECTOR_BYTES: int

class ModelError(Exception):
    """A description that cannot be true: args are (field, given, allowed)."""

    args: tuple[str, str, str]

def drive_check(spec_json: str) -> None:
    """Raises ModelError when a drive's table cannot be true."""

def drive_run_json(spec_json: str, run_json: str) -> str:
    """Runs a fresh model of a drive under a load in fio's words. Raises ModelError."""

def drive_series_json(spec_json: str, run_json: str, iodepths: Sequence[int]) -> str:
    """Runs the load once a depth, one run after the other on the same drive. Raises ModelError."""

def drive_replay(
    spec_json: str,
    time_ns: Sequence[int],
    op: Sequence[int],
    sector: Sequence[int],
    sectors: Sequence[int],
    iodepth: int,
    seed: int,
    raid_json: str | None = None,
) -> list[int]:
    """Return the response time (ns) of every request of a trace. Raises ModelError.

    `iodepth` 0: requests start at the recorded times (open); otherwise that many are in flight
    (closed). `raid_json`: a RAID of such drives serves the trace.
    """

class _Timed:
    def capacity_bytes(self) -> int: ...
    def run(
        self,
        op: int | Sequence[int],
        sector: Sequence[int],
        sectors: int | Sequence[int],
        wait_ns: int | Sequence[int],
        depth: int,
        limit_ns: int,
    ) -> bytes:
        """Run requests in order with `depth` in flight, each `wait_ns` after it could have
        started, none after `limit_ns`. Return start and end of each (ns, uint64, one after the
        other). `op`: 0 read, 1 write, 2 write that is done when it is on the medium. One value
        instead of a sequence is that of every request.
        """

class TimedBlockDevice(_Timed):
    """A block device, accessed past the page cache. Raises OSError."""

    def __init__(self, path: Path, writable: bool) -> None: ...

class TimedModel(_Timed):
    """A drive's model, in virtual time, that keeps its state between scripts. Raises ModelError."""

    def __init__(self, spec_json: str, seed: int, holds_data: bool) -> None: ...

class Moved:
    """Bytes of a process or job."""

    def __init__(
        self,
        read: int = 0,
        written: int = 0,
        storage_read: int = 0,
        storage_written: int = 0,
        read_calls: int = 0,
        write_calls: int = 0,
    ) -> None: ...
    @property
    def read(self) -> int:
        """Returned by read calls."""

    @property
    def written(self) -> int:
        """Passed to write calls."""

    @property
    def storage_read(self) -> int:
        """Read from storage on its behalf, by calls, page faults and read-ahead."""

    @property
    def storage_written(self) -> int:
        """That it made storage write, possibly later."""

    @property
    def read_calls(self) -> int: ...
    @property
    def write_calls(self) -> int: ...
    @property
    def served(self) -> int:
        """Given to the job: by read calls or, if more (mapped files), from storage."""

    def covers(self, other: Moved) -> bool:
        """Return whether each number of bytes is at least that of `other`."""

    def __add__(self, other: Moved) -> Moved: ...
    def __sub__(self, other: Moved) -> Moved:
        """Return the increase since `other`, never below zero."""

class ProcessReading:
    """What a process has used and waited since its start, all its threads together."""

    @property
    def parent(self) -> int: ...
    @property
    def threads(self) -> int: ...
    @property
    def run_ns(self) -> int:
        """On a CPU: of its living threads, or if `ended_counted` of all."""

    @property
    def wait_cpu_ns(self) -> int:
        """On a run queue, likewise."""

    @property
    def wait_block_ns(self) -> int:
        """For block I/O, as far as the kernel counts it."""

    @property
    def wait_memory_ns(self) -> int:
        """Part of `wait_block_ns`: for pages that were in memory before and had to be dropped."""

    @property
    def user_ticks(self) -> int:
        """CPU time of all its threads, those that ended too, in clock ticks."""

    @property
    def system_ticks(self) -> int: ...
    @property
    def ended_ticks(self) -> int:
        """CPU time of its children that it waited for."""

    @property
    def moved(self) -> Moved: ...
    @property
    def io_readable(self) -> bool: ...
    @property
    def timed(self) -> bool:
        """Whether the times in ns are known; else another source has them (`with_times`)."""

    @property
    def ended_counted(self) -> bool:
        """Whether the times include threads that ended."""

    def with_times(
        self, run_ns: int, wait_cpu_ns: int, wait_block_ns: int, wait_memory_ns: int
    ) -> ProcessReading:
        """Return the same with times of all threads, those that ended too."""

class ProcessReader:
    """Files of /proc of one process, which stay open while there are descriptors to spare. Raises
    OSError when it does not exist.
    """

    def __init__(self, process: int) -> None: ...
    @property
    def threads(self) -> tuple[int, ...]:
        """Its threads, as of the last reading: the same tuple while they are the same."""

    def children(self) -> list[int]:
        """Return the living children of all threads."""

    def read_thread(self, thread: int, name: str) -> bytes:
        """Return `stat`, `syscall` or `wchan` of a thread. Raises OSError when it has ended or may
        not be read.
        """

    def close(self) -> None:
        """Safe to call twice."""

def read_processes(
    readers: Sequence[ProcessReader], delays: bool, elsewhere: bool
) -> tuple[list[ProcessReading | None], list[int]]:
    """Return the counters of processes, and when each was read, in ns of the monotonic clock.

    None for one that has ended; the same object as at the last call for one that has not run since.
    `delays`: the kernel counts waits for block I/O of new processes, and they can be believed.
    `elsewhere`: where taskstats tells more than /proc, the times of a process are not read.
    """

class ThreadSampler:
    """Samples what the threads of a process and of its descendants do, at random moments, from its
    creation on, with 0.7 % of a CPU. Raises OSError when no thread can be started.
    """

    def __init__(self, process: int) -> None: ...
    def stop(self) -> tuple[list[tuple[str, bytes, float]], int, float, int, int]:
        """End it. Return the time (ns, summed over threads) by letter of the state and kernel
        function (`wchan`), the number of samples, the time that they stand for, and the CPU time
        of sampling and its time on run queues in ns.
        """

def metadata_json(config_json: str, storage: object, has_directories: bool) -> str:
    """Run the phases of a metadata test and return its report as JSON.

    `config_json` is `Config` of crates/metadata; `storage` has the operations of
    `workloads.by_url.RemoteStorage`. Raises OSError with what stopped the clients.
    """

def simulate_json(scenario_json: str) -> str:
    """Runs a scenario; the outcome as JSON. Raises ModelError."""

def scenario_refusal(scenario_json: str) -> tuple[str, str, str] | None:
    """Why a scenario cannot run: field, given and allowed values; None if it can."""

def simulate_many(
    scenarios: Sequence[str],
    threads: int,
    finished: Callable[[int, str | None, tuple[str, str, str] | None], bool],
    cancelled: Callable[[], bool],
    progress: Callable[[int], object] | None = None,
) -> int:
    """Run scenarios in parallel (0 threads: all cores) and return how many were run.

    `finished(index, outcome, error)` is called in the caller's thread as each ends, and returns
    whether to continue. `cancelled()` ends the call early. `progress(simulated_ns)` is called now
    and then with the time simulated so far, summed over the scenarios.
    """

class TraceError(Exception):
    """A trace that cannot be read: args are (file, line, field, given, problem, allowed)."""

    args: tuple[str, int, str, str, str, str]

class TraceRows:
    """The requests of a trace in the order of issue. Raises TraceError."""

    def __init__(self, files: Sequence[str], device: int | None = None) -> None: ...
    def next_rows(self, count: int) -> dict[str, bytes]:
        """Return the next rows by column; empty at the end.

        time_ns, queue_ns, complete_ns and sector are uint64; sectors, pid, device and op uint32.
        """

    def names(self) -> dict[int, str]: ...
    def damages_json(self) -> str: ...
    def missing(self) -> int: ...

def trace_files(path: str) -> list[Path]:
    """The files that make one trace with this one."""

def trace_summary_json(files: Sequence[str], device: int | None = None) -> str:
    """Return `summary` (null without a request), `format` and `damages` as JSON.

    `device`: major << 20 | minor. Raises TraceError.
    """

def trace_tiles(
    files: Sequence[str], window_json: str, device: int | None = None
) -> dict[str, bytes]:
    """Return the tiles of a trace's pictures. Raises TraceError.

    offsets (group, read or write, row, column; uint32), bytes and requests (read or write, column;
    uint64), seeks and depth_ns (column; uint64), depth_max (column; uint32), latencies (bin,
    column; uint32).
    """
