"""The statistics that an emulated drive reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.units import format_bytes, format_share

_ALWAYS_ALLOWED_NS = 30_000
"""Completion delay that is always allowed, of one completion and on average."""
_ALLOWED_SHARE = {True: 0.04, False: 0.2}
"""Allowed completion delay as a share of the service time: disks, other drives."""
_LATE_SHARE_MOST = 0.01
"""Allowed fraction of completions beyond their bound.

This limits p99 of the completion delay; each bound is relative to the completion's service time.
"""


def allowed_delay_ns(service_ns: float, *, rotational: bool) -> float:
    """Return the allowed mean completion delay at this mean service time, in nanoseconds."""
    return max(_ALWAYS_ALLOWED_NS, _ALLOWED_SHARE[rotational] * service_ns)


@dataclass(frozen=True)
class Way:
    """Time of a 4 KiB request at queue depth 1 outside the drive.

    It is the median of the quietest round, because delay by other work on the machine is not part
    of the floor. A CPU that has slept longer wakes later.
    """

    quick_ns: int
    """After a service of 0.2 ms or less."""
    slow_ns: int
    """After a service of 5 ms or more; the same for an SSD."""


@dataclass(frozen=True)
class Floor:
    """Time of the path through the kernel, measured at attaching, subtracted from completions."""

    read: Way
    write: Way
    read_ns_per_mib: int
    write_ns_per_mib: int
    wake_ns: int
    """Median wake-up delay of a sleeping emulator thread."""


@dataclass(frozen=True)
class CompletionDelay:
    """Completion delay relative to the model, in nanoseconds."""

    timed: int
    """Number of timed completions."""
    past_bound: int
    """Completions delayed by more than 4 % (disk; else 20 %) of their service time and 30 us."""
    mean: float
    p50: int
    p99: int
    p999: int
    max: int


@dataclass(frozen=True)
class KernelWake:
    """Delay of threads that pass requests to the emulator, in nanoseconds."""

    mean: float
    p50: int
    p99: int
    p999: int


@dataclass(frozen=True)
class Report:
    """Statistics since the last `reset_report`, except for the last five."""

    reads: int
    writes: int
    flushes: int
    discards: int
    write_zeroes: int
    read_bytes: int
    written_bytes: int
    failed: int
    """Requests that ended with an error, including injected ones."""
    full: int
    """Writes that failed because the data limit in memory was reached."""
    lateness_ns: CompletionDelay
    kernel_wake_ns: KernelWake
    """Wake-up delay of a thread with the priority of the loop driver's worker."""
    submission_ns: KernelWake | None
    """From the kernel's issue of a request to its arrival; None when this cannot be observed.

    What the model cannot catch up of it is part of the completion delay.
    """
    worker_raised: bool
    """Whether the loop driver's worker has real-time priority.

    Otherwise it waits for jobs that keep every CPU busy (see `yield_to_kernel`).
    """
    service_ns_mean: float
    """Mean time of a request in the drive, including queueing."""
    elapsed_s: float
    busy_s: float
    """Time with a request in flight."""
    in_flight: int
    faults_fired: tuple[int, ...]
    """How often each fault took effect since attaching, in the order of injection."""
    lost_bytes: int
    """Acknowledged data lost in power losses."""
    energy_j: float
    """Since attaching (modelled)."""
    flash_host_bytes: int
    """Written to a flash drive since the reset."""
    flash_written_bytes: int
    """Written by its flash for that."""
    data_bytes: int
    """Current memory of the data; at most `data_limit_bytes`."""
    volatile_bytes: int
    """Memory of old data that a power loss would restore."""
    floor_ns: Floor | None
    size_bytes: int
    data_limit_bytes: int
    rotational: bool
    lacking: tuple[str, ...]
    """What the emulator's process could not get (locked memory, priority), and why."""

    @property
    def requests(self) -> int:
        """Number of all requests."""
        return self.reads + self.writes + self.flushes + self.discards + self.write_zeroes

    @property
    def late_share(self) -> float:
        """Fraction of the completions that were later than their bound."""
        return (
            self.lateness_ns.past_bound / self.lateness_ns.timed if self.lateness_ns.timed else 0.0
        )

    @property
    def distrust(self) -> str | None:
        """Why a measurement on this device is not trustworthy, None when it is.

        Reasons: late completions (more than 1 % of them, or on average), late requests, writes that
        failed for lack of memory. A trial, whose results are sums and means, is valid with more
        than 1 % of late completions; all other reasons make it invalid, too.
        """
        if self.full:
            return (
                f"{self.full} writes were refused: more than {format_bytes(self.data_limit_bytes)} "
                "of data"
            )
        if self.late_share > _LATE_SHARE_MOST:
            return (
                f"{format_share(self.late_share, 1)} of the answers were later than their bound "
                f"(p99 {self.lateness_ns.p99 / 1e3:.0f} us of {self.service_ns_mean / 1e3:.0f} us "
                "mean service)"
            )
        allowed = allowed_delay_ns(self.service_ns_mean, rotational=self.rotational)
        if self.lateness_ns.mean > allowed:
            return (
                f"answers were {self.lateness_ns.mean / 1e3:.0f} us late on average "
                f"({allowed / 1e3:.0f} us are allowed)"
            )
        if self.submission_ns is None and self.requests and self.kernel_wake_ns.mean > allowed:
            return (
                f"the kernel's worker came {self.kernel_wake_ns.mean / 1e3:.0f} us late on average "
                f"({allowed / 1e3:.0f} us are allowed): the CPUs are taken"
            )
        return None

    @property
    def trustworthy(self) -> bool:
        """Whether there is no reason for distrust."""
        return self.distrust is None

    @classmethod
    def of(cls, said: dict[str, Any]) -> Report:
        """Create a report from the process's answer."""
        floor = said["floor_ns"]
        fields: dict[str, Any] = {
            **said,
            "kernel_wake_ns": KernelWake(**said["kernel_wake_ns"]),
            "submission_ns": None
            if said["submission_ns"] is None
            else KernelWake(**said["submission_ns"]),
            "lateness_ns": CompletionDelay(**said["lateness_ns"]),
            "floor_ns": None
            if floor is None
            else Floor(
                read=Way(**floor["read"]),
                write=Way(**floor["write"]),
                **{
                    name: floor[name] for name in ("read_ns_per_mib", "write_ns_per_mib", "wake_ns")
                },
            ),
            "faults_fired": tuple(said["faults_fired"]),
            "lacking": tuple(said["lacking"]),
        }
        return cls(**fields)
