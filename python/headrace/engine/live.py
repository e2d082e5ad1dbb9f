"""What a measured trial does at this moment, by node: for displays and monitoring."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NodeLive:
    """The jobs of one node since the release of the trial's jobs."""

    name: str
    slots: int
    running: int = 0
    """Jobs released and not ended."""
    busy: int = 0
    """Running jobs that do not wait for a packet."""
    done: int = 0
    """Jobs that ended well."""
    failed: int = 0
    events: int = 0
    """Of ended jobs."""
    read_bytes: int = 0
    """Read by calls, as the kernel counts it, or from devices if that is more; of an ended job at
    least what it requested."""
    written_bytes: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    lost: bool = False
    """Whether the node cannot be reached any more."""

    @property
    def efficiency(self) -> float | None:
        """CPU time over wall time of the jobs so far; None before the first."""
        return self.cpu_s / self.wall_s if self.wall_s > 0 else None


@dataclass(frozen=True)
class PowerLive:
    """The last reading of one channel of a power meter."""

    meter: str
    channel: str
    boundary: str
    """What it covers: node, server, rack …"""
    of: tuple[str, ...]
    """Names of what it covers; empty: everything of its boundary."""
    power_w: float


@dataclass(frozen=True)
class TrialLive:
    """A trial while its jobs run, and once more when the last one has ended."""

    elapsed_s: float
    """Since the release."""
    nodes: tuple[NodeLive, ...]
    power: tuple[PowerLive, ...] = ()
    events: int = 0
    """All events processed so far; with packets also those of running workers."""
