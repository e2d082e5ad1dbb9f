"""Base layer: what used the CPUs in a period: this run, kernel threads, other programs, hypervisor.

It compares two snapshots of /proc: the CPU counters, and every process (`process_scan.py`).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.system.accounting import (
    NS_PER_TICK,
    CounterFile,
    pressure_totals_us,
)
from headrace.system.cgroups import cpu_quota, throttled_s
from headrace.system.identity import is_alive
from headrace.system.journal import Journal
from headrace.system.load_meter import LoadMeter
from headrace.system.process_scan import (
    Key,
    ProcessUse,
    family_of,
    moved_since,
    parent_of,
    read_processes,
    spent_ns,
)
from headrace.system.program_names import program_name


@dataclass(frozen=True)
class CpuTimes:
    """Seconds since boot by state, summed over some CPUs."""

    busy_s: float
    """Tasks and interrupts, without steal."""
    interrupts_s: float
    idle_s: float
    """Idle, including idle while a task waited for I/O."""
    steal_s: float
    """The hypervisor ran something else."""


@dataclass(frozen=True)
class Snapshot:
    """CPU counters and processes at one moment."""

    time_s: float
    """Monotonic clock."""
    times: CpuTimes
    """Before the processes were read."""
    processes: Mapping[Key, ProcessUse]
    scanned: CpuTimes
    """Once they had been read: on a busy machine that is up to a second later."""
    pressure_us: int | None
    """Time in which some task waited for a CPU (PSI); None when the kernel does not count it."""
    throttled_s: float
    """Time for which the quota of this process's control group kept it off its CPUs."""


@dataclass(frozen=True)
class Program:
    """The processes of one name."""

    name: str
    processes: int
    cpu_s: float
    read_bytes: int = 0
    """Bytes read from any device, as far as this user may see."""
    written_bytes: int = 0

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written."""
        return self.read_bytes + self.written_bytes


@dataclass(frozen=True)
class MachineUse:
    """Use of some CPUs between two snapshots, in CPU seconds."""

    window_s: float
    cpus: float
    """Number of usable CPUs: those of the set, or fewer by the control group's quota."""
    own_s: float
    """This process, its jobs, and the run's servers and emulated drives."""
    kernel_s: float
    """Kernel threads and interrupts."""
    foreign_s: float
    """Everything else, including programs without a known name; excluding steal."""
    steal_s: float
    idle_s: float
    served_wait_s: float
    """Time in which kernel threads, servers and emulated drives were runnable but had no CPU.

    Excludes jobs, which have ledgers of their own.
    """
    throttled_s: float
    programs: tuple[Program, ...]
    """Foreign programs, by descending CPU time."""
    pressure: float | None
    """Fraction of the time in which some task of the machine waited for a CPU."""

    @property
    def capacity_s(self) -> float:
        """Available CPU seconds."""
        return self.cpus * self.window_s

    @property
    def foreign_written_bytes(self) -> int:
        """Bytes that foreign programs wrote to any device, as far as this user may see."""
        return sum(program.written_bytes for program in self.programs)

    @property
    def movers(self) -> tuple[Program, ...]:
        """Foreign programs with device I/O, by descending bytes."""
        found = [program for program in self.programs if program.moved_bytes]
        return tuple(sorted(found, key=lambda program: -program.moved_bytes))


@dataclass(frozen=True)
class Own:
    """The processes that belong to a run, besides this process itself."""

    jobs: frozenset[int] = frozenset()
    """Processes that count with all their descendants: the fork server with the jobs."""
    servers: frozenset[int] = frozenset()
    """Likewise, for servers and emulated drives."""
    marks: frozenset[str] = frozenset()
    """Values of the environment variable `processes.MARK` in processes that the run started."""
    pids: frozenset[int] = frozenset()
    """Other processes, such as an emulated drive that was attached before."""
    mark_name: str = field(default="HEADRACE_PROCESS", repr=False)

    def with_node_processes(self) -> Own:
        """Add the node processes that started the jobs on this kernel, each with what carries its
        messages, such as a worker of Dask."""
        nodes = {parent_of(pid) for pid in self.jobs} - {0, 1, os.getpid()}
        carriers = {parent_of(pid) for pid in nodes} - {0, 1}
        return replace(self, pids=self.pids | nodes | carriers)

    def has(self, pid: int) -> bool:
        """Return whether a process is one of them, as far as this user may see."""
        if pid in self.pids:
            return True
        if not self.marks:
            return False
        with contextlib.suppress(OSError):
            prefix = f"{self.mark_name}=".encode()
            for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                if entry.startswith(prefix):
                    return entry[len(prefix) :].decode(errors="replace") in self.marks
        return False


