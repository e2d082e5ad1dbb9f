"""The job ledger: where a job's wall time went. Each slot reads it around each job.

    wall = on CPU + waiting for a CPU + block I/O + network + other

CPU time comes from the process clock and its children; waiting for a CPU from the run-queue delay
of every thread. For root both include finished threads and children (taskstats). Block I/O comes
from the best available of five sources:

1. `samples` (where the kernel counts delays in the wrong thread: `accounting.delays_misplaced`):
   states of the threads of the process and every descendant at random moments, which share out the
   time they slept (`system.thread_states`).
2. `taskstats` (root, kernel.task_delayacct = 1): delay of the process and every descendant, ns.
3. `delayacct` (no root, kernel.task_delayacct = 1): the same of each living thread, in clock
   ticks (10 ms).
4. `psi` (a cgroup of the job's own): time in which at least one thread waited for I/O. Linux takes
   the mean of the CPUs on which its threads were, so a thread that changes CPUs counts too little.
5. `read-calls` (otherwise): time in the workload's read calls, while the job was neither on a CPU
   nor runnable.

A job that slept but ended before a sample saw it asleep has the best of the others.

Turn kernel.task_delayacct on before the slot's process starts: the kernel prepares it at fork. The
kernel counts a wait as block I/O if it sleeps in io_schedule: page cache misses and direct I/O,
also on NFS. It does not count sockets, for which `read_wait_s` adds the waits of a target on a
network, nor asynchronous I/O, for which `read_wait_s` stands for the waits on any target.
"""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Any, Literal

from headrace.system.accounting import (
    IoCounts,
    Times,
    delay_accounting,
    delays_misplaced,
    descendants,
    io_counts,
    own_pressure,
    own_run_delay_ns,
    peak_rss_bytes,
    possible,
    reset_peak_rss,
    thread_count,
    thread_times,
)
from headrace.system.children import Polled, polled_times
from headrace.system.taskstats import TaskDelays, listening_socket
from headrace.system.thread_states import SampledStates, StateSampling

_LOOKS = 5
"""Times that counts are read at most, until this thread had not to wait for a CPU meanwhile."""


@dataclass(frozen=True)
class Shares:
    """Where the wall time went, in seconds; the first five add up to the wall time."""

    on_cpu_s: float
    wait_cpu_s: float
    wait_block_s: float
    wait_network_s: float
    other_s: float
    residue_s: float
    """Time counted beyond the wall time (several threads at once), which was cut off: of the waits
    where threads only read ahead, else proportionally."""


@dataclass(frozen=True)
class LedgerRow:
    """One job's ledger: these fields of jobs.parquet (docs/records.md)."""

    wall_s: float
    user_s: float
    system_s: float
    on_cpu_s: float
    wait_cpu_s: float
    wait_block_s: float
    wait_network_s: float
    other_s: float
    residue_s: float
    ledger_source: str
    """Source of the waits: one of the five above; `+lost` if the kernel dropped messages of ended
    children; `+read-calls` if its block I/O count was impossible (`system.accounting.possible`) and
    was replaced by the time in read calls."""
    bytes_served: int
    """Returned by read calls or, if more (mapped files), read from devices. Of jobs that read by
    URL only by read calls: devices then serve their programs."""
    bytes_device: int
    bytes_device_written: int
    """What its processes made devices write, sooner or later. Never recorded."""
    peak_rss_bytes: int

    def as_row(self) -> dict[str, Any]:
        """Return the fields of jobs.parquet."""
        return asdict(self)


@dataclass(frozen=True)
class BlockWaits:
    """The waits for block I/O of a job's threads, and where they come from."""

    block_s: float
    source: str
    complete: bool
    """Whether they include all waits for block I/O, except for asynchronous ones."""
    possible: bool = True
    """Whether the kernel's count was possible; otherwise the time in read calls replaces it."""

    def source_with(self, *, complete: bool) -> str:
        """Return the text of `ledger_source`. `complete`: all ended children were reported."""
        lost = "" if complete else "+lost"
        return self.source + lost + ("" if self.possible else "+read-calls")


def block_waits(
    spent: Times,
    states: SampledStates | None,
    wall_ns: int,
    *,
    source: str,
    counted: bool,
    believed: bool,
) -> BlockWaits:
    """Return the waits for block I/O: by samples where there are any, else as the kernel counts.

    `source` of the kernel's counts, whether it has `counted` waits and whether they are `believed`
    (`possible`); pure.
    """
    sampled_ns = states.storage_wait_ns(wall_ns, spent) if states is not None else None
    if sampled_ns is not None:
        return BlockWaits(sampled_ns / 1e9, "samples", complete=True)
    return BlockWaits(
        spent.wait_block_ns / 1e9, source, complete=counted and believed, possible=believed
    )


