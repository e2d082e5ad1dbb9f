"""The job ledger: where a job's wall time went. Read by a slot's process around each job; not a sampled probe.

    wall = on CPU + waiting for a CPU + block I/O + network + other

CPU time comes from the process clock and its children, waiting for a CPU from the run-queue delay of every thread,
for root all with what finished threads and children used (taskstats). Block I/O is had in the best of four ways:

1. `taskstats` (root, kernel.task_delayacct = 1): delay of the process and of every descendant, in ns.
2. `delayacct` (no root, kernel.task_delayacct = 1): the same of each living thread, in clock ticks (10 ms).
3. `psi` (a cgroup of the job's own): time in which some thread waited for I/O.
4. `read-calls`: none of these; time in the workload's read calls, as far as the job was neither on a CPU nor runnable.

kernel.task_delayacct must be on before the slot's process is started: the kernel prepares it at fork. The kernel counts
a wait as block I/O where it sleeps in io_schedule: page cache misses, direct I/O, also those of NFS; not sockets, which
`read_wait_s` brings in for a target on a network, and not asynchronous I/O, where it stands for the waits anywhere.
"""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from headrace.system.accounting import (
    IoCounts,
    Times,
    delay_accounting,
    descendants,
    io_counts,
    own_pressure,
    peak_rss_bytes,
    possible,
    reset_peak_rss,
    thread_count,
    thread_times,
)
from headrace.system.children import polled_times
from headrace.system.taskstats import TaskDelays, listening_socket


@dataclass(frozen=True)
class Shares:
    """Where the wall time went, in seconds; the first five add up to the wall time."""

    on_cpu_s: float
    wait_cpu_s: float
    wait_block_s: float
    wait_network_s: float
    other_s: float
    residue_s: float
    """What was counted beyond the wall time (several threads at once) and cut off in proportion."""


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
    """How waits were had: one of the four ways above, `+lost` when the kernel dropped news of ended children, `+read-calls`
    when its count of block I/O could not be true (`system.accounting.possible`) and the time in read calls stands for it."""
    bytes_served: int
    """Returned by read calls or, when that is more (mapped files), brought in from devices."""
    bytes_device: int
    peak_rss_bytes: int

    def as_row(self) -> dict[str, Any]:
        """The fields of jobs.parquet."""
        return asdict(self)


def share_out(
    wall_s: float,
    on_cpu_s: float,
    wait_cpu_s: float,
    wait_block_s: float,
    read_wait_s: float,
    *,
    network: bool,
    block_counted: bool,
) -> Shares:
    """The ledger from what was counted; pure. All in seconds, summed over threads.

    `read_wait_s` is wall time inside the workload's read calls. `block_counted` says that `wait_block_s` was had from
    the kernel in full; where it was not, the time in read calls stands for it, as far as the job slept. Where it was, only
    that part of the read calls counts beyond it that neither CPU nor run queue can account for.
    """
    asleep_s = max(0.0, wall_s - on_cpu_s - wait_cpu_s)
    in_reads_s = min(read_wait_s, asleep_s)
    if block_counted and not network:
        in_reads_s = min(asleep_s, max(0.0, read_wait_s - on_cpu_s - wait_cpu_s))
    waits_s = max(wait_block_s, in_reads_s)
    counted_s = on_cpu_s + wait_cpu_s + waits_s
    residue_s = max(0.0, counted_s - wall_s)
    scale = wall_s / counted_s if residue_s > 0 else 1.0
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
    """What is read before and after a job, besides the clocks."""

    threads: dict[int, Times]
    """This process's living threads, where taskstats cannot be had."""
    processes: dict[int, TaskDelays]
    """This process and its living descendants, from taskstats."""
    living_threads: dict[int, int]
    """How many of each of these processes."""
    polled: Times
    pressure_ns: tuple[int, int]
    io: IoCounts
    own: resource.struct_rusage
    children: resource.struct_rusage


