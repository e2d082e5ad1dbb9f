"""How the threads of a job share its wall time, from looks at all of them at one moment.

At each moment the wall time belongs in equal parts to the threads that run, could run, or wait for
storage, memory or a server. Threads that sleep for another reason have no part while others do.
A thread that waits while another one runs that uses five times its CPU time or more has none
either: it only reads ahead, or writes behind, and delays no work that could be seen.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import NamedTuple

from headrace.system.accounting import CounterFile
from headrace.watching.estimate import Together
from headrace.watching.ledger import YIELDING, State

ONLY_READS = 5.0
"""A thread that uses so many times less CPU time than the one that runs only reads ahead, as in
`profiles/prefetching.py`."""
_NONE: Mapping[State, float] = MappingProxyType({})
_KEPT_MOST = 1000
"""Looks whose threads are compared at once."""
_FADING = 0.7
"""What is kept of the CPU time of the intervals before."""
_MOMENTS_ENOUGH = 20
"""So many looks at threads that run tell how many did so at once."""


class SeenThread(NamedTuple):
    """What one thread does at a moment."""

    thread: int
    state: State
    running: bool
    """Whether it runs or could run."""


class ThreadCpu:
    """CPU time of threads, of late."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, float]] = {}
        """The counter of each thread, and its recent CPU time until then."""

    def begin(self, threads: Iterable[int]) -> None:
        """Read the counters of threads that are not known yet, and forget all others."""
        kept: dict[int, tuple[int, float]] = {}
        for thread in threads:
            known = self._known.get(thread)
            if known is None and (run_ns := _run_ns(thread)) is not None:
                known = run_ns, 0.0
            if known is not None:
                kept[thread] = known
        self._known = kept

    def recent_ns(self, threads: Iterable[int]) -> dict[int, float]:
        """Read the counters of threads and return their recent CPU time, where it is known."""
        found: dict[int, float] = {}
        for thread in threads:
            run_ns, known = _run_ns(thread), self._known.get(thread)
            if run_ns is not None and known is not None:
                found[thread] = run_ns - known[0] + _FADING * known[1]
                self._known[thread] = run_ns, found[thread]
        return found


@dataclass
class _Awake:
    """Looks at threads that ran or could run. Of these at most as many ran as there are CPUs."""

    looks: int = 0
    ran: float = 0.0
    ran_parts: float = 0.0
    """The sum of their parts of the moments."""
    queued: float = 0.0
    queued_parts: float = 0.0

    def add(self, awake: int, cpus: int, active: int) -> None:
        """Add a look. `active`: threads that share the moment."""
        ran = min(awake, cpus)
        self.looks += 1
        self.ran += ran
        self.ran_parts += ran / active
        self.queued += awake - ran
        self.queued_parts += (awake - ran) / active

    def plus(self, other: _Awake) -> _Awake:
        """Return the sum with other looks."""
        return _Awake(
            *(getattr(self, each.name) + getattr(other, each.name) for each in fields(self))
        )

    @property
    def part_of_running(self) -> float:
        """Mean part of a moment of a thread that runs."""
        return self.ran_parts / self.ran if self.ran else 1.0

    @property
    def part_of_awake(self) -> float:
        """Mean part of a moment of a thread that runs or could run."""
        awake = self.ran + self.queued
        return (self.ran_parts + self.queued_parts) / awake if awake else 1.0


class TogetherLooks:
    """The looks at the threads of one job since the last interval."""

    def __init__(
        self,
        cpus: int,
        recent_ns: Callable[[Iterable[int]], Mapping[int, float]],
        looks: int = 0,
        states: Mapping[State, float] = _NONE,
    ) -> None:
        """`cpus`: on which it may run. `recent_ns`: returns the recent CPU time of threads, by
        their number. `looks` at one thread were before, which slept in these `states`."""
        self._cpus = cpus
        self._recent_ns = recent_ns
        self._mixed: list[Sequence[SeenThread]] = []
        """Looks at threads that run and threads that wait, until their CPU time is known."""
        self._now = Together(looks, parts=dict(states))
        ran = looks - round(sum(states.values()))
        self._before = _Awake()
        """Of enough looks before."""
        self._counting = _Awake(ran, ran, ran)

    def add(self, seen: Sequence[SeenThread]) -> None:
        """Add a look at threads, of one moment."""
        self._now.looks += 1
        running = sum(each.running for each in seen)
        waiting = sum(_waits(each) for each in seen)
        self._now.active += bool(running or waiting)
        if running and waiting:
            self._mixed.append(seen)
            if len(self._mixed) >= _KEPT_MOST:
                self._settle_mixed()
            return
        active = running + waiting
        if running:
            self._counting.add(running, self._cpus, active)
        for each in seen:
            if not each.running:
                self._now.add(each.state, 1 / active if _waits(each) else 1.0)

    def settle(self) -> Together:
        """Return what the looks since the last call show."""
        self._settle_mixed()
        found, self._now = self._now, Together()
        both = self._before.plus(self._counting)
        found.part_of_running, found.part_of_awake = both.part_of_running, both.part_of_awake
        if self._counting.looks >= _MOMENTS_ENOUGH:
            self._before, self._counting = self._counting, _Awake()
        return found

    def _settle_mixed(self) -> None:
        if not self._mixed:
            return
        cpu_ns = self._recent_ns({each.thread for seen in self._mixed for each in seen})
        for seen in self._mixed:
            self._add_mixed(seen, cpu_ns)
        self._mixed.clear()

    def _add_mixed(self, seen: Sequence[SeenThread], cpu_ns: Mapping[int, float]) -> None:
        busiest_ns = max(cpu_ns.get(each.thread, 0.0) for each in seen if each.running)
        running = sum(each.running for each in seen)
        waiting = [each for each in seen if _waits(each)]
        working = {
            each.thread
            for each in waiting
            if busiest_ns <= 0 or cpu_ns.get(each.thread, busiest_ns) * ONLY_READS > busiest_ns
        }
        active = running + len(working)
        self._counting.add(running, self._cpus, active)
        for each in seen:
            if not each.running:
                part = 1.0 if not _waits(each) else 1 / active if each.thread in working else 0.0
                self._now.add(each.state, part)
        self._now.beside += 1
        self._now.beside_counted += len(working) / active


def _waits(seen: SeenThread) -> bool:
    wait = seen.state.wait
    return not seen.running and wait is not None and wait.kind not in YIELDING


def _run_ns(thread: int) -> int | None:
    """Return the CPU time of a thread since it began; None when it has ended."""
    with contextlib.suppress(OSError), CounterFile(f"/proc/{thread}/schedstat", 96) as file:
        return int(file.read().split(maxsplit=1)[0])
    return None
