"""The counters of one job: of all its processes, those that it starts and those that end, too."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from headrace.probes.ledger import of_processes
from headrace.system.accounting import NS_PER_TICK, Times, delays_misplaced, possible
from headrace.system.taskstats import TaskDelays, TaskstatsSocket
from headrace.watching.finders import FoundJob
from headrace.watching.group_memory import GroupMemory
from headrace.watching.ledger import JobLedger, Spent, State, StorageWait, WaitEstimate
from headrace.watching.own_groups import GroupUse, OwnGroups, processes_of
from headrace.watching.process import Moved, ProcessCounters, ProcessReading, start_ticks


@dataclass
class Used:
    """What a job used in an interval."""

    spent: Spent = field(default_factory=Spent)
    moved: Moved = field(default_factory=Moved)
    user_s: float = 0.0
    system_s: float = 0.0
    samples: int = 0
    """Samples of the states of its threads."""
    counted_ns: dict[StorageWait, float] = field(default_factory=dict[StorageWait, float])
    """The waits as the kernel counts them, those that it does not count from samples."""

    def add(self, other: Used) -> None:
        """Add another interval."""
        self.spent.add(other.spent)
        self.moved = self.moved + other.moved
        self.user_s += other.user_s
        self.system_s += other.system_s
        self.samples += other.samples
        for wait, amount in other.counted_ns.items():
            self.counted_ns[wait] = self.counted_ns.get(wait, 0.0) + amount

    def copy(self) -> Used:
        """Return the values of now."""
        spent = self.spent
        kept = Spent(
            spent.wall_ns, spent.run_ns, spent.wait_cpu_ns, {**spent.waits_ns}, spent.variance_ns2
        )
        return Used(kept, self.moved, self.user_s, self.system_s, self.samples, {**self.counted_ns})

    def blame_memory(self, refault_bytes: int) -> None:
        """Move waits for pages that had been in memory before from storage to memory.

        The share is that of these bytes among those read from storage. Where the kernel counts the
        time of such waits, its count stays.
        """
        share = (
            min(1.0, refault_bytes / self.moved.storage_read) if self.moved.storage_read else 0.0
        )
        lacking = StorageWait("memory", "")
        for waits in (self.spent.waits_ns, self.counted_ns):
            if share and not (waits is self.counted_ns and lacking in waits):
                moved = 0.0
                for wait in [each for each in waits if each.kind != "memory"]:
                    moved += share * waits[wait]
                    waits[wait] *= 1 - share
                waits[lacking] = waits.get(lacking, 0.0) + moved

    def by_kernel(self) -> Used:
        """Return the same with the waits as the kernel counts them."""
        spent = replace(self.spent, waits_ns=self.counted_ns, variance_ns2=0.0)
        return replace(self, spent=spent)

    @property
    def cpu_s(self) -> float:
        """CPU time of all its threads."""
        return self.spent.run_ns / 1e9

    @property
    def ledger(self) -> JobLedger:
        """Where its wall time went."""
        return self.spent.ledger()


@dataclass(frozen=True)
class JobSample:
    """One job at one look."""

    key: str
    name: str
    processes: int
    threads: int
    ended: bool
    last: Used
    """Since the look before."""
    total: Used
    """Since it was first seen."""
    began_s: float
    """When it was first seen, on the monotonic clock."""
    sources: tuple[str, ...]
    """Where its numbers come from."""
    lacks: tuple[str, ...]
    """What could not be read, for people."""
    group_last: GroupUse | None = None
    """What its own control groups counted since the look before; None without such groups."""
    group_total: GroupUse | None = None
    """The same since it was first seen."""
    pids: tuple[int, ...] = ()
    """Its processes."""
    io_readable: bool = True
    """Whether the bytes of all of them could be read."""


class JobMeter:
    """Measures one job from its first `look` on."""

    def __init__(self, found: FoundJob, taskstats: TaskstatsSocket | None) -> None:
        self.found = found
        self.processes: dict[int, ProcessCounters] = {}
        self.states: Counter[State] = Counter()
        """Samples since the last look; the watcher adds them."""
        self.running_samples = 0
        self._taskstats = taskstats
        self.delays = False
        """Whether the kernel counts block I/O waits of processes that start now."""
        self._readings: dict[int, ProcessReading] = {}
        self._gone = Moved()
        """Bytes of processes that ended and whose parents do not have them."""
        self._moved = Moved()
        self._estimate = WaitEstimate()
        self._began_ns = 0
        self._last_ns = 0
        self._misplaced = delays_misplaced()
        self._kernel_counts = False
        """Whether the kernel counts block I/O waits of this job."""
        self._believed = True
        self._total = Used()
        self.denied = False
        """Whether system calls of its threads may not be read; the watcher sets it."""
        self._groups = OwnGroups()
        self._group_total: GroupUse | None = None
        self._memory = GroupMemory()
        self._refaults_seen = False

    # -- which processes --

    def join(self, pids: Iterable[int]) -> list[int]:
        """Add processes and their descendants; return those that are new."""
        new: list[int] = []
        waiting = [pid for pid in pids if pid not in self.processes]
        while waiting:
            pid = waiting.pop()
            if pid in self.processes or pid == os.getpid():
                continue
            try:
                counters = ProcessCounters(pid)
            except OSError:
                continue
            self.processes[pid] = counters
            new.append(pid)
            with contextlib.suppress(OSError):
                counters.threads.refresh(0)
                if self.found.follow:
                    waiting.extend(counters.children())
        return new

    def _follow(self, *, forked: bool) -> None:
        """Find the children of its processes, and processes of its control groups."""
        found: list[int] = []
        if forked and self.found.follow and not self.found.groups:
            for counters in [*self.processes.values()]:
                with contextlib.suppress(OSError):
                    found.extend(counters.children())
        for group in self.found.groups:
            found.extend(processes_of(group))
        self.join(found)

    # -- looks --

    def look(self, now_ns: int, ended: list[TaskDelays], *, forked: bool = True) -> JobSample:
        """Return what the job used since the last look.

        `ended`: threads of its vanished processes, as the kernel reported them. `forked`: whether
        any process of the node may have started since.
        """
        first = not self._began_ns
        self._follow(forked=forked or first)
        before = self._readings
        now = self._read()
        if first:
            self._began_ns = self._last_ns = now_ns
            before = now
        else:
            if now.keys() != before.keys():
                before = {**before, **self._older(before, now)}
        last = Used()
        last.spent.wall_ns = now_ns - self._last_ns
        last.moved = self._bytes(before, now, first)
        refaults = self._memory.refault_bytes(now.keys())
        group = self._groups.use(now.keys())
        if group is not None:
            self._group_total = (self._group_total or GroupUse()) + group
        if not first:
            self._add_times(last, before, now, ended)
            if refaults is not None:
                self._refaults_seen = True
                last.blame_memory(refaults)
        self._readings, self._last_ns = now, now_ns
        self._total.add(last)
        self.states.clear()
        self.running_samples = 0
        by_kernel, total = self._by_kernel, self._total.copy()
        return JobSample(
            key=self.found.key,
            name=self.found.name,
            processes=len(now),
            threads=sum(reading.threads for reading in now.values()),
            ended=not now,
            last=last.by_kernel() if by_kernel else last,
            total=total.by_kernel() if by_kernel else total,
            began_s=self._began_ns / 1e9,
            sources=self._sources(),
            lacks=self._lacks(),
            group_last=group,
            group_total=self._group_total,
            pids=tuple(now),
            io_readable=all(reading.io_readable for reading in now.values()),
        )

    def _read(self) -> dict[int, ProcessReading]:
        found: dict[int, ProcessReading] = {}
        for pid, counters in [*self.processes.items()]:
            try:
                found[pid] = counters.read(self._taskstats, self.delays)
            except OSError:
                counters.close()
                del self.processes[pid]
        return found

    def _older(
        self, before: dict[int, ProcessReading], now: dict[int, ProcessReading]
    ) -> dict[int, ProcessReading]:
        """Return the readings of new processes that ran before the job was watched."""
        began_ticks = (self._began_ns + _boot_offset_ns()) // NS_PER_TICK
        return {
            pid: now[pid]
            for pid in now.keys() - before.keys()
            if (start_ticks(pid) or began_ticks) < began_ticks - 1
        }

    # -- times --

    def _add_times(
        self,
        last: Used,
        before: dict[int, ProcessReading],
        now: dict[int, ProcessReading],
        ended: list[TaskDelays],
    ) -> None:
        wall_ns = last.spent.wall_ns
        parts = _alone(before, now, wall_ns) if not ended else None
        parts = parts or of_processes(
            {pid: _delays(reading) for pid, reading in before.items()},
            {pid: (_delays(reading), reading.threads) for pid, reading in now.items()},
            [thread for thread in ended if (thread.process or thread.pid) not in now],
            ended,
            wall_ns,
        )
        spent, lived_ns = Times(), 0
        for pid, (times, lived) in parts.items():
            possibly, plausible = possible(times, lived)
            self._believed &= plausible
            reading, earlier = now.get(pid), before.get(pid)
            if reading is not None:
                run_ns = max(possibly.run_ns, _ticks_ns(reading, earlier))
                possibly = Times(run_ns, possibly.wait_cpu_ns, possibly.wait_block_ns)
            spent += possibly
            lived_ns += lived
        if not ended and (ended_ns := self._ended_ns(before, now)):
            spent += Times(ended_ns)
        memory_ns = 0
        if self.delays:
            memory_ns = sum(
                max(
                    0, reading.wait_memory_ns - (before[pid].wait_memory_ns if pid in before else 0)
                )
                for pid, reading in now.items()
            )
            self._kernel_counts |= any(reading.wait_block_ns > 0 for reading in now.values())
        lived_ns = max(lived_ns, spent.run_ns + spent.wait_cpu_ns)
        waits = self._estimate.waits(spent, memory_ns, lived_ns, self.states)
        last.spent.run_ns, last.spent.wait_cpu_ns = spent.run_ns, spent.wait_cpu_ns
        last.spent.waits_ns, last.spent.variance_ns2 = waits.sampled, waits.variance_ns2
        last.counted_ns = waits.counted
        last.samples = self.states.total() + self.running_samples
        user, system = _split(before, now)
        share = user / (user + system) if user + system else 1.0
        last.user_s = share * spent.run_ns / 1e9
        last.system_s = (1 - share) * spent.run_ns / 1e9

    def _ended_ns(self, before: dict[int, ProcessReading], now: dict[int, ProcessReading]) -> int:
        """Return CPU time of children that ended since the last look, from their parents."""
        if now.keys() == before.keys() and len(now) == 1:
            ((pid, reading),) = now.items()  # the usual job, cheaper
            return (reading.ended_ticks - before[pid].ended_ticks) * NS_PER_TICK
        ticks = sum(
            reading.ended_ticks - before[pid].ended_ticks if pid in before else 0
            for pid, reading in now.items()
        )
        known = sum(
            reading.user_ticks + reading.system_ticks + reading.ended_ticks
            for pid, reading in before.items()
            if pid not in now and reading.parent in now
        )
        return max(0, ticks - known) * NS_PER_TICK

    # -- bytes --

    def _bytes(
        self, before: dict[int, ProcessReading], now: dict[int, ProcessReading], first: bool
    ) -> Moved:
        """Return the bytes since the last look.

        A process that ends hands its counts on to the parent that waits for it.
        """
        for pid in before.keys() - now.keys():
            mine = before[pid].moved
            parent = before[pid].parent
            handed_on = parent in now and now[parent].moved >= mine + (
                before[parent].moved if parent in before else Moved()
            )
            if not handed_on:
                self._gone = self._gone + mine
        for pid in now.keys() & before.keys() - self._readings.keys():
            self._moved = self._moved + now[pid].moved  # older than the watch
        total = sum((reading.moved for reading in now.values()), self._gone)
        grown = Moved() if first else total - self._moved
        self._moved = total
        return grown

    # -- what it was read from --

    @property
    def _by_kernel(self) -> bool:
        """Whether the kernel's count of block I/O waits is used."""
        consistent = self._believed and self._estimate.consistent
        return self._kernel_counts and not self._misplaced and consistent

    def _sources(self) -> tuple[str, ...]:
        threads = self._taskstats is not None and any(
            reading.ended_counted for reading in self._readings.values()
        )
        found = ["CPU and run queue: " + ("taskstats" if threads else "/proc/PID/schedstat")]
        if self._by_kernel:
            delays = "taskstats" if threads else "/proc/PID/stat (10 ms ticks)"
            found.append(f"storage waits: delay accounting of {delays}, places from thread states")
        else:
            found.append("storage waits: samples of thread states")
        if any(reading.io_readable for reading in self._readings.values()):
            found.append("bytes: /proc/PID/io")
        if self._refaults_seen:
            found.append("memory: refaults of the control group")
        if self._group_total is not None:
            found.append("control group: " + ", ".join(self._group_total.sources))
        return tuple(found)

    def _lacks(self) -> tuple[str, ...]:
        found: list[str] = []
        if self.denied:
            found.append("devices and mounts of waits (/proc/PID/syscall): owner or root only")
        if any(not reading.io_readable for reading in self._readings.values()):
            found.append("bytes (/proc/PID/io): owner or root only")
        return tuple(found)

    def close(self) -> None:
        """Close all files."""
        for counters in self.processes.values():
            counters.close()
        self.processes.clear()
        self._memory.close()
        self._groups.close()


