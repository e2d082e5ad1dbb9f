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
        op: Sequence[int],
        sector: Sequence[int],
        sectors: Sequence[int],
        wait_ns: Sequence[int],
        depth: int,
        limit_ns: int,
    ) -> bytes:
        """Run requests in order with `depth` in flight, each `wait_ns` after it could have
        started, none after `limit_ns`. Return start and end of each (ns, uint64, one after the
        other). `op`: 0 read, 1 write, 2 write that is done when it is on the medium.
        """

class TimedBlockDevice(_Timed):
    """A block device, accessed past the page cache. Raises OSError."""

    def __init__(self, path: Path, writable: bool) -> None: ...

class TimedModel(_Timed):
    """A drive's model, in virtual time, that keeps its state between scripts. Raises ModelError."""

    def __init__(self, spec_json: str, seed: int, holds_data: bool) -> None: ...

class ProcessReader:
    """The counters of a process, from files of /proc that stay open. Raises OSError when it does
    not exist.
    """

    def __init__(self, process: int) -> None: ...
    def read(
        self, alone: bool
    ) -> (
        tuple[
            str,
            int,
            int,
            tuple[int, int, int],
            tuple[int, int] | None,
            tuple[int, int, int, int, int, int] | None,
        ]
        | None
    ):
        """Return state, parent, number of threads, ticks (user, system, of ended children), times
        of the first thread (ns on a CPU, on a run queue), and `rchar`, `wchar`, `syscr`, `syscw`,
        `read_bytes`, `write_bytes` of /proc/PID/io; the last is None where it may not be read.

        `alone`: it had one thread at the last call, whose times are wanted. None if this thread
        slept then and was not on a CPU since. Raises OSError when the process has ended.
        """

    def close(self) -> None: ...

class ThreadSampler:
    """Samples what the threads of a process and of its descendants do, at random moments, from its
    creation on, with 0.7 % of a CPU. Raises OSError when no thread can be started.
    """

    def __init__(self, process: int) -> None: ...
    def stop(self) -> tuple[list[tuple[str, bytes, float]], int, float, int]:
        """End it. Return the time (ns, summed over threads) by letter of the state and kernel
        function (`wchan`), the number of samples, the time that they stand for, and the CPU time
        of sampling in ns.
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
