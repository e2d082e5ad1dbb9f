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
_RAN_ENOUGH = 50
"""So many threads that had a CPU, besides."""
_SEEN_FEW = 2
"""What CPUs tell counts as so many threads that were seen to have one."""


class SeenThread(NamedTuple):
    """What one thread does at a moment."""

    thread: int
    state: State
    running: bool
    """Whether it runs or could run."""
    has_cpu: bool | None = None
    """Of a thread that runs or could run: whether it runs; None if that is not known."""


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
            if known is None:
                continue
            if run_ns is not None:
                found[thread] = run_ns - known[0] + _FADING * known[1]
                self._known[thread] = run_ns, found[thread]
            elif known[1] > 0:  # it has ended: what it used before
                found[thread] = known[1]
        return found


@dataclass
class _Awake:
    """Looks at threads that ran or could run."""

    looks: int = 0
    ran: float = 0.0
    ran_parts: float = 0.0
    """The sum of their parts of the moments."""
    awake: float = 0.0
    awake_parts: float = 0.0
    """The same of those that ran or could run."""
    at_most: float = 0.0
    at_most_parts: float = 0.0
    """The same if as many ran as there are CPUs."""

    def add(self, awake: int, cpus: int, active: int, ran: int | None) -> None:
        """Add a look. `active`: threads that share the moment; `ran`: how many of those awake had a
        CPU, None if that is not known."""
        at_most = min(awake, cpus)
        ran = at_most if ran is None else min(ran, at_most)
        self.looks += 1
        self.ran += ran
        self.ran_parts += ran / active
        self.awake += awake
        self.awake_parts += awake / active
        self.at_most += at_most
        self.at_most_parts += at_most / active

    def plus(self, other: _Awake) -> _Awake:
        """Return the sum with other looks."""
        return _Awake(
            *(getattr(self, each.name) + getattr(other, each.name) for each in fields(self))
        )

    @property
    def part_of_running(self) -> float:
        """Mean part of a moment of a thread that runs. A few that were seen tell little."""
        at_most = self.at_most_parts / self.at_most if self.at_most else 1.0
        return (self.ran_parts + _SEEN_FEW * at_most) / (self.ran + _SEEN_FEW)

    @property
    def part_of_awake(self) -> float:
        """Mean part of a moment of a thread that runs or could run."""
        return self.awake_parts / self.awake if self.awake else 1.0


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
        self._counting = _Awake(*[ran] * len(fields(_Awake)))

    def add(self, seen: Sequence[SeenThread]) -> None:
        """Add a look at threads, of one moment."""
        self._now.looks += 1
        running = sum(each.running for each in seen)
        waiting = sum(_waits(each) for each in seen)
        self._now.active += bool(running or waiting)
        if running and waiting:
            self._mixed.append(seen)
            if len(self._mixed) >= _KEPT_MOST:
                self.settle_mixed()
            return
        active = running + waiting
        if running:
            self._counting.add(running, self._cpus, active, _ran(seen))
        for each in seen:
            if not each.running:
                self._now.add(each.state, 1 / active if _waits(each) else 1.0)

    def settle(self) -> Together:
        """Return what the looks since the last call show."""
        self.settle_mixed()
        found, self._now = self._now, Together()
        both = self._before.plus(self._counting)
        found.part_of_running, found.part_of_awake = both.part_of_running, both.part_of_awake
        if self._counting.looks >= _MOMENTS_ENOUGH and self._counting.ran >= _RAN_ENOUGH:
            self._before, self._counting = self._counting, _Awake()
        return found

    def settle_mixed(self) -> None:
        """Compare the threads of looks until now by their CPU time, before they end."""
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
        self._counting.add(running, self._cpus, active, _ran(seen))
        for each in seen:
            if not each.running:
                part = 1.0 if not _waits(each) else 1 / active if each.thread in working else 0.0
                self._now.add(each.state, part)
        self._now.beside += 1
        self._now.beside_counted += len(working) / active


def _ran(seen: Sequence[SeenThread]) -> int | None:
    """Return how many threads of a look had a CPU; None if that is not known."""
    awake = [each.has_cpu for each in seen if each.running]
    return None if None in awake else awake.count(True)


def _waits(seen: SeenThread) -> bool:
    wait = seen.state.wait
    return not seen.running and wait is not None and wait.kind not in YIELDING


def _run_ns(thread: int) -> int | None:
    """Return the CPU time of a thread since it began; None when it has ended."""
    with contextlib.suppress(OSError), CounterFile(f"/proc/{thread}/schedstat", 96) as file:
        return int(file.read().split(maxsplit=1)[0])
    return None
