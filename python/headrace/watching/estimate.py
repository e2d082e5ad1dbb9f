"""Turns samples of what threads do into the waits of a job; pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from headrace.system.accounting import Times
from headrace.watching.ledger import UNKNOWN_STORAGE, YIELDING, Spent, State, StorageWait


class Together(msgspec.Struct):
    """What looks at all threads of a job show, each of one moment."""

    looks: int = 0
    active: int = 0
    """Of them: any thread ran, could run, or waited for what the ledger names."""
    parts: dict[State, float] = {}
    """Of states of sleeping threads: the sum of their parts of these moments. Threads that wait for
    nothing that the ledger names count as whole moments."""
    part_of_running: float = 1.0
    """Mean part of a moment of a thread that runs."""
    part_of_awake: float = 1.0
    """The same of a thread that runs or waits for a CPU."""
    beside: int = 0
    """Looks at threads that ran while others waited for what the ledger names."""
    beside_counted: float = 0.0
    """What these had of `parts`."""

    def add(self, state: State, part: float) -> None:
        """Add the part of a moment of a sleeping thread."""
        self.parts[state] = self.parts.get(state, 0.0) + part


class Waits(msgspec.Struct):
    """The waits of an interval, in ns, by both methods."""

    sampled: dict[StorageWait, float] = {}
    variance_ns2: float = 0.0
    """Variance of the sum of `sampled`."""
    counted: dict[StorageWait, float] = {}
    """As the kernel counts them, where it does: block I/O and what memory costs. Other waits are
    those of `sampled`."""
    yielding: dict[StorageWait, float] = {}
    """Of the kinds in `YIELDING`, from samples alone."""
    samples: int = 0
    """Of sleeping threads."""


@dataclass
class WaitEstimate:
    """Turns samples of states into time. Keeps what it cannot tell yet for the next interval."""

    _asleep_ns: float = 0.0
    _seen: Counter[StorageWait] = field(default_factory=Counter[StorageWait])
    """Samples of waits that the kernel counts, of all intervals: they tell the place of waits in
    an interval without samples."""
    _by_samples_ns: float = 0.0
    _by_kernel_ns: float = 0.0
    _variance_ns2: float = 0.0
    _lived_ns: float = 0.0
    _part_of_waits: float = 1.0
    """Mean part of a moment of a thread that waits, in the last interval that shows it."""

    def waits(
        self,
        spent: Times,
        memory_ns: int,
        lived_ns: int,
        states: Mapping[State, int],
        together: Together | None = None,
    ) -> Waits:
        """Return the waits of an interval.

        `spent` with `memory_ns`: what the kernel counted; `lived_ns`: lifetimes of the threads
        within the interval; `states`: samples of sleeping threads; `together`: of a job with
        several threads, their parts of the moments of these samples.
        """
        self._asleep_ns += max(0, lived_ns - spent.run_ns - spent.wait_cpu_ns)
        self._lived_ns += lived_ns
        made = Waits()
        if not states:  # many jobs at most looks
            self._by_kernel_ns += spent.wait_block_ns
            if spent.wait_block_ns:
                self._count(made.counted, {}, spent.wait_block_ns, memory_ns)
            return made
        samples = made.samples = sum(states.values())
        places = self._add(made, states, states if together is None else together.parts)
        named = sum(number for state, number in states.items() if _is_named(state))
        if named:
            share = named / samples
            # Threads that are seen at one moment are one sample.
            moments = samples if together is None else max(1, together.looks)
            made.variance_ns2 = self._asleep_ns**2 * share * (1 - share) / moments
            made.variance_ns2 *= self._part_of_waits**2
        if places or spent.wait_block_ns:
            self._compare(sum(places.values()) / samples, samples, spent)
            self._count(made.counted, places, spent.wait_block_ns, memory_ns)
        self._asleep_ns = 0.0
        return made

    def _add(
        self, made: Waits, states: Mapping[State, int], parts: Mapping[State, float]
    ) -> dict[StorageWait, int]:
        """Add the waits that samples show; return the samples of those that the kernel counts."""
        each_ns = self._asleep_ns / made.samples
        places: dict[StorageWait, int] = {}
        counted = seen = 0.0
        for state, number in states.items():
            wait = state.wait
            if wait is None:
                continue
            if wait.kind in YIELDING:
                made.yielding[wait] = each_ns * number
                continue
            amount = each_ns * parts.get(state, 0.0)
            made.sampled[wait] = made.sampled.get(wait, 0.0) + amount
            counted, seen = counted + parts.get(state, 0.0), seen + number
            if state.counted:
                places[wait] = places.get(wait, 0) + number
            else:
                made.counted[wait] = made.counted.get(wait, 0.0) + amount
        if seen:
            self._part_of_waits = counted / seen
        return places

    def _count(
        self,
        counted: dict[StorageWait, float],
        places: Mapping[StorageWait, int],
        block_ns: int,
        memory_ns: int,
    ) -> None:
        """Add block I/O as the kernel counts it, at the places that samples show."""
        if places:
            self._seen.update(places)
        if not block_ns:
            return
        block_ns = round(block_ns * self._part_of_waits)
        memory = min(round(memory_ns * self._part_of_waits), block_ns)
        at = places or self._seen or {UNKNOWN_STORAGE: 1}
        total = sum(at.values())
        for wait, number in at.items():
            amount = (block_ns - memory) * number / total
            if amount:
                counted[wait] = counted.get(wait, 0.0) + amount
        if memory:
            lacking = StorageWait("memory", "")
            counted[lacking] = counted.get(lacking, 0.0) + memory

    def _compare(self, share: float, samples: int, spent: Times) -> None:
        self._by_samples_ns += self._asleep_ns * share
        self._variance_ns2 += self._asleep_ns**2 * share * (1 - share) / samples
        self._by_kernel_ns += spent.wait_block_ns

    @property
    def consistent(self) -> bool:
        """Whether samples agree with what the kernel counts, within four standard deviations.

        They do not where delay accounting was switched on after the processes began, nor where the
        kernel loses waits (see `system.accounting.possible`).
        """
        allowed_ns = 4 * math.sqrt(self._variance_ns2) + 0.02 * self._lived_ns
        return abs(self._by_samples_ns - self._by_kernel_ns) <= allowed_ns


def _is_named(state: State) -> bool:
    """Return whether a state is a wait that the ledger names."""
    return state.wait is not None and (state.wait.kind == "poll" or state.wait.kind not in YIELDING)


def shared_out(wall_ns: int, used: Times, waits: Waits, together: Together | None) -> Spent:
    """Return what a job did in an interval. `used`: times of all its threads; `together`: None for
    a job of one thread."""
    found = Spent(
        wall_ns,
        used.run_ns,
        used.wait_cpu_ns,
        waits.sampled,
        waits.variance_ns2,
        waits.yielding,
        used.run_ns,
    )
    if together is not None:
        awake_ns = (used.run_ns + used.wait_cpu_ns) * together.part_of_awake
        found.run_ns = min(awake_ns, used.run_ns * together.part_of_running)
        found.wait_cpu_ns = awake_ns - found.run_ns if used.wait_cpu_ns else 0.0
        _raise_to(found, _active_least(together) * wall_ns)
        look_ns = wall_ns / max(1, together.looks)
        found.beside_ns = together.beside * look_ns
        found.beside_counted_ns = together.beside_counted * look_ns
    return found


def _active_least(together: Together) -> float:
    """Return the least share of moments in which any thread did something: two standard
    deviations less than in the looks.

    The watch gets a CPU late while all are busy: it sees threads that do something too seldom.
    """
    looks = max(1, together.looks)
    share = together.active / looks
    return share - 2 * math.sqrt(share * (1 - share) / looks) - 1 / looks


def _raise_to(found: Spent, least_ns: float) -> None:
    """Raise all that was counted in proportion, so that it is not less than this."""
    counted_ns = found.run_ns + found.wait_cpu_ns + sum(found.waits_ns.values())
    if 0 < counted_ns < least_ns:
        factor = least_ns / counted_ns
        found.run_ns *= factor
        found.wait_cpu_ns *= factor
        found.waits_ns = {wait: factor * amount for wait, amount in found.waits_ns.items()}
