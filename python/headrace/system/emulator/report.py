"""What an emulated drive publishes of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.units import format_bytes

_ALWAYS_ALLOWED_NS = 30_000
_LATE_SHARE_MOST = 0.01
"""Share of the answers that may be past their bound: p99 of the lateness, each measured by its own service time."""


@dataclass(frozen=True)
class Way:
    """What a 4 KiB request at queue depth 1 takes besides the drive: the median of the quietest round, for what other work on
    the machine adds is no floor. A CPU that has slept longer wakes later."""

    quick_ns: int
    """After a service of 0.2 ms or less."""
    slow_ns: int
    """After one of 5 ms or more; the same for an SSD."""


@dataclass(frozen=True)
class Floor:
    """What the way through the kernel takes, measured when the drive was attached; subtracted from every answer."""

    read: Way
    write: Way
    read_ns_per_mib: int
    write_ns_per_mib: int
    wake_ns: int
    """How late a sleeping thread of the emulator wakes, median."""


@dataclass(frozen=True)
class Lateness:
    """How much later than the model says answers went out, nanoseconds."""

    timed: int
    """Answers that were timed."""
    past_bound: int
    """Those later than 4 % (a disk; else 20 %) of their own service time, and more than 30 us."""
    mean: float
    p50: int
    p99: int
    p999: int
    max: int


@dataclass(frozen=True)
class KernelWake:
    """How late threads of ordinary priority wake on this machine, nanoseconds. The loop driver's worker, which hands requests
    to the emulator, is one: where jobs keep every CPU busy it waits for them (see `yield_to_kernel`)."""

    mean: float
    p50: int
    p99: int
    p999: int


@dataclass(frozen=True)
class Report:
    """Since the last `reset_report`, but for the last five."""

    reads: int
    writes: int
    flushes: int
    discards: int
    write_zeroes: int
    read_bytes: int
    written_bytes: int
    failed: int
    """Requests that ended with an error, injected ones included."""
    full: int
    """Writes that were refused because the data that may be kept in memory was reached."""
    lateness_ns: Lateness
    kernel_wake_ns: KernelWake
    service_ns_mean: float
    """What the drive took for a request, queueing in it included."""
    elapsed_s: float
    busy_s: float
    """Time with a request under way."""
    in_flight: int
    faults_fired: tuple[int, ...]
    """How often each fault took effect since the device was attached, in the order of injection."""
    lost_bytes: int
    """Acknowledged data that losses of power took back."""
    energy_j: float
    """Since the device was attached (modelled)."""
    data_bytes: int
    """Memory that data takes now; at most `data_limit_bytes`."""
    volatile_bytes: int
    """Memory that old data takes which a loss of power would bring back."""
    floor_ns: Floor | None
    size_bytes: int
    data_limit_bytes: int
    rotational: bool
    lacking: tuple[str, ...]
    """What the emulator's process could not have (locked memory, priority), and why."""

    @property
    def requests(self) -> int:
        """All of them."""
        return self.reads + self.writes + self.flushes + self.discards + self.write_zeroes

    @property
    def late_share(self) -> float:
        """Share of the answers that were later than their bound."""
        return self.lateness_ns.past_bound / self.lateness_ns.timed if self.lateness_ns.timed else 0.0

    @property
    def distrust(self) -> str | None:
        """Why a measurement on this device cannot be trusted: answers or requests that were late, writes that were refused for
        want of memory. None when it can."""
        if self.full:
            return f"{self.full} writes were refused: more than {format_bytes(self.data_limit_bytes)} of data"
        if self.late_share > _LATE_SHARE_MOST:
            return (
                f"{self.late_share:.1%} of the answers were later than their bound "
                f"(p99 {self.lateness_ns.p99 / 1e3:.0f} us of {self.service_ns_mean / 1e3:.0f} us mean service)"
            )
        allowed = max(_ALWAYS_ALLOWED_NS, (0.04 if self.rotational else 0.2) * self.service_ns_mean)
        if self.requests and self.kernel_wake_ns.mean > allowed:
            return (
                f"the kernel's worker came {self.kernel_wake_ns.mean / 1e3:.0f} us late on average "
                f"({allowed / 1e3:.0f} us would do): the CPUs are taken"
            )
        return None

    @property
    def trustworthy(self) -> bool:
        """Whether there is nothing to distrust."""
        return self.distrust is None

    @classmethod
    def of(cls, said: dict[str, Any]) -> Report:
        """From what the process says."""
        floor = said["floor_ns"]
        fields: dict[str, Any] = {
            **said,
            "kernel_wake_ns": KernelWake(**said["kernel_wake_ns"]),
            "lateness_ns": Lateness(**said["lateness_ns"]),
            "floor_ns": None
            if floor is None
            else Floor(
                read=Way(**floor["read"]),
                write=Way(**floor["write"]),
                **{name: floor[name] for name in ("read_ns_per_mib", "write_ns_per_mib", "wake_ns")},
            ),
            "faults_fired": tuple(said["faults_fired"]),
            "lacking": tuple(said["lacking"]),
        }
        return cls(**fields)