def _boot_offset_ns() -> int:
    """Return by how much the clock of start times is ahead of the monotonic clock."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()


def _delays(reading: ProcessReading) -> TaskDelays:
    return TaskDelays(
        pid=0,
        process=0,
        parent=reading.parent,
        run_ns=reading.run_ns,
        wait_cpu_ns=reading.wait_cpu_ns,
        wait_block_ns=reading.wait_block_ns,
        peak_rss_bytes=0,
    )


def _alone(
    before: dict[int, ProcessReading], now: dict[int, ProcessReading], wall_ns: int
) -> dict[int, tuple[Times, int]] | None:
    """Return what `of_processes` does for the only process of a job, cheaper; else None."""
    if len(now) != 1 or before.keys() != now.keys():
        return None
    ((pid, reading),) = now.items()
    earlier = before[pid]
    times = Times(
        max(0, reading.run_ns - earlier.run_ns),
        max(0, reading.wait_cpu_ns - earlier.wait_cpu_ns),
        max(0, reading.wait_block_ns - earlier.wait_block_ns),
    )
    return {pid: (times, wall_ns * reading.threads)}


def _ticks_ns(reading: ProcessReading, earlier: ProcessReading | None) -> int:
    """Return a lower bound of CPU time from clock ticks, which include ended threads."""
    ticks = reading.user_ticks + reading.system_ticks
    if earlier is not None:
        ticks -= earlier.user_ticks + earlier.system_ticks
    return (ticks - 2) * NS_PER_TICK  # each of the two sums is rounded down


def _split(before: dict[int, ProcessReading], now: dict[int, ProcessReading]) -> tuple[int, int]:
    """Return user and system time of an interval in ticks."""
    user = system = 0
    for pid, reading in now.items():
        earlier = before.get(pid)
        user += reading.user_ticks - (earlier.user_ticks if earlier else 0)
        system += reading.system_ticks - (earlier.system_ticks if earlier else 0)
    return user, system