def believed_times(used: Times, states: SampledStates | None, wall_ns: int) -> Times:
    """Return times on CPUs and on run queues, these as far as samples allow; pure."""
    if states is None:
        return used
    return Times(used.run_ns, states.wait_cpu_ns(wall_ns, used), used.wait_block_ns)


def sampling_of(process: int) -> StateSampling | None:
    """Begin to sample a process and its descendants; None when no thread can be started for it."""
    try:
        return StateSampling(process)
    except OSError:
        return None


def share_out(
    wall_s: float,
    on_cpu_s: float,
    wait_cpu_s: float,
    wait_block_s: float,
    read_wait_s: float,
    *,
    network: bool,
    block_counted: bool,
    others_wait: bool = False,
) -> Shares:
    """Return the ledger from the counts; pure. All in seconds, of all threads that work together.

    `read_wait_s` is wall time inside the workload's read calls. `block_counted`: the kernel counted
    `wait_block_s` completely. If not, the time in read calls replaces it, limited to the time the
    job slept. If so, read calls add only the part that exceeds CPU time and run-queue delay.
    `others_wait`: what waits longer than the job slept are threads that only read ahead, whose
    waits delay no work.
    """
    asleep_s = max(0.0, wall_s - on_cpu_s - wait_cpu_s)
    in_reads_s = min(read_wait_s, asleep_s)
    if block_counted and not network:
        in_reads_s = min(asleep_s, max(0.0, read_wait_s - on_cpu_s - wait_cpu_s))
    waits_s = max(wait_block_s, in_reads_s)
    residue_s = max(0.0, on_cpu_s + wait_cpu_s + waits_s - wall_s)
    if others_wait:
        waits_s = min(waits_s, asleep_s)
    counted_s = on_cpu_s + wait_cpu_s + waits_s
    scale = wall_s / counted_s if counted_s > wall_s else 1.0
    return Shares(
        on_cpu_s=on_cpu_s * scale,
        wait_cpu_s=wait_cpu_s * scale,
        wait_block_s=0.0 if network else waits_s * scale,
        wait_network_s=waits_s * scale if network else 0.0,
        other_s=max(0.0, wall_s - counted_s * scale),
        residue_s=residue_s,
    )


@dataclass(frozen=True)
class _Reading:
    """Counters that are read before and after a job, besides the clocks."""

    threads: dict[int, Times]
    """This process's living threads, if taskstats is unavailable."""
    processes: dict[int, TaskDelays]
    """This process and its living descendants, from taskstats."""
    living_threads: dict[int, int]
    """Number of threads of each of these processes."""
    waited_ns: int
    """This thread's time on run queues, read beside the counts of this process."""
    polled: Polled
    pressure_ns: tuple[int, int]
    io: IoCounts
    own: resource.struct_rusage
    children: resource.struct_rusage