class LedgerMeter:
    """Takes the ledger of job after job in one slot's process.

    Make it in the process that runs the jobs. Needs no privilege; takes the best way that it finds (see above).
    """

    def __init__(self, *, network: bool) -> None:
        """`network`: the target is reached over a network, so that waiting for I/O is waiting for it."""
        self._network = network
        self._delays_counted = delay_accounting()
        self._taskstats = listening_socket()
        self._pressure = None if self._delays_counted else own_pressure()
        self._start: _Reading | None = None
        self._start_wall_ns = self._start_cpu_ns = 0

    @property
    def source(self) -> str:
        """How waits are had here."""
        if self._delays_counted:
            return "taskstats" if self._taskstats is not None else "delayacct"
        return "psi" if self._pressure is not None else "read-calls"

    def begin(self) -> None:
        """Just before the job."""
        reset_peak_rss()
        if self._taskstats is not None:
            self._taskstats.ended()
        self._start = self._read()
        self._start_cpu_ns = time.process_time_ns()
        self._start_wall_ns = time.monotonic_ns()

    def end(self, read_wait_s: float = 0.0, *, asynchronous: bool = False) -> LedgerRow:
        """Just after the job; the arguments are fields of its `JobOutput`. Raises RuntimeError without a `begin`."""
        wall_ns = time.monotonic_ns() - self._start_wall_ns
        own_cpu_ns = time.process_time_ns() - self._start_cpu_ns
        start, now = self._start, self._read()
        if start is None:
            raise RuntimeError("a ledger was ended that was not begun")
        self._start = None
        ended, complete = self._taskstats.ended() if self._taskstats is not None else ([], True)
        family = ended_descendants(os.getpid(), start.processes.keys(), now.processes.keys(), ended)

        spent, believed = self._spent(start, now, family, ended, wall_ns)
        children_cpu_s = _cpu_s(now.children) - _cpu_s(start.children)
        shares = share_out(
            wall_ns / 1e9,
            # The larger one: rusage has not heard of children that nobody waited for, taskstats may have been dropped.
            own_cpu_ns / 1e9 + max(children_cpu_s, spent.run_ns / 1e9),
            spent.wait_cpu_ns / 1e9,
            spent.wait_block_ns / 1e9,
            read_wait_s,
            network=self._network,
            block_counted=(self._delays_counted or self._pressure is not None)
            and believed
            and not asynchronous,
        )
        moved = now.io - start.io
        peaks = [thread.peak_rss_bytes for thread in family]
        if not peaks and children_cpu_s > 0:
            peaks = [now.children.ru_maxrss * 1024]  # of the largest child in this slot so far
        return LedgerRow(
            wall_s=wall_ns / 1e9,
            user_s=now.own.ru_utime - start.own.ru_utime + now.children.ru_utime - start.children.ru_utime,
            system_s=now.own.ru_stime - start.own.ru_stime + now.children.ru_stime - start.children.ru_stime,
            **asdict(shares),
            ledger_source=self.source + ("" if complete else "+lost") + ("" if believed else "+read-calls"),
            bytes_served=max(moved.read_bytes, moved.read_chars),
            bytes_device=moved.read_bytes,
            peak_rss_bytes=max(peak_rss_bytes(os.getpid()), *peaks, 0),
        )

    def close(self) -> None:
        """Lets go of sockets and files. Safe to call twice."""
        if self._taskstats is not None:
            self._taskstats.close()
        if self._pressure is not None:
            self._pressure.close()

    def _read(self) -> _Reading:
        me = os.getpid()
        below = descendants(me)
        processes: dict[int, TaskDelays] = {}
        if self._taskstats is not None:
            for pid in (me, *below):
                # One that ended between the two looks is told of by its exit.
                with contextlib.suppress(ProcessLookupError):
                    processes[pid] = self._taskstats.of_process(pid)
        return _Reading(
            threads=thread_times(me) if self._taskstats is None else {},
            processes=processes,
            living_threads={pid: thread_count(pid) for pid in processes},
            polled=polled_times(),
            pressure_ns=self._pressure.read_ns() if self._pressure is not None else (0, 0),
            io=sum((io_counts(pid) for pid in below), io_counts(me)),
            own=resource.getrusage(resource.RUSAGE_SELF),
            children=resource.getrusage(resource.RUSAGE_CHILDREN),
        )

    def _spent(
        self, start: _Reading, now: _Reading, family: list[TaskDelays], ended: list[TaskDelays], wall_ns: int
    ) -> tuple[Times, bool]:
        """Waits of this process, and CPU time and waits of all below it, between two readings; whether to believe them."""
        if self._taskstats is not None:
            living = {pid: (delays, now.living_threads.get(pid, 0)) for pid, delays in now.processes.items()}
            parts = of_processes(start.processes, living, family, ended, wall_ns)
            spent = Times()
        else:
            spent = now.polled - start.polled
            parts = {
                thread: (times - start.threads.get(thread, Times()), wall_ns)
                for thread, times in now.threads.items()
            }
        # This process's own CPU time comes from its clock, which is exact; the kernel's counts lag by up to a tick.
        clocked = {os.getpid()} if self._taskstats is not None else parts.keys()
        believed = True
        for pid, (times, lived_ns) in parts.items():
            true, all_of_it = possible(times, lived_ns)
            spent += Times(0 if pid in clocked else true.run_ns, true.wait_cpu_ns, true.wait_block_ns)
            believed &= all_of_it
        if self._pressure is not None:
            # PSI also knows of threads and children that ended; it counts time, not threads, so it is a least value.
            cpu_ns, io_ns = (
                after - before for after, before in zip(now.pressure_ns, start.pressure_ns, strict=True)
            )
            spent = Times(spent.run_ns, max(spent.wait_cpu_ns, cpu_ns), io_ns)
        return spent, believed


def of_processes(
    before: Mapping[int, TaskDelays],
    now: Mapping[int, tuple[TaskDelays, int]],
    family: Iterable[TaskDelays],
    ended: Iterable[TaskDelays],
    wall_ns: int,
) -> dict[int, tuple[Times, int]]:
    """What each process ran and waited during a job, and how long its threads lived in it together, ns; pure.

    `before` and `now`: the living processes when the job began and ended, `now` with the number of threads of each.
    `family`: the ended threads of processes that are gone (`ended_descendants`); `ended`: all that ended.
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
    """Of all threads of the machine that ended, those of processes below `root` that are gone; pure.

    Ended threads of a living process are left out: taskstats counts them with their process.
    """
    living = {root, *alive_now}
    threads = [thread for thread in ended if (thread.process or thread.pid) not in living]
    family = living | set(alive_before)
    grown = True
    while grown:
        # Parents are told of after or before their children, so look again until nothing is added.
        found = {thread.process or thread.pid for thread in threads if thread.parent in family} - family
        family |= found
        grown = bool(found)
    return [thread for thread in threads if (thread.process or thread.pid) in family]


def _times(delays: TaskDelays) -> Times:
    return Times(delays.run_ns, delays.wait_cpu_ns, delays.wait_block_ns)


def _cpu_s(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime
