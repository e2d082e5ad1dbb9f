"""The ledger of a job over an interval, from counters and samples of thread states; pure.

    wall = on CPU + waiting for a CPU + block I/O + network storage + memory + other

Counts are summed over threads. Threads that sleep for another reason (idle, locks, pipes) add
nothing: only what is missing to the wall time is `other`. What threads count together beyond the
wall time is cut off proportionally, as in the ledger of studies (`probes/ledger.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.system.accounting import Times


class Wait(NamedTuple):
    """What a thread waits for."""

    kind: str
    """`block`, `network` or `memory`."""
    place: str
    """Device of `block`, mount or server of `network`; empty when unknown."""


class State(NamedTuple):
    """What a sample of a sleeping thread shows."""

    wait: Wait | None
    """None: it waits for nothing that the ledger names."""
    counted: bool = False
    """Whether the kernel counts this wait as block I/O (the thread sleeps in io_schedule)."""


UNKNOWN_STORAGE = Wait("block", "")


@dataclass
class Spent:
    """What the threads of a job did in an interval, in ns summed over threads."""

    wall_ns: int = 0
    run_ns: int = 0
    wait_cpu_ns: int = 0
    waits_ns: dict[Wait, float] = field(default_factory=dict[Wait, float])
    variance_ns2: float = 0.0
    """Variance of the sum of `waits_ns` that comes from sampling."""

    def add(self, other: Spent) -> None:
        """Add another interval."""
        self.wall_ns += other.wall_ns
        self.run_ns += other.run_ns
        self.wait_cpu_ns += other.wait_cpu_ns
        for wait, amount in other.waits_ns.items():
            self.waits_ns[wait] = self.waits_ns.get(wait, 0.0) + amount
        self.variance_ns2 += other.variance_ns2

    def ledger(self) -> Ledger:
        """Return the ledger, whose parts add up to the wall time."""
        counted = self.run_ns + self.wait_cpu_ns + sum(self.waits_ns.values())
        scale = min(1.0, self.wall_ns / counted) / 1e9 if counted else 0.0
        return Ledger(
            wall_s=self.wall_ns / 1e9,
            on_cpu_s=self.run_ns * scale,
            wait_cpu_s=self.wait_cpu_ns * scale,
            waits_s={wait: amount * scale for wait, amount in self.waits_ns.items() if amount > 0},
            uncertainty_s=math.sqrt(self.variance_ns2) * scale,
        )


@dataclass(frozen=True)
class Ledger:
    """Where the wall time of a job went, in seconds."""

    wall_s: float
    on_cpu_s: float
    wait_cpu_s: float
    waits_s: Mapping[Wait, float]
    uncertainty_s: float
    """Standard uncertainty of the sum of `waits_s`, as far as it comes from sampling."""

    def of_kind(self, kind: str) -> float:
        """Return the time of all waits of a kind."""
        return sum(amount for wait, amount in self.waits_s.items() if wait.kind == kind)

    @property
    def wait_block_s(self) -> float:
        """Waiting for block devices."""
        return self.of_kind("block")

    @property
    def wait_network_s(self) -> float:
        """Waiting for storage behind a network."""
        return self.of_kind("network")

    @property
    def wait_memory_s(self) -> float:
        """Waiting for memory: pages that were dropped and read again, reclaim, swap."""
        return self.of_kind("memory")

    @property
    def lost_s(self) -> float:
        """Waiting for anything that the ledger names."""
        return self.wait_cpu_s + sum(self.waits_s.values())

    @property
    def other_s(self) -> float:
        """The rest of the wall time."""
        return max(0.0, self.wall_s - self.on_cpu_s - self.lost_s)

    @property
    def shares(self) -> dict[str, float]:
        """The parts as shares of the wall time."""
        wall_s = self.wall_s or 1.0
        return {
            "on_cpu": self.on_cpu_s / wall_s,
            "wait_cpu": self.wait_cpu_s / wall_s,
            "wait_block": self.wait_block_s / wall_s,
            "wait_network": self.wait_network_s / wall_s,
            "wait_memory": self.wait_memory_s / wall_s,
            "other": self.other_s / wall_s,
        }

    @property
    def longest_wait(self) -> str:
        """The device, mount or other thing that it waited for longest; empty without waits."""
        parts = {**{name(wait): amount for wait, amount in self.waits_s.items()}}
        parts["CPU"] = self.wait_cpu_s
        longest = max(parts, key=lambda each: parts[each])
        return longest if parts[longest] > 0.005 * self.wall_s else ""


def name(wait: Wait) -> str:
    """Return what a wait is for, for people."""
    unknown = {"block": "block I/O", "network": "network", "memory": "memory"}
    return wait.place or unknown[wait.kind]


@dataclass
class WaitEstimate:
    """Turns samples of states into time. Keeps what it cannot tell yet for the next interval."""

    _asleep_ns: float = 0.0
    _seen: Counter[Wait] = field(default_factory=Counter[Wait])
    """Samples of waits that the kernel counts, of all intervals: they tell the place of waits in
    an interval without samples."""

    def waits(
        self,
        spent: Times,
        memory_ns: int,
        lived_ns: int,
        states: Mapping[State, int],
        *,
        kernel_counts: bool,
    ) -> tuple[dict[Wait, float], float]:
        """Return the waits of an interval and the variance of their sum, in ns.

        `spent` with `memory_ns`: what the kernel counted; `lived_ns`: lifetimes of the threads
        within the interval; `states`: samples of sleeping threads. `kernel_counts`: block I/O
        waits are counted by the kernel, so samples tell only their places.
        """
        self._asleep_ns += max(0, lived_ns - spent.run_ns - spent.wait_cpu_ns)
        samples = sum(states.values())
        waits: Counter[Wait] = Counter()
        counted: Counter[Wait] = Counter()
        for state, number in states.items():
            if state.wait is not None:
                (counted if state.counted and kernel_counts else waits)[state.wait] += number
        self._seen.update(counted)
        found: dict[Wait, float] = {}
        variance = 0.0
        if samples:
            share = sum(waits.values()) / samples
            variance = self._asleep_ns**2 * share * (1 - share) / samples
            found = {wait: self._asleep_ns * number / samples for wait, number in waits.items()}
            self._asleep_ns = 0.0
        if kernel_counts:
            memory = min(memory_ns, spent.wait_block_ns)
            places = counted or self._seen or Counter({UNKNOWN_STORAGE: 1})
            for wait, number in places.items():
                amount = (spent.wait_block_ns - memory) * number / places.total()
                found[wait] = found.get(wait, 0.0) + amount
            if memory:
                found[Wait("memory", "")] = found.get(Wait("memory", ""), 0.0) + memory
        return {wait: amount for wait, amount in found.items() if amount > 0}, variance
