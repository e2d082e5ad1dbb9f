"""The counters of one job: of all its processes, those that it starts and those that end, too."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence

from headrace.probes.ledger import of_processes
from headrace.system.accounting import NS_PER_TICK, Times, possible
from headrace.system.taskstats import TaskDelays, TaskstatsSocket
from headrace.watching.awake import AwakeSamples
from headrace.watching.estimate import WaitEstimate, shared_out
from headrace.watching.finders import FoundJob
from headrace.watching.group_memory import GroupMemory
from headrace.watching.group_places import GroupProcesses
from headrace.watching.ledger import State
from headrace.watching.own_groups import GroupUse, OwnGroups
from headrace.watching.process import (
    NOTHING,
    Moved,
    ProcessReader,
    ProcessReading,
    start_ticks,
    timed,
)
from headrace.watching.sources import lacks, sources
from headrace.watching.together import SeenThread, ThreadCpu, TogetherLooks
from headrace.watching.used import JobSample, Used

_NONE: frozenset[int] = frozenset()
_ROUNDED = 2
"""Clock ticks by which the CPU time of two readings may be too long: each sum is rounded down."""
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
        self.processes: dict[int, ProcessReader] = {}
        self.states: Counter[State] = Counter()
        """Samples of sleeping threads since the last look."""
        self._looks = 0
        """Samples since the last look: moments at which its threads were seen."""
        self._awake = AwakeSamples()
        self._thread_cpu = ThreadCpu()
        self._together: TogetherLooks | None = None
        """None while only one thread was seen at a moment."""
        self.still = True
        """Whether no thread ran before the last look: they may be stopped."""
        self._taskstats = taskstats
        self.delays = False
        """Whether the kernel counts block I/O waits of processes that start now."""
        self._readings: dict[int, ProcessReading] = {}
        self._gone = Moved()
        """Bytes of processes that ended and whose parents do not have them."""
        self._moved = Moved()
        self._estimate = WaitEstimate()
        self._born_ns: dict[int, int] = {}
        """When the processes began that started since the last look, on the monotonic clock."""
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
        self._seen: tuple[bool, bool, bool, bool, tuple[str, ...], bool, bool, bool] | None = None
        self._sources: tuple[str, ...] = ()
        self._lacks: tuple[str, ...] = ()
        self._io_readable = True

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
                reader = ProcessReader(pid)
            except OSError:
                continue
            self.processes[pid] = reader
            new.append(pid)
            if self.found.follow:
                waiting.extend(reader.children())
        return new

    def follow(self, forked: frozenset[int] | None) -> None:
        """Find the children of its processes, and processes of its control groups.

        `forked`: processes of the node that may have started others since the last look; None for
        any.
        """
        groups = self.found.groups
        if not self._began_ns:
            forked = None
        elif not groups and forked is not None and forked.isdisjoint(self.processes):
            return
        found: list[int] = []
        if self.found.follow and not groups:
            mine = self.processes.keys() if forked is None else self.processes.keys() & forked
            for pid in mine:
                found.extend(self.processes[pid].children())
        if groups and (forked != _NONE or time.monotonic() - self._groups_s > _GROUPS_S):
            self._groups_s = time.monotonic()
            for group in groups:
                found.extend(self._in_groups.processes(group))
        if found:
            self.join(found)

    def list_threads(self) -> None:
        """Note the threads that it has now, before they are seen."""
        threads = [thread for reader in self.processes.values() for thread in reader.threads]
        if self._together is not None or len(threads) > 1:
            self._look_together()
            self._thread_cpu.begin(threads)

    def add_look(self, seen: Sequence[SeenThread], moment: int) -> None:
        """Count what threads did at one moment. `moment`: a number, equal for looks taken at once
        at several jobs."""
        if len(seen) > 1:  # perhaps with a child that no look at counters has found
            self._look_together()
        for each in seen:
            self._awake.add(moment, awake=each.running)
            if not each.running:
                self.states[each.state] += 1
        self._looks += 1
        if self._together is not None:
            self._together.add(seen)

    @property
    def has_threads(self) -> bool:
        """Whether several threads were seen at one moment."""
        return self._together is not None

    def _look_together(self) -> None:
        """Begin to share the wall time among threads, if that is not done yet."""
        if self._together is None:
            cpus, recent_ns = _cpus_of(self.processes), self._thread_cpu.recent_ns
            self._together = TogetherLooks(cpus, recent_ns, self._looks, self.states)

    # -- looks --

    def look(
        self, now_ns: int, readings: Sequence[ProcessReading | None], ended: list[TaskDelays]
    ) -> JobSample:
        """Return what the job used since the last look.

        `readings`: of `processes` in their order, as read at `now_ns`. `ended`: threads of its
        vanished processes, as the kernel reported them.
        """
        first = not self._began_ns
        now, now_ns = self._take(readings, now_ns)
        before = self._readings
        pair = None if first else _pair(before, now)
        if first:
            self._began_ns = self._last_ns = now_ns
            before = now
        elif pair is None and now.keys() != before.keys():
            before = {**before, **self._older(before, now)}
        last = Used()
        known = bool(now or ended)
        self._ended_unseen |= not known
        last.spent.wall_ns = now_ns - self._last_ns if known else 0
        last.moved = self._bytes(before, now, first) if pair is None else self._grown(*pair)
        refaults, group = self._of_groups(now, last, first)
        if not first and known:
            if ended or pair is None or not self._alone(last, *pair):
                self._add_times(last, before, now, ended)
            if refaults is not None:
                self._refaults_seen = True
                last.blame_memory(refaults)
        self._readings, self._last_ns = now, now_ns
        self.still = not last.spent.cpu_ns
        return self._sample(last, group)

    def _take(
        self, readings: Sequence[ProcessReading | None], now_ns: int
    ) -> tuple[dict[int, ProcessReading], int]:
        """Return the readings of living processes, and when their times were read."""
        if len(readings) == 1 and (only := readings[0]) is not None and only.timed:
            return {next(iter(self.processes)): only}, now_ns  # the usual job
        if self._taskstats is not None and not all(
            reading is None or reading.timed for reading in readings
        ):
            now_ns = time.monotonic_ns()
        found: dict[int, ProcessReading] = {}
        for (pid, reader), each in zip([*self.processes.items()], readings, strict=True):
            reading = timed(each, pid, self._taskstats)
            if reading is None:
                reader.close()
                del self.processes[pid]
            else:
                found[pid] = reading
        return found, now_ns

    def _of_groups(
        self, now: dict[int, ProcessReading], last: Used, first: bool
    ) -> tuple[int | None, GroupUse | None]:
        """Return refaults and counts of its control groups since the last look."""
        moved = last.moved
        refaults: int | None = None
        # What is brought back is read: memory.stat is long and slow to make.
        if first or not self._refaults_seen or moved.storage_read:
            refaults = self._memory.refault_bytes(now.keys())
        group: GroupUse | None = None
        if first or self._pressure or moved.storage_read or moved.storage_written:
            group = self._groups.use(now.keys(), pressure=self._pressure)
        if group is not None:
            self._group_total = (self._group_total or GroupUse()) + group
        return refaults, group

    def _sample(self, last: Used, group: GroupUse | None) -> JobSample:
        """Return the look, and begin the next interval."""
        total = self._total = self._total.plus(last)
        if self.states:
            self.states.clear()
        self._looks = 0
        by_kernel, readings = self._by_kernel, self._readings.values()
        self._tell(readings, by_kernel)
        return JobSample(
            key=self.found.key,
            name=self.found.name,
            processes=len(readings),
            threads=sum([reading.threads for reading in readings]),
            ended=not readings,
            last=last.by_kernel() if by_kernel else last,
            total=total.by_kernel() if by_kernel else total,
            began_s=self._began_ns / 1e9,
            sources=self._sources,
            lacks=self._lacks,
            group_last=group,
            group_total=self._group_total,
            pids=tuple(self._readings),
            io_readable=self._io_readable,
        )

    def _older(
        self, before: dict[int, ProcessReading], now: dict[int, ProcessReading]
    ) -> dict[int, ProcessReading]:
        """Return the readings of new processes that ran before the job was watched. Note when the
        others began."""
        offset_ns = _boot_offset_ns()
        began_ticks = (self._began_ns + offset_ns) // NS_PER_TICK
        older: dict[int, ProcessReading] = {}
        self._born_ns.clear()
        for pid in now.keys() - before.keys():
            ticks = start_ticks(pid)
            if ticks is not None and ticks < began_ticks - 1:
                older[pid] = now[pid]
            elif ticks is not None:
                self._born_ns[pid] = ticks * NS_PER_TICK - offset_ns
        return older

    # -- times --

    def _alone(self, last: Used, earlier: ProcessReading, reading: ProcessReading) -> bool:
        """Do the same as `_add_times` for a job that is one process, cheaper.

        Return False where there is more to it: waits that the kernel counts.
        """
        if reading.wait_block_ns:
            return False
        wall_ns, run_ns, wait_ns = last.spent.wall_ns, 0, 0
        if reading is not earlier:
            user = reading.user_ticks - earlier.user_ticks
            ticks = user + reading.system_ticks - earlier.system_ticks
            run_ns = max(0, reading.run_ns - earlier.run_ns, (ticks - _ROUNDED) * NS_PER_TICK)
            run_ns += (reading.ended_ticks - earlier.ended_ticks) * NS_PER_TICK
            wait_ns = max(0, reading.wait_cpu_ns - earlier.wait_cpu_ns)
            last.user_s = run_ns * (user / ticks if ticks else 1.0) / 1e9
            last.system_s = run_ns / 1e9 - last.user_s
        lived_ns = max(wall_ns * reading.threads, run_ns + wait_ns)
        self._share_out(last, Times(run_ns, wait_ns), 0, lived_ns)
        return True

    def _share_out(self, last: Used, spent: Times, memory_ns: int, lived_ns: int) -> None:
        """Share out the time asleep by samples, and the wall time among threads."""
        if self._misplaced:
            spent = self._awake.believed(spent, lived_ns)
        together = self._together.settle() if self._together is not None else None
        waits = self._estimate.waits(spent, memory_ns, lived_ns, self.states, together)
        last.spent = shared_out(last.spent.wall_ns, spent, waits, together)
        last.counted_ns = waits.counted
        last.samples = self._looks

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
            if pid not in before and pid in self._born_ns:
                age_ns = self._last_ns + wall_ns - self._born_ns[pid] + NS_PER_TICK
                lived = min(lived, lived * age_ns // wall_ns) if wall_ns else lived
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
        for pid in before.keys() - now.keys():
            mine = before[pid].moved
            parent = before[pid].parent
            handed_on = parent in now and now[parent].moved.covers(
                mine + before[parent].moved if parent in before else mine
            )
            if not handed_on:
                self._gone = self._gone + mine
        for pid in now.keys() & before.keys() - self._readings.keys():
            self._moved = self._moved + now[pid].moved  # older than the watch
        total = sum((reading.moved for reading in now.values()), self._gone)
        grown = Moved() if first else total - self._moved
        self._moved = total
        return grown

    def _grown(self, earlier: ProcessReading, reading: ProcessReading) -> Moved:
        """Do the same as `_bytes` for a job that is one process."""
        if reading is earlier:
            return NOTHING
        grown = reading.moved - earlier.moved
        self._moved = self._moved + grown
        return grown

    # -- what it was read from --

    @property
    def _by_kernel(self) -> bool:
        """Whether the kernel's count of block I/O waits is used."""
        counted = self._kernel_counts and not self._misplaced
        return counted and self._believed and self._estimate.consistent

    def _tell(self, readings: Iterable[ProcessReading], by_kernel: bool) -> None:
        """Note what the numbers were read from and what is missing. Made anew when it changes."""
        counted = some = False
        every = True
        for reading in readings:
            counted |= reading.ended_counted
            some |= reading.io_readable
            every &= reading.io_readable
        group = self._group_total
        seen = (
            counted,
            by_kernel,
            some,
            self._refaults_seen,
            group.sources if group is not None else (),
            every,
            self.denied,
            self._ended_unseen,
        )
        if seen != self._seen:
            self._seen, self._io_readable = seen, every
            self._sources = sources(*seen[:5])
            self._lacks = lacks(*seen[5:], root=os.geteuid() == 0)

    def close(self) -> None:
        """Close all files."""
        for reader in self.processes.values():
            reader.close()
        self.processes.clear()
        self._memory.close()
        self._in_groups.close()
        self._groups.close()


def _pair(
    before: dict[int, ProcessReading], now: dict[int, ProcessReading]
) -> tuple[ProcessReading, ProcessReading] | None:
    """Return both readings of a job that was and is one process, the usual one; else None."""
    if len(now) != 1 or len(before) != 1:
        return None
    ((pid, reading),) = now.items()
    earlier = before.get(pid)
    return None if earlier is None else (earlier, reading)


def _cpus_of(pids: Iterable[int]) -> int:
    """Return the number of CPUs on which the processes of a job may run."""
    for pid in pids:
        with contextlib.suppress(OSError):
            return len(os.sched_getaffinity(pid))
    return os.cpu_count() or 1


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
    return (ticks - _ROUNDED) * NS_PER_TICK


def _split(before: dict[int, ProcessReading], now: dict[int, ProcessReading]) -> tuple[int, int]:
    """Return user and system time of an interval in ticks."""
    user = system = 0
    for pid, reading in now.items():
        earlier = before.get(pid)
        user += reading.user_ticks - (earlier.user_ticks if earlier else 0)
        system += reading.system_ticks - (earlier.system_ticks if earlier else 0)
    return user, system
