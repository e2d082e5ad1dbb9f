"""The counters of one job: of all its processes, those that it starts and those that end, too."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterable

from headrace.probes.ledger import of_processes
from headrace.system.accounting import NS_PER_TICK, Times, possible
from headrace.system.taskstats import TaskDelays, TaskstatsSocket
from headrace.watching.finders import FoundJob
from headrace.watching.group_memory import GroupMemory
from headrace.watching.group_places import GroupProcesses
from headrace.watching.ledger import State, WaitEstimate
from headrace.watching.own_groups import GroupUse, OwnGroups
from headrace.watching.process import NOTHING, Moved, ProcessCounters, ProcessReading, start_ticks
from headrace.watching.used import JobSample, Used

_NONE: frozenset[int] = frozenset()
_GROUPS_S = 5.0
"""Time between two looks into control groups while no process starts: one may be moved there."""


class JobMeter:
    """Measures one job from its first `look` on."""

    def __init__(
        self,
        found: FoundJob,
        taskstats: TaskstatsSocket | None,
        *,
        misplaced: bool = False,
        pressure: bool = True,
    ) -> None:
        """`misplaced`: the kernel's counts of block I/O waits cannot be believed. `pressure`: read
        that of its control groups."""
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
        self._misplaced = misplaced
        self._kernel_counts = False
        """Whether the kernel counts block I/O waits of this job."""
        self._believed = True
        self._total = Used()
        self.denied = False
        """Whether system calls of its threads may not be read; the watcher sets it."""
        self._ended_unseen = False
        """Whether it ended without a report of the kernel: nothing is known since the last look."""
        self._in_groups = GroupProcesses()
        self._groups = OwnGroups()
        self._groups_s = -1e9
        self._pressure = pressure
        self._group_total: GroupUse | None = None
        self._memory = GroupMemory()
        self._refaults_seen = False
        self._sources_of: tuple[bool, bool, bool, bool, tuple[str, ...]] | None = None
        self._sources_text: tuple[str, ...] = ()

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

    def _follow(self, forked: frozenset[int] | None) -> None:
        """Find the children of its processes, and processes of its control groups."""
        found: list[int] = []
        if self.found.follow and not self.found.groups and forked != _NONE:
            mine = self.processes.keys() if forked is None else self.processes.keys() & forked
            for pid in [*mine]:
                with contextlib.suppress(OSError):
                    found.extend(self.processes[pid].children())
        if self.found.groups and (forked != _NONE or time.monotonic() - self._groups_s > _GROUPS_S):
            self._groups_s = time.monotonic()
            for group in self.found.groups:
                found.extend(self._in_groups.processes(group))
        if found:
            self.join(found)

    # -- looks --

    def look(
        self, now_ns: int, ended: list[TaskDelays], *, forked: frozenset[int] | None = None
    ) -> JobSample:
        """Return what the job used since the last look.

        `ended`: threads of its vanished processes, as the kernel reported them. `forked`: processes
        of the node that may have started others since; None for any.
        """
        first = not self._began_ns
        self._follow(None if first else forked)
        before = self._readings
        now = self._read()
        if first:
            self._began_ns = self._last_ns = now_ns
            before = now
        else:
            if now.keys() != before.keys():
                before = {**before, **self._older(before, now)}
        last = Used()
        known = bool(now or ended)
        self._ended_unseen |= not known
        last.spent.wall_ns = now_ns - self._last_ns if known else 0
        last.moved = self._bytes(before, now, first)
        # What is brought back is read: memory.stat is long and slow to make.
        look_at_memory = first or last.moved.storage_read or not self._refaults_seen
        refaults = self._memory.refault_bytes(now.keys()) if look_at_memory else None
        group: GroupUse | None = None
        if first or self._pressure or last.moved.storage_read or last.moved.storage_written:
            group = self._groups.use(now.keys(), pressure=self._pressure)
        if group is not None:
            self._group_total = (self._group_total or GroupUse()) + group
        if not first and known:
            if len(now) != 1 or ended or not self._alone(last, before, now):
                self._add_times(last, before, now, ended)
            if refaults is not None:
                self._refaults_seen = True
                last.blame_memory(refaults)
        self._readings, self._last_ns = now, now_ns
        total = self._total = self._total.plus(last)
        if self.states:
            self.states.clear()
        self.running_samples = 0
        by_kernel, readings = self._by_kernel, [*now.values()]
        return JobSample(
            key=self.found.key,
            name=self.found.name,
            processes=len(now),
            threads=sum([reading.threads for reading in readings]),
            ended=not now,
            last=last.by_kernel() if by_kernel else last,
            total=total.by_kernel() if by_kernel else total,
            began_s=self._began_ns / 1e9,
            sources=self._sources(readings),
            lacks=self._lacks(readings),
            group_last=group,
            group_total=self._group_total,
            pids=tuple(now),
            io_readable=False not in {reading.io_readable for reading in readings},
        )

    def _read(self) -> dict[int, ProcessReading]:
        found: dict[int, ProcessReading] = {}
        for pid, counters in [*self.processes.items()]:
            try:
                found[pid] = counters.read(self._taskstats, self.delays and not self._misplaced)
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

    def _alone(
        self, last: Used, before: dict[int, ProcessReading], now: dict[int, ProcessReading]
    ) -> bool:
        """Do the same as `_add_times` for a job that is one process, cheaper.

        Return False where there is more to it: a new process, or waits that the kernel counts.
        """
        ((pid, reading),) = now.items()
        earlier = before.get(pid)
        if earlier is None or len(before) != 1 or reading.wait_block_ns:
            return False
        wall_ns, run_ns, wait_ns = last.spent.wall_ns, 0, 0
        if reading is not earlier:
            run_ns = max(0, reading.run_ns - earlier.run_ns, _ticks_ns(reading, earlier))
            run_ns += (reading.ended_ticks - earlier.ended_ticks) * NS_PER_TICK
            wait_ns = max(0, reading.wait_cpu_ns - earlier.wait_cpu_ns)
            user = reading.user_ticks - earlier.user_ticks
            ticks = user + reading.system_ticks - earlier.system_ticks
            last.user_s = run_ns * (user / ticks if ticks else 1.0) / 1e9
            last.system_s = run_ns / 1e9 - last.user_s
        lived_ns = max(wall_ns * reading.threads, run_ns + wait_ns)
        self._share_out(last, Times(run_ns, wait_ns), 0, lived_ns)
        return True

    def _share_out(self, last: Used, spent: Times, memory_ns: int, lived_ns: int) -> None:
        """Share out the time asleep by samples."""
        waits = self._estimate.waits(spent, memory_ns, lived_ns, self.states)
        last.spent.run_ns, last.spent.wait_cpu_ns = spent.run_ns, spent.wait_cpu_ns
        last.spent.waits_ns, last.spent.variance_ns2 = waits.sampled, waits.variance_ns2
        last.spent.yielding_ns = waits.yielding
        last.counted_ns = waits.counted
        last.samples = sum(self.states.values()) + self.running_samples

    def _add_times(
        self,
        last: Used,
        before: dict[int, ProcessReading],
        now: dict[int, ProcessReading],
        ended: list[TaskDelays],
    ) -> None:
        wall_ns = last.spent.wall_ns
        parts = of_processes(
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
        if self.delays and not self._misplaced:
            memory_ns = sum(
                max(
                    0, reading.wait_memory_ns - (before[pid].wait_memory_ns if pid in before else 0)
                )
                for pid, reading in now.items()
            )
            self._kernel_counts |= any(reading.wait_block_ns > 0 for reading in now.values())
        lived_ns = max(lived_ns, spent.run_ns + spent.wait_cpu_ns)
        self._share_out(last, spent, memory_ns, lived_ns)
        user, system = _split(before, now)
        share = user / (user + system) if user + system else 1.0
        last.user_s = share * spent.run_ns / 1e9
        last.system_s = (1 - share) * spent.run_ns / 1e9

    def _ended_ns(self, before: dict[int, ProcessReading], now: dict[int, ProcessReading]) -> int:
        """Return CPU time of children that ended since the last look, from their parents."""
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
        if len(now) == 1 and not first and now.keys() == before.keys() == self._readings.keys():
            ((pid, reading),) = now.items()  # the usual job, cheaper
            earlier = before[pid]
            if reading is earlier:
                return NOTHING
            grown = reading.moved - earlier.moved
            self._moved = self._moved + grown
            return grown
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
        counted = self._kernel_counts and not self._misplaced
        return counted and self._believed and self._estimate.consistent

    def _sources(self, readings: list[ProcessReading]) -> tuple[str, ...]:
        """Return what the numbers were read from. Made anew only when it changes."""
        group = self._group_total
        seen = (
            self._taskstats is not None and True in {each.ended_counted for each in readings},
            self._by_kernel,
            True in {each.io_readable for each in readings},
            self._refaults_seen,
            group.sources if group is not None else (),
        )
        if seen != self._sources_of:
            self._sources_of, self._sources_text = seen, _sources(*seen)
        return self._sources_text

    def _lacks(self, readings: list[ProcessReading]) -> tuple[str, ...]:
        found: list[str] = []
        if self.denied:
            found.append("devices and mounts of waits (/proc/PID/syscall): owner or root only")
        if False in {reading.io_readable for reading in readings}:
            found.append("bytes (/proc/PID/io): owner or root only")
        if self._ended_unseen:
            found.append("the time between the last look and the end (taskstats): root only")
        return tuple(found)

    def close(self) -> None:
        """Close all files."""
        for counters in self.processes.values():
            counters.close()
        self.processes.clear()
        self._memory.close()
        self._in_groups.close()
        self._groups.close()


def _sources(
    threads: bool, by_kernel: bool, io_readable: bool, refaults: bool, group: tuple[str, ...]
) -> tuple[str, ...]:
    found = ["CPU and run queue: " + ("taskstats" if threads else "/proc/PID/schedstat")]
    if by_kernel:
        delays = "taskstats" if threads else "/proc/PID/stat (10 ms ticks)"
        found.append(f"storage waits: delay accounting of {delays}, places from thread states")
    else:
        found.append("storage waits: samples of thread states")
    if io_readable:
        found.append("bytes: /proc/PID/io")
    if refaults:
        found.append("memory: refaults of the control group")
    if group:
        found.append("control group: " + ", ".join(group))
    return tuple(found)


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
