"""What was seen of a program: where its wall time went, and what it read where. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

ShareKind = Literal[
    "cpu", "wait-cpu", "block", "network", "memory", "connection", "sleep", "pipe", "lock",
    "file-lock", "other",
]  # fmt: skip
STORAGE: tuple[ShareKind, ...] = ("block", "network")


@dataclass(frozen=True)
class TimeShare:
    """A part of the wall time."""

    kind: ShareKind
    where: str
    """Block device, directory of a network mount, or `host:port`; empty for others."""
    seconds: float


@dataclass(frozen=True)
class StoragePlace:
    """The storage that holds files of the program."""

    kind: Literal["block", "network", "memory", "unknown"]
    name: str
    """The device (`sda1`), or a network mount's directory."""
    filesystem: str = ""
    rotational: bool | None = None
    read_ahead_bytes: int | None = None


@dataclass(frozen=True)
class Access:
    """Reads of the program on one place, and how long its calls there waited."""

    place: StoragePlace
    reads: int = 0
    bytes_read: int = 0
    bytes_unique: int = 0
    """Each byte counted once."""
    span_bytes: int = 0
    """From the first to the last byte that was read of each file, summed over files."""
    bytes_written: int = 0
    read_bytes_median: float = 0.0
    random_fraction: float = 0.0
    """Share of reads that begin elsewhere than where the one before ended, in its file."""
    waited_s: float = 0.0
    """Time in calls beyond what a call on cached data takes, summed over threads."""
    slow_reads: int = 0
    """Reads that waited for storage."""
    slow_read_s: float = 0.0
    """Mean time of one of these."""
    again_s: float = 0.0
    """Of `waited_s`: reads of what it had read before, so memory had lost it."""
    other_calls_s: float = 0.0
    """Of `waited_s`: in calls that read nothing (writes, opens, stats, fsync …)."""
    slowest_other: str = ""
    """The kind of these that waited longest in all: `opens`, `fsyncs` …"""
    slow_others: int = 0
    """Calls of this kind that waited."""
    slow_other_s: float = 0.0
    """Mean time of one of these."""
    slow_other_files: tuple[str, ...] = ()
    """Their files, at most 100; the one that they waited for longest comes first."""


@dataclass(frozen=True)
class PageFaults:
    """Waits for pages of files that the program has mapped: no calls show them."""

    place: StoragePlace
    """Of the data file whose pages it used most."""
    number: int
    """Faults that waited for storage (major faults)."""
    bytes_read: int
    """Read by devices, beyond what calls that waited read."""
    seconds: float
    """Of the wall time."""
    waited_s: float = 0.0
    """The same, summed over threads; 0 if it is `seconds`."""

    @property
    def mean_s(self) -> float:
        """Mean time of a fault."""
        return (self.waited_s or self.seconds) / max(1, self.number)

    @property
    def mean_bytes(self) -> int:
        """Bytes read for a fault, with the pages around it."""
        return self.bytes_read // max(1, self.number)


@dataclass(frozen=True)
class ConnectionUse:
    """What the lasting TCP connections of a program did."""

    connections: int
    requests: int
    """Segments with data that it sent: a small request is one."""
    received_bytes: int
    sent_bytes: int
    round_trip_s: float
    """The shortest; 0 if none was measured."""
    since_data_s: tuple[float, ...] = ()
    """Time since data had come, at looks of the watch: the least, deciles, and the most."""


@dataclass(frozen=True)
class Observation:
    """All that a verdict is made of."""

    command: tuple[str, ...]
    wall_s: float
    shares: tuple[TimeShare, ...]
    """They add up to the wall time; the largest first."""
    summed_threads: int = 0
    """The shares are the summed times of so many threads, scaled to the wall time, because nothing
    tells what they did at once; 0 where each moment is shared by what the threads did then."""
    waits_bounds_s: tuple[float, float] | None = None
    """How long nothing but waits for storage held the program up, at least and at most: whether a
    thread that runs needs what another one waits for is not seen. None if that is not known."""
    accesses: tuple[Access, ...] = ()
    """The place that was waited for most comes first."""
    exit_code: int | None = None
    """As in `subprocess`; None if it is not known (a stored profile, a running program)."""
    connections: tuple[str, ...] = ()
    """`host:port` of the TCP connections that it had."""
    connection_use: ConnectionUse | None = None
    """None without lasting connections."""
    cores: int = 0
    cpu_s: float = 0.0
    """CPU time of all its threads, which may be more than the wall time; 0 if not known."""
    major_faults: int = 0
    faults: PageFaults | None = None
    """None without data files that are mapped, and for a program that has not been recorded."""
    memory_limit_bytes: int = 0
    """Of its control group; 0 without."""
    cache_bytes: int = 0
    """The most pages of files that this group held."""
    swapped_in: bool = False
    device_bytes: int | None = None
    """Bytes that block devices read for it, as the kernel counts; None if that is not known."""
    sources: str = ""
    """Where times come from: those of the ledger, and `recorder`, `samples`."""
    samples: int = 0
    hidden: bool = False
    """What its threads sleep in is not readable: some are another user's."""
    lacks: tuple[str, ...] = field(default_factory=tuple)
    """What could not be seen, as sentences."""

    def seconds(self, *kinds: ShareKind) -> float:
        """Return the time of these kinds."""
        return sum(share.seconds for share in self.shares if share.kind in kinds)

    def fraction(self, *kinds: ShareKind) -> float:
        """Return the part of the wall time of these kinds."""
        return self.seconds(*kinds) / self.wall_s if self.wall_s > 0 else 0.0
