"""Watches a program while it runs: its ledger, what its threads do, memory pressure."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from typing_extensions import override

from headrace.probes.family_ledger import FamilyMeter
from headrace.probes.ledger import LedgerRow
from headrace.system.accounting import CounterFile, pressure_totals_us, thread_count
from headrace.verdict.connections import ConnectionLooks
from headrace.verdict.doing import Doing, connections, doing, tree
from headrace.verdict.observation import ConnectionUse
from headrace.watching.estimate import Together
from headrace.watching.group_memory import LimitedMemory, limited_memory
from headrace.watching.together import SeenThread, ThreadCpu, TogetherLooks

_SAMPLE_S = 0.02
_SHARE_OF_A_CORE = 0.01
"""So much of a core's time do samples take at most."""
_FIRST = 50
_FIRST_SHARE_OF_A_CORE = 0.05
"""The same for the first ones: a program of a few seconds with many threads needs enough, too."""
_CONNECTIONS_S = 0.1
_COMPARED_S = 0.5
"""Time between two looks at the CPU time of threads: of those that end meanwhile none is known."""
_AVAILABLE = 0.1
"""With more of its memory available the machine is not short of it (assumption)."""


class TreeSampler:
    """Samples what a process and its descendants do, from `__enter__` to `__exit__`."""

    def __init__(self, pid: int) -> None:
        self.samples: Counter[Doing] = Counter()
        self.busy: Counter[tuple[int, int]] = Counter()
        """Samples by the number of threads that ran or waited for a CPU, and for storage."""
        self.together = Together()
        """How the threads shared the moments of these samples."""
        self.connections: set[str] = set()
        self.threads = 1
        """The most at a look."""
        self.memory_stall_s = 0.0
        self.swapped_in = False
        self.memory = LimitedMemory(0, 0)
        """Of the control group of its youngest process; the most pages of files that it held."""
        self._pid = pid
        self._thread_cpu = ThreadCpu()
        cpus = len(os.sched_getaffinity(0))
        self._at_once = TogetherLooks(cpus, self._thread_cpu.recent_ns)
        self._known = frozenset[int]()
        self._compare_due_s = 0.0
        self.connection_use: ConnectionUse | None = None
        self._looks = ConnectionLooks()
        self._connections_due_s = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="headrace-why", daemon=True)
        self._before = _memory()
        self._available = 1.0
        """The least part of the machine's memory that was available."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        self.together = self._at_once.settle()
        self.connection_use = self._looks.use(2 * _CONNECTIONS_S)
        stalled_s, swapped = _memory()
        self.swapped_in = swapped > self._before[1]
        # The counter is the machine's: programs that others limit stall in it, too.
        if self.swapped_in or self.memory.limit_bytes or self._available < _AVAILABLE:
            self.memory_stall_s = stalled_s - self._before[0]

    def _sample(self) -> None:
        pause_s = _SAMPLE_S
        while not self._stop.wait(pause_s):
            taken_s = self._look()
            few = sum(self.samples.values()) < _FIRST
            share = _FIRST_SHARE_OF_A_CORE if few else _SHARE_OF_A_CORE
            pause_s = max(_SAMPLE_S, taken_s / share)

    def _look(self) -> float:
        """Add one sample; return the CPU time that it took."""
        began_s = time.thread_time()
        pids = tree(self._pid)
        look = doing(pids)
        if look.what is not None:
            self.samples[look.what] += 1
            self.busy[look.running, look.on_storage] += 1
            self._compare(look.threads)
        if time.monotonic() >= self._connections_due_s:
            self.threads = max(self.threads, sum(map(thread_count, pids)))
            self._connections_due_s = time.monotonic() + _CONNECTIONS_S
            self.connections |= set(connections(pids))
            self._looks.look(pids)
            self._available = min(self._available, _available())
            with contextlib.suppress(OSError, ValueError):
                limit_bytes, cache_bytes = limited_memory(pids[-1])
                # A process that has just ended is in no group any more.
                if limit_bytes:
                    cache_bytes = max(cache_bytes, self.memory.cache_bytes)
                    self.memory = LimitedMemory(limit_bytes, cache_bytes)
        return time.thread_time() - began_s

    def _compare(self, threads: Sequence[SeenThread]) -> None:
        """Note how the threads of a look share its moment."""
        self._at_once.add(threads)
        now = frozenset(each.thread for each in threads)
        if time.monotonic() >= self._compare_due_s:
            self._at_once.settle_mixed()
            self._compare_due_s = time.monotonic() + _COMPARED_S
            self._known = frozenset()
        if not now <= self._known:
            self._known |= now  # those that have ended are still to be compared
            self._thread_cpu.begin(self._known)


class ProgramWatch(TreeSampler):
    """Measures the ledger of a process and its descendants, besides."""

    def __init__(self, pid: int) -> None:
        super().__init__(pid)
        self.row: LedgerRow | None = None
        self._meter = FamilyMeter(pid, network=False)

    @override
    def __enter__(self) -> Self:
        self._meter.begin()
        return super().__enter__()

    @override
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        self.row = self._meter.end()


def _memory() -> tuple[float, int]:
    """Return the time in which a task of the machine waited for memory, and pages swapped in."""
    stalled_s, swapped = 0.0, 0
    with contextlib.suppress(OSError), CounterFile("/proc/pressure/memory", 256) as file:
        stalled_s = pressure_totals_us(file.read())[0] * 1e-6
    with contextlib.suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("pswpin "):
                swapped = int(line.split()[1])
    return stalled_s, swapped


def _available() -> float:
    """Return the part of the machine's memory that is free or can be freed; 1 if not known."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        with CounterFile("/proc/meminfo", 256) as file:
            rows = dict(line.split()[:2] for line in file.read().splitlines()[:3])
        return int(rows[b"MemAvailable:"]) / int(rows[b"MemTotal:"])
    return 1.0
