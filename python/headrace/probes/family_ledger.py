"""The ledger of a process that a job started before its release, with what that process starts.

The job itself and its other children are left out: a job of the workload `dask` is a worker of
Dask, while scheduler and script are other children of the first job. Sources of the waits are
those of `probes/ledger.py`, without control groups.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field

from headrace.probes.ledger import (
    LedgerRow,
    believed_times,
    block_waits,
    ended_descendants,
    of_processes,
    sampling_of,
    share_out,
)
from headrace.system.accounting import (
    NS_PER_TICK,
    CounterFile,
    IoCounts,
    Times,
    delay_accounting,
    delays_misplaced,
    descendants,
    io_counts,
    peak_rss_bytes,
    possible,
    reset_peak_rss,
    thread_count,
    thread_times,
)
from headrace.system.taskstats import TaskDelays, listening_socket
from headrace.system.thread_states import StateSampling

_LOOK_S = 0.05
"""Interval of looks at threads, which are lost with their times when they end."""
_SELDOM_S = 0.5
"""The same where the kernel reports ended threads."""


@dataclass
class _Counts:
    """What the processes have used, as read last: one that ended keeps its values."""

    threads: dict[tuple[int, int], Times] = field(default_factory=dict[tuple[int, int], Times])
    cpu_s: dict[int, tuple[float, float]] = field(default_factory=dict[int, tuple[float, float]])
    """User and system time of a process and of its children that it waited for."""
    io: dict[int, IoCounts] = field(default_factory=dict[int, IoCounts])
    peak_bytes: int = 0

    def copy(self) -> _Counts:
        """Return the values of now."""
        return _Counts({**self.threads}, {**self.cpu_s}, {**self.io}, self.peak_bytes)


class FamilyMeter:
    """Measures the ledger of a process and its descendants. Needs no privilege."""

    def __init__(self, process: int, *, network: bool, threads: int | None = None) -> None:
        """`network`: the processes reach the target over a network. `threads`: as of
        `LedgerMeter`."""
        self._process = process
        self._threads = threads or 1
        self._others_wait = threads is not None
        self._network = network
        self._delays_counted = delay_accounting()
        self._taskstats = listening_socket()
        self._counts = _Counts()
        self._before = _Counts()
        self._delays_before: dict[int, TaskDelays] = {}
        self._sampled = delays_misplaced()
        self._sampling: StateSampling | None = None
        self._start_ns = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="headrace-ledger", daemon=True)

    @property
    def source(self) -> str:
        """The source of the kernel's counts on this machine."""
        if self._delays_counted:
            return "taskstats" if self._taskstats is not None else "delayacct"
        return "read-calls"

    def begin(self) -> None:
        """Start the measurement, just before the job."""
        reset_peak_rss(self._process)
        if self._taskstats is not None:
            self._taskstats.ended()
            self._delays_before = self._delays()
        self._look()
        self._before = self._counts.copy()
        self._sampling = sampling_of(self._process) if self._sampled else None
        self._start_ns = time.monotonic_ns()
        self._thread.start()

    def end(self, read_wait_s: float = 0.0, *, asynchronous: bool = False) -> LedgerRow:
        """End the measurement just after the job; the arguments are as of `LedgerMeter.end`."""
        wall_ns = time.monotonic_ns() - self._start_ns
        states = self._sampling.end() if self._sampling is not None else None
        self._stop.set()
        self._thread.join()
        self._look()
        spent, believed, complete = self._spent(wall_ns)
        user_s, system_s = self._cpu_s()
        moved = self._moved()
        on_cpu_s = max(user_s + system_s, spent.run_ns / 1e9)
        used = Times(round(on_cpu_s * 1e9), spent.wait_cpu_ns, spent.wait_block_ns)
        used = believed_times(used, states, wall_ns)
        waits = block_waits(
            used,
            states,
            wall_ns,
            source=self.source,
            counted=self._delays_counted,
            believed=believed,
        )
        shares = share_out(
            wall_ns / 1e9,
            on_cpu_s / self._threads,
            used.wait_cpu_ns / 1e9 / self._threads,
            waits.block_s / self._threads,
            read_wait_s,
            network=self._network,
            block_counted=waits.complete and not asynchronous,
            others_wait=self._others_wait,
        )
        return LedgerRow(
            wall_s=wall_ns / 1e9,
            user_s=user_s / self._threads,
            system_s=system_s / self._threads,
            on_cpu_s=shares.on_cpu_s,
            wait_cpu_s=shares.wait_cpu_s,
            wait_block_s=shares.wait_block_s,
            wait_network_s=shares.wait_network_s,
            other_s=shares.other_s,
            residue_s=shares.residue_s,
            ledger_source=waits.source_with(complete=complete),
            bytes_served=max(moved.read_bytes, moved.read_chars),
            bytes_device=moved.read_bytes,
            bytes_device_written=moved.write_bytes,
            peak_rss_bytes=self._counts.peak_bytes,
        )

    # -- looking --

    def _watch(self) -> None:
        while not self._stop.wait(_LOOK_S if self._taskstats is None else _SELDOM_S):
            self._look()

    def _look(self) -> None:
        counts = self._counts
        for pid in (self._process, *descendants(self._process)):
            cpu_s = _cpu_s(pid)
            if cpu_s is None:
                continue
            counts.cpu_s[pid] = cpu_s
            counts.io[pid] = counts.io.get(pid, IoCounts()).at_least(io_counts(pid))
            counts.peak_bytes = max(counts.peak_bytes, peak_rss_bytes(pid))
            if self._taskstats is None:
                for thread, times in thread_times(pid).items():
                    counts.threads[pid, thread] = times

    def _delays(self) -> dict[int, TaskDelays]:
        found: dict[int, TaskDelays] = {}
        for pid in (self._process, *descendants(self._process)):
            if self._taskstats is not None:
                # A process that ended since the listing is reported by its exit message.
                with contextlib.suppress(ProcessLookupError):
                    found[pid] = self._taskstats.of_process(pid)
        return found

    # -- results --

    def _spent(self, wall_ns: int) -> tuple[Times, bool, bool]:
        """Return run time and waits, whether they are plausible, and whether none was lost."""
        complete = True
        if self._taskstats is not None:
            now = self._delays()
            ended, complete = self._taskstats.ended()
            before = self._delays_before
            family = ended_descendants(self._process, before.keys(), now.keys(), ended)
            if self._process not in now:  # it has ended itself
                family += [each for each in ended if (each.process or each.pid) == self._process]
            living = {pid: (delays, thread_count(pid)) for pid, delays in now.items()}
            parts = [*of_processes(before, living, family, ended, wall_ns).values()]
        else:
            first = self._before.threads
            parts = [
                (times - first.get(thread, Times()), wall_ns)
                for thread, times in self._counts.threads.items()
            ]
        spent, believed = Times(), True
        for times, lived_ns in parts:
            true, plausible = possible(times, lived_ns)
            spent += true
            believed &= plausible
        return spent, believed, complete

    def _cpu_s(self) -> tuple[float, float]:
        """Return user and system time since `begin`: of the process, which waits for the others."""
        user_s, system_s = self._counts.cpu_s.get(self._process, (0.0, 0.0))
        user_before_s, system_before_s = self._before.cpu_s.get(self._process, (0.0, 0.0))
        return max(0.0, user_s - user_before_s), max(0.0, system_s - system_before_s)

    def _moved(self) -> IoCounts:
        """Return the bytes since `begin`: a process has those of children that it waited for."""
        alive = [self._process, *descendants(self._process)]
        counts = [self._counts.io[pid] for pid in alive if pid in self._counts.io]
        before = [self._before.io[pid] for pid in alive if pid in self._before.io]
        return sum(counts, IoCounts()) - sum(before, IoCounts())


def _cpu_s(pid: int) -> tuple[float, float] | None:
    """Return user and system time of a process and its ended children; None when it has ended."""
    try:
        with CounterFile(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    user, system, of_children, system_of_children = map(int, fields[11:15])
    tick_s = NS_PER_TICK / 1e9
    return (user + of_children) * tick_s, (system + system_of_children) * tick_s
