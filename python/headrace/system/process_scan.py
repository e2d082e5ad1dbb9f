"""Base layer: CPU time, waits and writes of every process, from /proc (proc(5)), unprivileged.

Time on a CPU and on a run queue comes from `schedstat` in ns: clock ticks (10 ms), which psutil
reads too, are too coarse for a trial of 50 ms. The time of processes that ended between two scans
is in `cutime` of the process that waited for them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from headrace.system.accounting import NOTHING_MOVED, NS_PER_TICK, IoCounts, io_counts, read_once

_KERNEL_THREAD = 0x00200000
"""PF_KTHREAD of include/linux/sched.h, in the field `flags` of /proc/PID/stat."""
_THREADS_MOST = 256
"""Processes with more threads are read in clock ticks: one file per thread would take too long."""
_PASSES_MOST = 5
"""Readings of all processes for one scan, on a machine where processes keep ending."""

Key = tuple[int, int]
"""Process id and start time in ticks: unique within one boot."""


class ProcessUse(msgspec.Struct, frozen=True):
    """Resources that one process has used so far."""

    key: Key
    parent: int
    name: str
    """The kernel's name of it, at most 15 characters."""
    kernel: bool
    """Whether it is a kernel thread."""
    run_ns: int
    """On a CPU, all living threads."""
    wait_ns: int
    """Runnable but without a CPU, all living threads."""
    ticks_ns: int
    """On a CPU, including ended threads, rounded down to clock ticks."""
    ended_ns: int
    """Time of its ended descendants, as far as they were waited for."""
    io: IoCounts
    """Reads and writes of it and of children it waited for; zeros where this user may not see them.
    """

    @property
    def all_ns(self) -> int:
        """Time of the process and its ended children."""
        return max(self.run_ns, self.ticks_ns) + self.ended_ns


def read_processes() -> dict[Key, ProcessUse]:
    """Return every visible process; those that end meanwhile are left out.

    Their time is then in that of the process that waited for them. If that one had been read
    before, the time would be nowhere, so all are read again, at most `_PASSES_MOST` times in all.
    """
    for _ in range(_PASSES_MOST - 1):
        found, ended = _read_once()
        if not ended:
            return found
    return _read_once()[0]


def _read_once() -> tuple[dict[Key, ProcessUse], bool]:
    """Return every visible process, and whether one ended between the listing and its turn."""
    found: dict[Key, ProcessUse] = {}
    ended = False
    for name in os.listdir("/proc"):  # noqa: PTH208 - one call per trial, over all processes
        if name.isdigit():
            try:
                process = _read_process(name)
            except (OSError, ValueError, IndexError):
                ended = ended or not Path(f"/proc/{name}").exists()
                continue
            found[process.key] = process
    return found, ended


def _read_process(pid: str) -> ProcessUse:
    head, _, rest = read_once(f"/proc/{pid}/stat").rpartition(b")")
    fields = rest.split()  # the first is field 3 of proc(5)
    threads, kernel = int(fields[17]), bool(int(fields[6]) & _KERNEL_THREAD)
    ticks_ns = (int(fields[11]) + int(fields[12])) * NS_PER_TICK
    run_ns, wait_ns = _scheduled_ns(pid, threads) if threads <= _THREADS_MOST else (ticks_ns, 0)
    return ProcessUse(
        key=(int(pid), int(fields[19])),
        parent=int(fields[1]),
        name=head.partition(b"(")[2].decode(errors="replace"),
        kernel=kernel,
        run_ns=run_ns,
        wait_ns=wait_ns,
        ticks_ns=ticks_ns,
        ended_ns=(int(fields[13]) + int(fields[14])) * NS_PER_TICK,
        io=NOTHING_MOVED if kernel else io_counts(int(pid)),
    )


def parent_of(pid: int) -> int:
    """Return the parent of a process; 0 when it has ended or cannot be seen."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(read_once(f"/proc/{pid}/stat").rpartition(b")")[2].split()[1])
    return 0


def _scheduled_ns(pid: str, threads: int) -> tuple[int, int]:
    """Return (running, waiting for a CPU) of the living threads of a process."""
    if threads == 1:
        return _schedstat(f"/proc/{pid}/schedstat")
    run_ns = wait_ns = 0
    for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
        with contextlib.suppress(OSError):
            run, wait = _schedstat(f"/proc/{pid}/task/{thread}/schedstat")
            run_ns += run
            wait_ns += wait
    return run_ns, wait_ns


def _schedstat(path: str) -> tuple[int, int]:
    run, wait = read_once(path, 128).split()[:2]
    return int(run), int(wait)


def spent_ns(
    before: Mapping[Key, ProcessUse], after: Mapping[Key, ProcessUse], cpus: int, window_s: float
) -> dict[Key, int]:
    """Return the time each living process used since `before`, including its ended children."""
    earlier: dict[int, int] = {}
    for pid, process in _ended(before, after):
        earlier[pid] = earlier.get(pid, 0) + process.all_ns
    most_ns = round(cpus * window_s * 1e9)
    found: dict[Key, int] = {}
    for key, process in after.items():
        first = before.get(key)
        if first is None:
            used_ns, ended_ns = max(process.run_ns, process.ticks_ns), process.ended_ns
        else:
            # Ticks include ended threads, but each of their two sums is rounded down.
            ticks_ns = process.ticks_ns - first.ticks_ns - 2 * NS_PER_TICK
            used_ns = max(process.run_ns - first.run_ns, ticks_ns, 0)
            ended_ns = process.ended_ns - first.ended_ns
        # Process 1 also gets the time of orphans, whose age is unknown.
        ended_ns = 0 if key[0] == 1 else max(0, ended_ns - earlier.get(key[0], 0))
        found[key] = min(used_ns + ended_ns, most_ns)
    return found


def moved_since(
    before: Mapping[Key, ProcessUse], after: Mapping[Key, ProcessUse]
) -> dict[Key, IoCounts]:
    """Return what each living process moved since `before`, including its ended children."""
    earlier: dict[int, IoCounts] = {}
    for pid, process in _ended(before, after):
        earlier[pid] = earlier.get(pid, NOTHING_MOVED) + process.io
    found: dict[Key, IoCounts] = {}
    for key, process in after.items():
        first = before.get(key)
        moved = process.io - (first.io if first is not None else NOTHING_MOVED)
        found[key] = moved - earlier.get(key[0], NOTHING_MOVED)
    return found


def _ended(
    before: Mapping[Key, ProcessUse], after: Mapping[Key, ProcessUse]
) -> list[tuple[int, ProcessUse]]:
    """Return the processes that ended in between, each with the id of the process that waited for
    it. That process got their totals, of which the part before `before` must be subtracted."""
    alive = {key[0] for key in after}
    parents = {key[0]: process.parent for key, process in before.items()}
    found: list[tuple[int, ProcessUse]] = []
    for key, process in before.items():
        if key in after:
            continue
        pid = process.parent
        while pid and pid not in alive:
            pid = parents.get(pid, 0)
        found.append((pid, process))
    return found


def family_of(
    roots: frozenset[int], *scans: Mapping[Key, ProcessUse], alone: int | None = None
) -> set[Key]:
    """Return processes and their descendants in several scans, without descendants of `alone`."""
    family: set[Key] = set()
    for scan in scans:
        children: dict[int, list[Key]] = {}
        for key, process in scan.items():
            children.setdefault(process.parent, []).append(key)
        waiting = [key for key in scan if key[0] in roots]
        while waiting:
            key = waiting.pop()
            family.add(key)
            if key[0] != alone:
                waiting.extend(children.get(key[0], ()))
    return family
