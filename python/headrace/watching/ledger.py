"""The ledger of a job over an interval, from counters and samples of thread states; pure.

    wall = on CPU + waiting for a CPU + block I/O + network storage + memory + other

At each moment the threads that do something share the wall time (`together.py`). What they count
together beyond the wall time is an error of samples, and is cut off proportionally. What is missing
to the wall time is `other`. Threads that wait for one of several things (a poll of connections),
sleep, or wait for another thread or program, do so all the time in many programs while others work:
they only tell what this rest is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec


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
    """What the threads of a job did in an interval, in ns.

    Where several did something at once, each has a part of the time (`together.py`).
    """

    wall_ns: int = 0
    run_ns: float = 0
    wait_cpu_ns: float = 0
    waits_ns: dict[StorageWait, float] = {}
    variance_ns2: float = 0.0
    """Variance of the sum of `waits_ns` that comes from sampling."""
    yielding_ns: dict[StorageWait, float] = {}
    """Of the kinds in `YIELDING`, summed over threads."""
    cpu_ns: int = 0
    """CPU time, summed over threads."""
    beside_ns: float = 0.0
    """Time in which threads ran while others waited for what the ledger names."""
    beside_counted_ns: float = 0.0
    """What is in `waits_ns` of that time."""

    def plus(self, other: Spent) -> Spent:
        """Return the sum with another interval; both stay as they are."""
        return Spent(
            self.wall_ns + other.wall_ns,
            self.run_ns + other.run_ns,
            self.wait_cpu_ns + other.wait_cpu_ns,
            summed(self.waits_ns, other.waits_ns),
            self.variance_ns2 + other.variance_ns2,
            summed(self.yielding_ns, other.yielding_ns),
            self.cpu_ns + other.cpu_ns,
            self.beside_ns + other.beside_ns,
            self.beside_counted_ns + other.beside_counted_ns,
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
        self.cpu_ns += other.cpu_ns
        self.beside_ns += other.beside_ns
        self.beside_counted_ns += other.beside_counted_ns

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
        self.cpu_ns -= other.cpu_ns
        self.beside_ns = max(0.0, self.beside_ns - other.beside_ns)
        self.beside_counted_ns = max(0.0, self.beside_counted_ns - other.beside_counted_ns)

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
            beside_s=self.beside_ns / 1e9,
            beside_counted_s=self.beside_counted_ns * (scale or 1e-9),
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
    beside_s: float = 0.0
    """Time in which threads ran while others waited for storage, memory or a server."""
    beside_counted_s: float = 0.0
    """What of it is in `waits_s`."""

    @property
    def waits_bounds_s(self) -> tuple[float, float]:
        """How long nothing but waits for storage, memory and servers held the job up, at least and
        at most: whether a thread that runs needs what another one waits for cannot be seen."""
        waited_s = sum(self.waits_s.values())
        alone_s = max(0.0, waited_s - self.beside_counted_s)
        return alone_s, max(waited_s, min(self.wall_s, alone_s + self.beside_s))

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