def snapshot(cpus: Iterable[int]) -> Snapshot:
    """Read the counters of these CPUs and all visible processes: about 20 us per process."""
    counted = frozenset(cpus)
    pressure_us = None
    with CounterFile("/proc/stat", 1 << 20) as file:
        times, time_s = parse_times(file.read(), counted), time.monotonic()
        with contextlib.suppress(OSError), CounterFile("/proc/pressure/cpu", 256) as pressure:
            pressure_us = pressure_totals_us(pressure.read())[0]
        processes = read_processes()
        scanned = parse_times(file.read(), counted)
    return Snapshot(time_s, times, processes, scanned, pressure_us, throttled_s())


def parse_times(text: bytes, cpus: frozenset[int]) -> CpuTimes:
    """Sum the lines of some CPUs in /proc/stat."""
    busy = interrupts = idle = steal = 0
    for line in text.splitlines():
        if not line.startswith(b"cpu") or not line[3:4].isdigit():
            continue
        name, *ticks = line.split(maxsplit=9)
        if int(name[3:]) in cpus:
            # user nice system idle iowait irq softirq steal; guest time is included in user.
            user, nice, system, sleeping, waiting, irq, softirq, stolen = map(int, ticks[:8])
            busy += user + nice + system + irq + softirq
            interrupts += irq + softirq
            idle += sleeping + waiting
            steal += stolen
    return CpuTimes(*(each * NS_PER_TICK / 1e9 for each in (busy, interrupts, idle, steal)))


def usable_cpus() -> frozenset[int]:
    """Return the CPUs that this process and its children may run on."""
    return frozenset(os.sched_getaffinity(0))


UNSEEN = "processes that ended or cannot be seen"
"""Name of CPU time that belongs to no known process."""
_UNSEEN_S = 0.2
_UNSEEN_SHARE = 0.1
"""Unattributed CPU time counts as foreign only above both bounds: clock ticks are coarse."""


class LoadWatch:
    """Measures the use of some CPUs from its creation to `finish`."""

    def __init__(self, cpus: frozenset[int], own: Own) -> None:
        self._cpus = cpus
        self._before = snapshot(cpus)
        self._meter = LoadMeter(cpus, own.jobs | own.servers, own.pids)

    def others_now(self) -> float:
        """Return how many of the CPUs other programs used since the last call: a lower bound."""
        return self._meter.others()

    def finish(self, own: Own) -> MachineUse:
        """Return the use since creation. Processes of `own` must still exist."""
        return use_between(self._before, snapshot(self._cpus), self._cpus, own)


def use_between(before: Snapshot, after: Snapshot, cpus: frozenset[int], own: Own) -> MachineUse:
    """Attribute the use of `cpus` between two snapshots. Processes of `own` must still exist."""
    window_s = max(after.time_s - before.time_s, 1e-9)
    count = min(float(len(cpus)), cpu_quota() or float("inf"))
    idle_s = after.times.idle_s - before.times.idle_s
    steal_s = after.times.steal_s - before.times.steal_s
    busy_s = after.times.busy_s - before.times.busy_s
    sums = _told_apart(before, after, cpus, own)
    kernel_s = sums.kernel_s + after.times.interrupts_s - before.times.interrupts_s
    seen_s = sum(each.cpu_s for each in sums.foreign)
    # Unattributed time: ended orphans, and processes outside a container. It is what the CPUs did
    # between the two scans, for which every process was read on both sides: a scan that had to wait
    # for a CPU would otherwise turn what others did meanwhile into foreign use. Below the bounds it
    # is tick rounding and processes that ended just now.
    between_s = after.times.busy_s - before.scanned.busy_s
    unseen_s = between_s - sums.own_s - kernel_s - seen_s
    if unseen_s <= max(_UNSEEN_S, _UNSEEN_SHARE * count * window_s):
        unseen_s = 0.0
    # Processes may also have run on other CPUs. In a short window `busy_s` misses use between clock
    # ticks.
    most_s = max(busy_s, len(cpus) * window_s - idle_s - steal_s, 0.0)
    return MachineUse(
        window_s=window_s,
        cpus=count,
        own_s=sums.own_s,
        kernel_s=kernel_s,
        foreign_s=min(seen_s, most_s) + unseen_s,
        steal_s=steal_s,
        idle_s=idle_s,
        served_wait_s=sums.served_wait_s,
        throttled_s=max(0.0, after.throttled_s - before.throttled_s),
        programs=_programs(sums.foreign, unseen_s),
        pressure=_share(before.pressure_us, after.pressure_us, window_s),
    )


def started_processes(journal: Journal) -> Own:
    """Return this process and those that it started: servers and emulated drives."""
    started = [entry.args for entry in journal.open_entries if entry.action == "end_process"]
    alive = {
        int(args["pid"])
        for args in started
        if "pid" in args and is_alive(args["pid"], args["start_ticks"])
    }
    marks = {str(args["mark"]) for args in started if "mark" in args}
    return Own(servers=frozenset(alive), marks=frozenset(marks), pids=frozenset({os.getpid()}))


@dataclass
class _Sums:
    """CPU seconds by owner."""

    own_s: float = 0.0
    kernel_s: float = 0.0
    served_wait_s: float = 0.0
    foreign: list[Program] = field(default_factory=list[Program])


def _told_apart(before: Snapshot, after: Snapshot, cpus: frozenset[int], own: Own) -> _Sums:
    window_s = after.time_s - before.time_s
    jobs = family_of(own.jobs | {os.getpid()}, before.processes, after.processes, alone=os.getpid())
    servers = family_of(own.servers, before.processes, after.processes)
    sums = _Sums()
    moved_by = moved_since(before.processes, after.processes)
    for key, used_ns in spent_ns(
        before.processes, after.processes, os.cpu_count() or 1, window_s
    ).items():
        process, first = after.processes[key], before.processes.get(key)
        moved = moved_by[key]
        if process.kernel:
            sums.kernel_s += used_ns / 1e9
        elif key in jobs:
            sums.own_s += used_ns / 1e9
            continue
        elif not used_ns and not moved.read_bytes + moved.write_bytes:
            continue
        elif key in servers or own.has(key[0]):
            sums.own_s += used_ns / 1e9
        else:
            name = program_name(key[0], process.name)
            used_s = used_ns / 1e9 if _may_run_on(key[0], cpus) else 0.0
            sums.foreign.append(Program(name, 1, used_s, moved.read_bytes, moved.write_bytes))
            continue
        if first is not None:
            sums.served_wait_s += max(0, process.wait_ns - first.wait_ns) / 1e9
    return sums


def _may_run_on(pid: int, cpus: frozenset[int]) -> bool:
    try:
        return bool(os.sched_getaffinity(pid) & cpus)
    except OSError:  # it has ended, or the query is not permitted
        return True


def _programs(processes: Iterable[Program], unseen_s: float) -> tuple[Program, ...]:
    """Merge the processes of one name."""
    sums: dict[str, Program] = {}
    for each in processes:
        sums[each.name] = _sum(sums.get(each.name, Program(each.name, 0, 0.0)), each)
    if unseen_s > 0:
        sums[UNSEEN] = Program(UNSEEN, 0, unseen_s)
    return tuple(sorted(sums.values(), key=lambda program: -program.cpu_s))


def combined_use(uses: Sequence[MachineUse]) -> MachineUse:
    """Return the use of several machines together: sums; pressure is that of the worst."""
    programs: dict[str, Program] = {}
    for each in (program for use in uses for program in use.programs):
        so_far = programs.get(each.name, Program(each.name, 0, 0.0))
        programs[each.name] = _sum(so_far, each)
    pressures = [use.pressure for use in uses if use.pressure is not None]
    return MachineUse(
        # Of one length but for the time of the calls, so that sums of CPU seconds are comparable.
        window_s=max(use.window_s for use in uses),
        cpus=sum(use.cpus for use in uses),
        own_s=sum(use.own_s for use in uses),
        kernel_s=sum(use.kernel_s for use in uses),
        foreign_s=sum(use.foreign_s for use in uses),
        steal_s=sum(use.steal_s for use in uses),
        idle_s=sum(use.idle_s for use in uses),
        served_wait_s=sum(use.served_wait_s for use in uses),
        throttled_s=sum(use.throttled_s for use in uses),
        programs=tuple(sorted(programs.values(), key=lambda program: -program.cpu_s)),
        pressure=max(pressures, default=None),
    )


def _sum(one: Program, other: Program) -> Program:
    return Program(
        one.name,
        one.processes + other.processes,
        one.cpu_s + other.cpu_s,
        one.read_bytes + other.read_bytes,
        one.written_bytes + other.written_bytes,
    )


def _share(before_us: int | None, after_us: int | None, window_s: float) -> float | None:
    if before_us is None or after_us is None:
        return None
    return min(1.0, (after_us - before_us) / 1e6 / window_s)