class LedgerMeter:
    """Measures the ledger of one job after the other in one slot's process.

    Create it in the process that runs the jobs. Needs no privilege; uses the best available source
    (see above).
    """

    def __init__(
        self,
        *,
        network: bool,
        sampled: bool | None = None,
        threads: int | None = None,
        by_url: bool = False,
    ) -> None:
        """`network`: jobs reach the target over a network, so that I/O waits count as network
        waits. `sampled`: waits come from samples; by default where the kernel misplaces delays.
        `threads`: among which a job shares its work; CPU time and waits are those of their mean,
        and further threads only read ahead. None: a program of unknown threads. `by_url`: jobs
        reach the target by URL, so that no device of this machine serves them.
        """
        self._by_url = by_url
        self._network = network
        self._threads = threads or 1
        self._others_wait = threads is not None
        self._sampled = delays_misplaced() if sampled is None else sampled
        self._sampling: StateSampling | None = None
        self._delays_counted = delay_accounting()
        self._taskstats = listening_socket()
        self._pressure = None if self._delays_counted else own_pressure()
        self._start: _Reading | None = None
        self._clocks = (0, 0, 0)

    @property
    def source(self) -> str:
        """The source of the kernel's counts on this machine."""
        if self._delays_counted:
            return "taskstats" if self._taskstats is not None else "delayacct"
        return "psi" if self._pressure is not None else "read-calls"

    def begin(self) -> None:
        """Start a measurement, just before the job."""
        reset_peak_rss()
        if self._taskstats is not None:
            self._taskstats.ended()
        self._start = self._read()
        self._sampling = sampling_of(os.getpid()) if self._sampled else None
        self._clocks = _clocks()

    def end(self, read_wait_s: float = 0.0, *, asynchronous: bool = False) -> LedgerRow:
        """End the measurement just after the job; the arguments are fields of its `JobOutput`.
        Raises RuntimeError without a `begin`."""
        begun, ended_ns = self._clocks, _clocks()
        wall_ns, own_cpu_ns, _ = (b - a for a, b in zip(begun, ended_ns, strict=True))
        states = self._sampling.end() if self._sampling is not None else None
        self._sampling = None
        start, now = self._start, self._read()
        if start is None:
            raise RuntimeError("a ledger was ended that was not begun")
        self._start = None
        ended, complete = self._taskstats.ended() if self._taskstats is not None else ([], True)
        family = ended_descendants(os.getpid(), start.processes.keys(), now.processes.keys(), ended)

        spent, believed = self._spent(start, now, family, ended, wall_ns)
        # Where other programs keep the CPUs busy, opening and closing a ledger waits for long.
        beside_ns = begun[2] - start.waited_ns + now.waited_ns - ended_ns[2]
        cost_ns, sampling_ns = self._of_sampling(states)
        own_cpu_ns = max(0, own_cpu_ns - cost_ns)
        wait_cpu_ns = max(0, spent.wait_cpu_ns - beside_ns - sampling_ns)
        children_cpu_s = _cpu_s(now.children) - _cpu_s(start.children)
        # The larger one: rusage lacks children that no process waited for, taskstats messages can
        # be lost.
        on_cpu_s = own_cpu_ns / 1e9 + max(children_cpu_s, spent.run_ns / 1e9)
        used = Times(round(on_cpu_s * 1e9), wait_cpu_ns, spent.wait_block_ns)
        used = believed_times(used, states, wall_ns)
        counted = self._delays_counted or self._pressure is not None
        waits = block_waits(
            used, states, wall_ns, source=self.source, counted=counted, believed=believed
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
        moved = now.io - start.io
        peaks = [thread.peak_rss_bytes for thread in family]
        if not peaks and children_cpu_s > 0:
            peaks = [now.children.ru_maxrss * 1024]  # of the largest child in this slot so far
        user_s, system_s = _user_and_system(start, now, on_cpu_s)
        return LedgerRow(
            wall_s=wall_ns / 1e9,
            user_s=user_s / self._threads,
            system_s=system_s / self._threads,
            **asdict(shares),
            ledger_source=waits.source_with(complete=complete),
            bytes_served=moved.read_chars
            if self._by_url
            else max(moved.read_bytes, moved.read_chars),
            bytes_device=moved.read_bytes,
            bytes_device_written=moved.write_bytes,
            peak_rss_bytes=max(peak_rss_bytes(os.getpid()), *peaks, 0),
        )

    def _of_sampling(self, states: SampledStates | None) -> tuple[int, int]:
        """Return the CPU time and the time on run queues of sampling that are counted with this
        process. Only taskstats counts waits of threads that have ended."""
        if states is None:
            return 0, 0
        return states.cost_ns, states.waited_ns if self._taskstats is not None else 0

    def close(self) -> None:
        """Close sockets and files. Safe to call twice."""
        if self._taskstats is not None:
            self._taskstats.close()
        if self._pressure is not None:
            self._pressure.close()

    def _read(self) -> _Reading:
        me = os.getpid()
        below = descendants(me)
        processes: dict[int, TaskDelays] = {}
        threads: dict[int, Times] = {}
        waited_ns = 0
        for _ in range(_LOOKS):
            waited_ns = own_run_delay_ns()
            if self._taskstats is not None:
                processes[me] = self._taskstats.of_process(me)
            else:
                threads = thread_times(me)
            if own_run_delay_ns() == waited_ns:
                break
        if self._taskstats is not None:
            for pid in below:
                # A process that ended since the listing is reported by its exit message.
                with contextlib.suppress(ProcessLookupError):
                    processes[pid] = self._taskstats.of_process(pid)
        return _Reading(
            threads=threads,
            processes=processes,
            living_threads={pid: thread_count(pid) for pid in processes},
            waited_ns=waited_ns,
            polled=polled_times(),
            pressure_ns=self._pressure.read_ns() if self._pressure is not None else (0, 0),
            io=sum((io_counts(pid) for pid in below), io_counts(me)),
            own=resource.getrusage(resource.RUSAGE_SELF),
            children=resource.getrusage(resource.RUSAGE_CHILDREN),
        )

    def _spent(
        self,
        start: _Reading,
        now: _Reading,
        family: list[TaskDelays],
        ended: list[TaskDelays],
        wall_ns: int,
    ) -> tuple[Times, bool]:
        """Return the waits of this process, plus CPU time and waits of all its descendants, between
        two readings, and whether they are plausible."""
        if self._taskstats is not None:
            living = {
                pid: (delays, now.living_threads.get(pid, 0))
                for pid, delays in now.processes.items()
            }
            parts = of_processes(start.processes, living, family, ended, wall_ns)
            spent, believed = Times(), True
        else:
            spent = now.polled.times - start.polled.times
            believed = now.polled.implausible == start.polled.implausible
            parts = {
                thread: (times - start.threads.get(thread, Times()), wall_ns)
                for thread, times in now.threads.items()
            }
        # This process's own CPU time comes from its clock, which is exact; the kernel's counts lag
        # by up to one tick.
        clocked = {os.getpid()} if self._taskstats is not None else parts.keys()
        for pid, (times, lived_ns) in parts.items():
            true, all_of_it = possible(times, lived_ns)
            spent += Times(
                0 if pid in clocked else true.run_ns, true.wait_cpu_ns, true.wait_block_ns
            )
            believed &= all_of_it
        if self._pressure is not None:
            # PSI includes threads and children that ended; it counts time, not threads, so it is a
            # lower bound.
            cpu_ns, io_ns = (
                after - before
                for after, before in zip(now.pressure_ns, start.pressure_ns, strict=True)
            )
            spent = Times(spent.run_ns, max(spent.wait_cpu_ns, cpu_ns), io_ns)
        return spent, believed


def _clocks() -> tuple[int, int, int]:
    """Return the time, this process's CPU time, and this thread's time on run queues, ns, all of
    one moment."""
    found = (0, 0, 0)
    for _ in range(_LOOKS):
        waited_ns = own_run_delay_ns()
        found = (time.monotonic_ns(), time.process_time_ns(), waited_ns)
        if own_run_delay_ns() == waited_ns:
            break
    return found


def of_processes(
    before: Mapping[int, TaskDelays],
    now: Mapping[int, tuple[TaskDelays, int]],
    family: Iterable[TaskDelays],
    ended: Iterable[TaskDelays],
    wall_ns: int,
) -> dict[int, tuple[Times, int]]:
    """Return what each process ran and waited during a job, and the sum of its threads' lifetimes
    within the job, ns; pure.

    `before` and `now`: the living processes when the job began and ended, `now` with the number of
    threads of each. `family`: the ended threads of processes that no longer exist
    (`ended_descendants`); `ended`: all that ended.
    """
    counted: dict[int, tuple[Times, int]] = {}
    for pid, (delays, threads) in now.items():
        gone = sum(1 for thread in ended if thread.process == pid)
        counted[pid] = (_times(delays), wall_ns * (threads + gone))
    for thread in family:
        process = thread.process or thread.pid
        times, lived_ns = counted.get(process, (Times(), 0))
        counted[process] = (times + _times(thread), lived_ns + min(thread.lived_ns, wall_ns))
    return {
        process: (times - _times(before[process]) if process in before else times, lived_ns)
        for process, (times, lived_ns) in counted.items()
    }


def ended_descendants(
    root: int, alive_before: Iterable[int], alive_now: Iterable[int], ended: Iterable[TaskDelays]
) -> list[TaskDelays]:
    """Return, of all threads of the machine that ended, those of vanished processes below `root`;
    pure.

    Ended threads of a living process are excluded: taskstats counts them with their process.
    """
    living = {root, *alive_now}
    threads = [thread for thread in ended if (thread.process or thread.pid) not in living]
    family = living | set(alive_before)
    grown = True
    while grown:
        # A parent's exit can be reported before or after its children's: repeat until nothing is
        # added.
        found = {
            thread.process or thread.pid for thread in threads if thread.parent in family
        } - family
        family |= found
        grown = bool(found)
    return [thread for thread in threads if (thread.process or thread.pid) in family]


def _times(delays: TaskDelays) -> Times:
    return Times(delays.run_ns, delays.wait_cpu_ns, delays.wait_block_ns)


def _user_and_system(start: _Reading, now: _Reading, on_cpu_s: float) -> tuple[float, float]:
    """Return user and system time of a job that was `on_cpu_s` on CPUs, s.

    The kernel's two times include the ledger's own work: reading the counters, and sampling.
    """
    user_s, system_s = _between(start, now, "ru_utime"), _between(start, now, "ru_stime")
    part = min(1.0, on_cpu_s / (user_s + system_s)) if user_s + system_s > 0 else 1.0
    return user_s * part, system_s * part


def _between(start: _Reading, now: _Reading, field: Literal["ru_utime", "ru_stime"]) -> float:
    """Return a time of the process and its ended children between two readings, s."""
    of = attrgetter(field)
    return of(now.own) - of(start.own) + of(now.children) - of(start.children)


def _cpu_s(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime
