"""The bottleneck of jobs at one point, from their time ledger and the device's counters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.analysis.findings import Limit, LimitKind
from headrace.units import format_bytes, format_bytes_per_s, format_seconds, format_share

BUSY = 0.85
"""Share of the time with a request in flight, above which a device counts as always busy."""
LARGE_REQUEST_BYTES = 128 * 1024
"""Mean request size from which a busy hard disk spends its time on transfers and not on seeks."""
HIGHEST_RATE = 0.7
"""Share of the highest rate that a device reached in these records, above which it counts as
bandwidth-bound: a disk's rate falls by half from its outer to its inner tracks, and a file
system has overhead."""
UNCACHED = 0.05
"""Device bytes over requested bytes, below which the page cache fed the jobs."""
COPIED_BYTES_PER_S = 1e9
"""At least so fast is a copy from the page cache: assumption, a tenth of what one core does."""
_COPIES_LEAST = 0.01
"""Share of the jobs' wall time: where copies of all that they requested would take less, they slept
for another reason (assumption)."""


@dataclass(frozen=True)
class DeviceLoad:
    """Load of the devices behind a target while jobs ran, over all trials of a point."""

    rate_bytes_per_s: float
    highest_bytes_per_s: float
    """The highest rate of the same target at any point."""
    busy: float
    """Share of the time with a request in flight, 0..1."""
    request_bytes: float
    in_flight: float
    """Mean number of requests in flight: rate times latency (Little's law)."""
    latency_s: float

    @property
    def words(self) -> str:
        """The numbers as a clause."""
        return (
            f"the device was busy {format_share(self.busy)} of the time, moved "
            f"{format_bytes_per_s(self.rate_bytes_per_s)} in requests of "
            f"{format_bytes(round(self.request_bytes / 1024) * 1024)}, "
            f"{format_seconds(self.latency_s)} each, "
            f"{self.in_flight:.1f} in flight"
        )


def limit_of(
    ledger: Mapping[str, float],
    bound: float,
    device: DeviceLoad | None,
    moved_share: float | None,
    running: int,
    cores: int | None,
    named: Mapping[str, float] | None = None,
    requested_bytes_per_s: float = math.inf,
) -> Limit:
    """Return the bottleneck.

    `ledger` holds the shares of wall time; `bound` is the job efficiency at or above which jobs
    count as fed; `moved_share` is the device's bytes over the bytes that jobs requested, None when
    unknown; `running` jobs ran concurrently on `cores` cores, over all nodes, and requested so many
    bytes per second of their wall time. `named`: what samples of a watch say of `other`, as shares
    of wall time: `memory`, or what the jobs slept for. At or above the bound the CPU is the
    bottleneck; below it, the largest wait.
    """
    on_cpu = ledger["on_cpu"]
    if on_cpu >= bound:
        return Limit("cpu", on_cpu, f"Jobs computed {format_share(on_cpu)} of their time.")
    waits = {name: ledger[name] for name in ("wait_cpu", "wait_block", "wait_network", "other")}
    asleep_for = dict(named or {})
    waits["memory"] = asleep_for.pop("memory", 0.0)
    waits["other"] = max(0.0, waits["other"] - waits["memory"])
    largest = max(waits, key=lambda name: waits[name])
    share = waits[largest]
    if largest == "wait_cpu":
        there = (
            f" with {running} job{'s' if running != 1 else ''} on {cores} cores" if cores else ""
        )
        if cores and running <= cores:
            there += ": something else kept the cores busy"
        return Limit(
            "cpu contention",
            share,
            f"Jobs waited for a CPU {format_share(share)} of their time{there}.",
        )
    if largest == "wait_network":
        return Limit(
            "network",
            share,
            f"Jobs waited for the network or a server {format_share(share)} of their time.",
        )
    if largest == "wait_block":
        return _device_limit(
            share, f"Jobs waited for block I/O {format_share(share)} of their time", device
        )
    if largest == "memory":
        return Limit(
            "memory", share, f"Jobs waited for memory {format_share(share)} of their time."
        )
    return _other_limit(share, asleep_for, device, moved_share, requested_bytes_per_s)


def _other_limit(
    share: float,
    asleep_for: Mapping[str, float],
    device: DeviceLoad | None,
    moved_share: float | None,
    requested_bytes_per_s: float,
) -> Limit:
    """Return the bottleneck of jobs that were neither on a CPU nor in a wait of the ledger."""
    if sum(asleep_for.values()) > share / 2:
        longest = sorted(asleep_for, key=lambda name: -asleep_for[name])[:3]
        parts = ", ".join(f"{name} {format_share(asleep_for[name])}" for name in longest)
        return Limit("sleep", share, f"Jobs slept {format_share(share)} of their time: {parts}.")
    # Time that no kernel counter explains: sleep in the program, or I/O that is not charged to the
    # job.
    slept = (
        "Jobs were neither on a CPU nor in a wait that the kernel counts "
        f"{format_share(share)} of their time"
    )
    if device is not None and device.busy >= BUSY:
        return _device_limit(share, slept, device)
    copied = requested_bytes_per_s / COPIED_BYTES_PER_S
    if moved_share is not None and moved_share < UNCACHED and copied >= _COPIES_LEAST:
        return Limit(
            "cache",
            share,
            f"{slept}; the device moved {format_share(moved_share, 1)} of what they requested: "
            "the page cache fed them.",
        )
    if device is not None and device.busy < 0.1:
        return Limit("idle", share, f"{slept}, and {device.words}.")
    return Limit("unknown", share, f"{slept}.")


def _device_limit(share: float, waited: str, device: DeviceLoad | None) -> Limit:
    if device is None or device.rate_bytes_per_s <= 0:
        return Limit("device latency", share, f"{waited}; no device counters were recorded.")
    of_highest = (
        device.rate_bytes_per_s / device.highest_bytes_per_s
        if device.highest_bytes_per_s > 0
        else 0.0
    )
    large = device.request_bytes >= LARGE_REQUEST_BYTES
    kind: LimitKind = "device latency"
    reason = "small requests wait for the device, not for its bandwidth"
    if large and device.busy >= BUSY and of_highest >= HIGHEST_RATE:
        kind, reason = (
            "device bandwidth",
            f"this is {format_share(of_highest)} of the highest rate it reached",
        )
    elif large and device.busy >= BUSY:
        reason = f"this is only {format_share(of_highest)} of the highest rate it reached"
    elif large:
        reason = "between requests the device stood idle: jobs ask for one piece at a time"
    return Limit(kind, share, f"{waited}; {device.words}; {reason}.")
