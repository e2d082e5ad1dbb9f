"""The ledger of a job over an interval, from counters and samples of thread states; pure.

    wall = on CPU + waiting for a CPU + block I/O + network storage + memory + other

Counts are summed over threads. What threads count together beyond the wall time is cut off
proportionally, as in the ledger of studies (`probes/ledger.py`). What is missing to the wall time
is `other`. Threads that wait for one of several things (a poll of connections), sleep, or wait for
another thread or program, do so all the time in many programs while others work: they only tell
what this rest is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from headrace.system.accounting import Times


class StorageWait(NamedTuple):
    """What a thread waits for."""

    kind: str
    """`block`, `network` or `memory`; or one that yields to all others: `poll` (of connections),
    `idle` or `pipe`."""
    place: str
    """Device of `block`, mount or server of `network`; empty when unknown. Server of `poll`; of
    `idle` a word for people."""


class State(NamedTuple):
    """What a sample of a sleeping thread shows."""

    wait: StorageWait | None
    """None: it waits for nothing that the ledger names."""
    counted: bool = False
    """Whether the kernel counts this wait as block I/O (the thread sleeps in io_schedule)."""


PARTS = ("on_cpu", "wait_cpu", "wait_block", "wait_network", "wait_memory", "other")
"""Of the wall time."""
UNKNOWN_STORAGE = StorageWait("block", "")
YIELDING = ("poll", "idle", "pipe")
"""Kinds that explain only what is left of the wall time, the first before the next. A process at a
pipe waits for another one, which may be of the same job."""


def summed(
    waits: dict[StorageWait, float], more: dict[StorageWait, float]
) -> dict[StorageWait, float]:
    """Return the sums by wait. May return `waits` itself, so treat the result as frozen."""
    if not more:
        return waits
    found = {**waits}
    for wait, amount in more.items():
        found[wait] = found.get(wait, 0.0) + amount
    return found


def take_away(waits: dict[StorageWait, float], less: Mapping[StorageWait, float]) -> None:
    """Subtract amounts that were added to `waits`."""
    for wait, amount in less.items():
        left = waits.get(wait, 0.0) - amount
        if left > 1.0:  # ns; what is less is rounding
            waits[wait] = left
        else:
            waits.pop(wait, None)


class Spent(msgspec.Struct):
    """What the threads of a job did in an interval, in ns summed over threads."""

    wall_ns: int = 0
    run_ns: int = 0
    wait_cpu_ns: int = 0
    waits_ns: dict[StorageWait, float] = {}
    variance_ns2: float = 0.0
    """Variance of the sum of `waits_ns` that comes from sampling."""
    yielding_ns: dict[StorageWait, float] = {}
    """Of the kinds in `YIELDING`."""

    def plus(self, other: Spent) -> Spent:
        """Return the sum with another interval; both stay as they are."""
        return Spent(
            self.wall_ns + other.wall_ns,
            self.run_ns + other.run_ns,
            self.wait_cpu_ns + other.wait_cpu_ns,
            summed(self.waits_ns, other.waits_ns),
            self.variance_ns2 + other.variance_ns2,
            summed(self.yielding_ns, other.yielding_ns),
        )

    def add(self, other: Spent) -> None:
        """Add another interval."""
        self.wall_ns += other.wall_ns
        self.run_ns += other.run_ns
        self.wait_cpu_ns += other.wait_cpu_ns
        if other.waits_ns:
            for wait, amount in other.waits_ns.items():
                self.waits_ns[wait] = self.waits_ns.get(wait, 0.0) + amount
        if other.yielding_ns:
            for wait, amount in other.yielding_ns.items():
                self.yielding_ns[wait] = self.yielding_ns.get(wait, 0.0) + amount
        self.variance_ns2 += other.variance_ns2

    def remove(self, other: Spent) -> None:
        """Subtract an interval that was added."""
        self.wall_ns -= other.wall_ns
        self.run_ns -= other.run_ns
        self.wait_cpu_ns -= other.wait_cpu_ns
        if other.waits_ns:
            take_away(self.waits_ns, other.waits_ns)
        if other.yielding_ns:
            take_away(self.yielding_ns, other.yielding_ns)
        if other.variance_ns2:
            self.variance_ns2 = max(0.0, self.variance_ns2 - other.variance_ns2)

    @property
    def lost_s(self) -> float:
        """The same as of `ledger`, cheaper: jobs are sorted by it."""
        waited = self.wait_cpu_ns + (sum(self.waits_ns.values()) if self.waits_ns else 0)
        counted = self.run_ns + waited
        lost_ns = waited * min(1.0, self.wall_ns / counted) if counted else 0.0
        if self.yielding_ns and counted < self.wall_ns:
            polled = 0.0
            for wait, amount in self.yielding_ns.items():
                if wait.kind == "poll":
                    polled += amount
            lost_ns += min(polled, self.wall_ns - counted)
        return lost_ns / 1e9

    def ledger(self) -> JobLedger:
        """Return the ledger, whose parts add up to the wall time."""
        counted: float = self.run_ns + self.wait_cpu_ns
        if self.waits_ns:
            counted += sum(self.waits_ns.values())
        scale = 0.0
        if counted:
            scale = 1e-9 if counted <= self.wall_ns else self.wall_ns / counted / 1e9
        waits_s = {}
        if self.waits_ns:
            waits_s = {wait: amount * scale for wait, amount in self.waits_ns.items() if amount > 0}
        idle_s: dict[str, float] = {}
        if self.yielding_ns:
            for wait, seconds in self._explained_s(self.wall_ns - counted):
                if wait.kind == "poll":
                    server = StorageWait("network", wait.place)
                    waits_s[server] = waits_s.get(server, 0.0) + seconds
                else:
                    idle_s[wait.place] = seconds
        return JobLedger(
            wall_s=self.wall_ns / 1e9,
            on_cpu_s=self.run_ns * scale,
            wait_cpu_s=self.wait_cpu_ns * scale,
            waits_s=waits_s,
            uncertainty_s=self.variance_ns2**0.5 * (scale or 1e-9),
            idle_s=idle_s,
        )

    def _explained_s(self, rest_ns: float) -> Iterator[tuple[StorageWait, float]]:
        """Yield how much of the rest of the wall time each of the yielding kinds explains."""
        if len(self.yielding_ns) == 1:  # most jobs
            for wait, ns in self.yielding_ns.items():
                if rest_ns > 0:
                    yield wait, (ns if ns < rest_ns else rest_ns) / 1e9
            return
        seen = {wait.kind for wait in self.yielding_ns}
        for kind in YIELDING:
            if kind not in seen or rest_ns <= 0:
                continue
            mine = [each for each in self.yielding_ns.items() if each[0].kind == kind]
            total = sum([ns for _, ns in mine])
            scale = min(1.0, rest_ns / total) / 1e9
            for wait, ns in mine:
                yield wait, ns * scale
            rest_ns -= min(total, rest_ns)


class JobLedger(msgspec.Struct, frozen=True):
    """Where the wall time of a job went, in seconds."""

    wall_s: float
    on_cpu_s: float
    wait_cpu_s: float
    waits_s: Mapping[StorageWait, float]
    uncertainty_s: float
    """Standard uncertainty of the sum of `waits_s`, as far as it comes from sampling."""
    idle_s: dict[str, float] = {}
    """Parts of `other_s` that samples name: `timer`, `locks`, `events`, `pipe` …"""

    @property
    def by_kind_s(self) -> dict[str, float]:
        """The times of waits for block devices, for storage behind a `network`, and for `memory`:
        pages that were dropped and read again, reclaim, swap."""
        found = {"block": 0.0, "network": 0.0, "memory": 0.0}
        for wait, amount in self.waits_s.items():
            found[wait.kind] += amount
        return found

    @property
    def wait_block_s(self) -> float:
        """Waiting for block devices."""
        return self.by_kind_s["block"]

    @property
    def wait_network_s(self) -> float:
        """Waiting for storage behind a network."""
        return self.by_kind_s["network"]

    @property
    def wait_memory_s(self) -> float:
        """Waiting for memory."""
        return self.by_kind_s["memory"]

    @property
    def lost_s(self) -> float:
        """Waiting for anything that the ledger names."""
        return self.wait_cpu_s + sum(self.waits_s.values())

    @property
    def other_s(self) -> float:
        """The rest of the wall time."""
        return max(0.0, self.wall_s - self.on_cpu_s - self.lost_s)

    @property
    def parts_s(self) -> tuple[float, float, float, float, float, float]:
        """The parts in the order of `PARTS`."""
        on_cpu_s, wait_cpu_s, lost_s = self.on_cpu_s, self.wait_cpu_s, self.wait_cpu_s
        block_s = network_s = memory_s = 0.0
        for (kind, _), amount in self.waits_s.items():
            lost_s += amount
            if kind == "block":
                block_s += amount
            elif kind == "network":
                network_s += amount
            else:
                memory_s += amount
        other_s = max(0.0, self.wall_s - on_cpu_s - lost_s)
        return on_cpu_s, wait_cpu_s, block_s, network_s, memory_s, other_s

    @property
    def shares(self) -> dict[str, float]:
        """The parts as shares of the wall time."""
        wall_s = self.wall_s or 1.0
        return {part: spent / wall_s for part, spent in zip(PARTS, self.parts_s, strict=True)}

    @property
    def longest_wait(self) -> str:
        """The device, mount or other thing that it waited for longest; empty if not known."""
        longest, most_s, rest_s = "CPU", self.wait_cpu_s, self.other_s
        for wait, amount in self.waits_s.items():
            if amount > most_s:
                longest, most_s = name(wait), amount
        for word, amount in self.idle_s.items():
            rest_s -= amount
            if amount > most_s:
                longest, most_s = word, amount
        return longest if most_s > max(rest_s, 0.005 * self.wall_s) else ""


def name(wait: StorageWait) -> str:
    """Return what a wait is for, for people."""
    unknown = {"block": "block I/O", "network": "network", "memory": "memory"}
    return wait.place or unknown[wait.kind]


class Waits(msgspec.Struct):
    """The waits of an interval, in ns summed over threads, by both methods."""

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

    def waits(
        self, spent: Times, memory_ns: int, lived_ns: int, states: Mapping[State, int]
    ) -> Waits:
        """Return the waits of an interval.

        `spent` with `memory_ns`: what the kernel counted; `lived_ns`: lifetimes of the threads
        within the interval; `states`: samples of sleeping threads.
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
        places: dict[StorageWait, int] = {}
        named = 0
        for state, number in states.items():
            if state.wait is not None:
                amount = self._asleep_ns * number / samples
                if state.wait.kind in YIELDING:
                    made.yielding[state.wait] = amount
                    named += number if state.wait.kind == "poll" else 0
                    continue
                named += number
                made.sampled[state.wait] = made.sampled.get(state.wait, 0.0) + amount
                if state.counted:
                    places[state.wait] = places.get(state.wait, 0) + number
                else:
                    made.counted[state.wait] = made.counted.get(state.wait, 0.0) + amount
        if named:
            share = named / samples
            made.variance_ns2 = self._asleep_ns**2 * share * (1 - share) / samples
        if places or spent.wait_block_ns:
            self._compare(sum(places.values()) / samples, samples, spent)
            self._count(made.counted, places, spent.wait_block_ns, memory_ns)
        self._asleep_ns = 0.0
        return made

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
        memory = min(memory_ns, block_ns)
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
