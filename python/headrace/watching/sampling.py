"""Samples of the states of threads, of each job as often as of any other.

A wake-up of the watch costs as much as ten samples, so it takes samples of several jobs at once
where there are many.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice

from headrace.system.has_cpu import has_cpu
from headrace.watching.job import JobMeter
from headrace.watching.ledger import State
from headrace.watching.process import ProcessReader
from headrace.watching.states import RUNNING, StateReader
from headrace.watching.together import SeenThread

_WAKE_UPS_PER_S = 2.0
"""With many jobs."""
_THREADS_MOST = 32
"""Threads of a job that are looked at in one sample of it."""
_THREADS_AS_ONE = 4
"""A sample of so many further threads counts as one more."""
_MOST_CHILDREN = 16
"""Children of a process that are looked at in one sample of it."""
_DEEPEST = 5
"""A shell that waits for a shell that waits … for the program that does something."""

Thread = tuple[int, ProcessReader, int]
"""Process, its files, and the thread."""


@dataclass
class _Turns:
    """What the samples of one job take."""

    job: JobMeter
    threads: Iterator[Thread]
    at_once: int
    """Threads that are looked at in one sample."""
    cost: int
    """Samples of one thread that cost as much."""
    credit: float


class ThreadSamples:
    """Takes samples of the threads that were listed last: of a job all threads at one moment."""

    def __init__(self, states: StateReader, per_s: float, chance: random.Random) -> None:
        """`per_s`: samples of all jobs together, of one thread each; fewer of more threads."""
        self._states = states
        self._per_s = per_s
        self._chance = chance
        self.lives_told = False
        """Whether the kernel reports how long each ended process lived, so that the time asleep of
        a job contains that of short-lived children."""
        self._owed = 0.0
        self._moment = 0
        """Number of the wake-up: samples of one are taken at once."""
        self._listed: tuple[list[ProcessReader], list[tuple[int, ...]]] = ([], [])
        """The processes, with the threads of each."""
        self._turns: Iterator[_Turns] = iter(())
        self._at_once = 0
        """What one wake-up can take without a second sample of a job."""

    def list_threads(self, jobs: Iterable[JobMeter]) -> None:
        """List the threads of jobs anew, in another order, where they have changed."""
        jobs = [job for job in jobs if job.processes]
        readers = [reader for job in jobs for reader in job.processes.values()]
        listed = readers, [reader.threads for reader in readers]
        if listed == self._listed:
            return
        self._listed = listed
        turns: list[_Turns] = []
        for job in jobs:
            threads = [
                (pid, reader, thread)
                for pid, reader in job.processes.items()
                for thread in reader.threads
            ]
            if threads:
                job.list_threads()
                self._chance.shuffle(threads)
                at_once = min(len(threads), _THREADS_MOST)
                cost = round(1 + (at_once - 1) / _THREADS_AS_ONE)
                credit = -self._chance.uniform(0, cost)
                turns.append(_Turns(job, cycle(threads), at_once, cost, credit))
        self._chance.shuffle(turns)
        self._turns = cycle(turns)
        self._at_once = len(turns) * min([each.cost for each in turns], default=0)

    @property
    def pause_s(self) -> float:
        """A random time until the next samples: a job with a period of its own is not always met in
        the same state."""
        at_once = min(self._per_s / _WAKE_UPS_PER_S, max(1.0, self._at_once / 2))
        return self._chance.uniform(0.5, 1.5) * at_once / self._per_s

    def take(self, span_s: float) -> None:
        """Take as many samples as the time since the last ones allows."""
        if not self._at_once:
            return
        self._moment += 1
        self._owed += span_s * self._per_s
        number = min(int(self._owed), self._at_once)
        self._owed = min(self._owed - number, 1.0)
        for _ in range(number):
            turn = next(self._turns)
            turn.credit += 1
            if turn.credit > 0:
                turn.credit -= turn.cost
                self._look(turn)

    def _look(self, turn: _Turns) -> None:
        """Look at the threads of a job."""
        job, states, seen = turn.job, self._states, list[SeenThread]()
        for pid, reader, thread in islice(turn.threads, turn.at_once):
            states.denied = False
            with contextlib.suppress(OSError, ValueError, IndexError):  # it has ended
                state = states.read(pid, reader, thread, still=job.still)
                if not (states.for_child and self._add_children(job, reader, seen)):
                    self._add(job, thread, state, seen)
        if seen:
            job.add_look(seen, self._moment)

    # -- children that live too briefly to be found by a look --

    def _add_children(
        self, job: JobMeter, reader: ProcessReader, seen: list[SeenThread], depth: int = 0
    ) -> bool:
        """Sample the children of a process that no look has found yet, and theirs.

        Return whether they stand for their parent: where nobody tells how long they lived, the time
        of the parent is shared out by what its children do.
        """
        new = [pid for pid in reader.children() if pid not in job.processes]
        new = [pid for pid in new if job.found.follow or _same_session(pid, reader)]
        if not new:
            return False
        for pid in new[:_MOST_CHILDREN] if self.lives_told else [self._chance.choice(new)]:
            with contextlib.suppress(OSError, ValueError, IndexError):  # it has ended
                child = ProcessReader(pid)
                try:
                    self._add_child(job, pid, child, seen, depth)
                finally:
                    child.close()
        return not self.lives_told

    def _add_child(
        self, job: JobMeter, pid: int, child: ProcessReader, seen: list[SeenThread], depth: int
    ) -> None:
        state = self._states.read(pid, child, pid)
        deeper = self._states.for_child and depth < _DEEPEST
        if not (deeper and self._add_children(job, child, seen, depth + 1)):
            self._add(job, pid, state, seen)

    def _add(
        self,
        job: JobMeter,
        thread: int,
        state: State,
        seen: list[SeenThread],
    ) -> None:
        job.denied |= self._states.denied
        runs = has_cpu(thread) if state is RUNNING and job.has_threads else None
        seen.append(SeenThread(thread, state, state is RUNNING, runs))


def _same_session(pid: int, parent: ProcessReader) -> bool:
    """Return whether a child belongs to the job of its parent, whose processes share a session."""
    with contextlib.suppress(OSError):
        return os.getsid(pid) == os.getsid(parent.threads[0])
    return False
