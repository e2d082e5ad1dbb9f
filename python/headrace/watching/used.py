"""What a job used in an interval, and one look at it. Many of both are made: structures of msgspec
take a quarter of the time of dataclasses."""

from __future__ import annotations

import msgspec

from headrace.watching.ledger import JobLedger, Spent, StorageWait, summed, take_away
from headrace.watching.own_groups import GroupUse
from headrace.watching.process import NOTHING, Moved


class Used(msgspec.Struct):
    """What a job used in an interval."""

    spent: Spent = msgspec.field(default_factory=Spent)
    moved: Moved = NOTHING
    user_s: float = 0.0
    system_s: float = 0.0
    samples: int = 0
    """Moments at which the states of its threads were seen."""
    counted_ns: dict[StorageWait, float] = {}
    """The waits as the kernel counts them, those that it does not count from samples."""

    def add(self, other: Used) -> None:
        """Add another interval."""
        self.spent.add(other.spent)
        self.moved = self.moved + other.moved
        self.user_s += other.user_s
        self.system_s += other.system_s
        self.samples += other.samples
        for wait, amount in other.counted_ns.items() if other.counted_ns else ():
            self.counted_ns[wait] = self.counted_ns.get(wait, 0.0) + amount

    def remove(self, other: Used) -> None:
        """Subtract an interval that was added."""
        self.spent.remove(other.spent)
        self.moved = self.moved - other.moved
        self.user_s -= other.user_s
        self.system_s -= other.system_s
        self.samples -= other.samples
        if other.counted_ns:
            take_away(self.counted_ns, other.counted_ns)

    def plus(self, other: Used) -> Used:
        """Return the sum with another interval; both stay as they are."""
        return Used(
            self.spent.plus(other.spent),
            self.moved + other.moved if other.moved is not NOTHING else self.moved,
            self.user_s + other.user_s,
            self.system_s + other.system_s,
            self.samples + other.samples,
            summed(self.counted_ns, other.counted_ns),
        )

    def blame_memory(self, refault_bytes: int) -> None:
        """Move waits for pages that had been in memory before from storage to memory.

        The share is that of these bytes among those read from storage. Where the kernel counts the
        time of such waits, its count stays.
        """
        share = (
            min(1.0, refault_bytes / self.moved.storage_read) if self.moved.storage_read else 0.0
        )
        lacking = StorageWait("memory", "")
        for waits in (self.spent.waits_ns, self.counted_ns):
            if share and not (waits is self.counted_ns and lacking in waits):
                moved = 0.0
                for wait in [each for each in waits if each.kind != "memory"]:
                    moved += share * waits[wait]
                    waits[wait] *= 1 - share
                waits[lacking] = waits.get(lacking, 0.0) + moved

    def by_kernel(self) -> Used:
        """Return the same with the waits as the kernel counts them."""
        spent = self.spent
        counted = Spent(
            spent.wall_ns,
            spent.run_ns,
            spent.wait_cpu_ns,
            self.counted_ns,
            yielding_ns=spent.yielding_ns,
            cpu_ns=spent.cpu_ns,
            beside_ns=spent.beside_ns,
            beside_counted_ns=spent.beside_counted_ns,
        )
        return Used(counted, self.moved, self.user_s, self.system_s, self.samples, self.counted_ns)

    @property
    def cpu_s(self) -> float:
        """CPU time of all its threads."""
        return self.spent.cpu_ns / 1e9

    @property
    def ledger(self) -> JobLedger:
        """Where its wall time went."""
        return self.spent.ledger()


class JobSample(msgspec.Struct, frozen=True):
    """One job at one look."""

    key: str
    name: str
    processes: int
    threads: int
    ended: bool
    last: Used
    """Since the look before."""
    total: Used
    """Since it was first seen."""
    began_s: float
    """When it was first seen, on the monotonic clock."""
    sources: tuple[str, ...]
    """Where its numbers come from."""
    lacks: tuple[str, ...]
    """What could not be read, for people."""
    group_last: GroupUse | None = None
    """What its own control groups counted since the look before; None without such groups."""
    group_total: GroupUse | None = None
    """The same since it was first seen."""
    pids: tuple[int, ...] = ()
    """Its processes."""
    io_readable: bool = True
    """Whether the bytes of all of them could be read."""
