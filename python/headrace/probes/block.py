"""Probe `block`: rate, IOPS, queue and latency of the target's devices, from `stat` in sysfs.

Fields as in the kernel's Documentation/block/stat.rst; a sector there is always 512 bytes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from headrace.probes import Probe, Totals, Watch
from headrace.system.accounting import CounterFile
from headrace.units import format_amount

_SECTOR_BYTES = 512
_CLASS = Path("/sys/class/block")

_BACKGROUND_BYTES = 16 << 20
_BACKGROUND_BYTES_PER_S = 1 << 20
_COMPETING_SHARE = 0.10


@dataclass(frozen=True)
class _Counters:
    requests_read: int
    sectors_read: int
    read_ms: int
    requests_write: int
    sectors_write: int
    write_ms: int
    in_flight: int
    busy_ms: int


def _parse(text: bytes) -> _Counters:
    field = text.split()
    return _Counters(
        requests_read=int(field[0]),
        sectors_read=int(field[2]),
        read_ms=int(field[3]),
        requests_write=int(field[4]),
        sectors_write=int(field[6]),
        write_ms=int(field[7]),
        in_flight=int(field[8]),
        busy_ms=int(field[9]),
    )


class _Device:
    """One device: its counters at the start and at the last sample."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.file = CounterFile(_CLASS / name / "stat", 512)
        self.first = self.last = _parse(self.file.read())

    def row(self, span_s: float) -> dict[str, Any]:
        """Return the change since the last sample, `span_s` ago.

        Raises OSError if the device has disappeared.
        """
        now, before = _parse(self.file.read()), self.last
        self.last = now
        reads = now.requests_read - before.requests_read
        writes = now.requests_write - before.requests_write
        return {
            "device": self.name,
            "read_bytes_per_s": (now.sectors_read - before.sectors_read) * _SECTOR_BYTES / span_s,
            "write_bytes_per_s": (now.sectors_write - before.sectors_write)
            * _SECTOR_BYTES
            / span_s,
            "read_iops": reads / span_s,
            "write_iops": writes / span_s,
            "in_flight": now.in_flight,
            "read_latency_ms": (now.read_ms - before.read_ms) / reads if reads else None,
            "write_latency_ms": (now.write_ms - before.write_ms) / writes if writes else None,
            "busy": min(1.0, (now.busy_ms - before.busy_ms) / 1000 / span_s),
        }


class BlockProbe(Probe):
    """One series per device. Totals sum over the uppermost devices of a stack, so that no byte
    counts twice."""

    kind: ClassVar[str] = "block"

    def __init__(self) -> None:
        self._devices: list[_Device] = []
        self._gone: list[str] = []
        self._last_s = 0.0

    def start(self, watch: Watch) -> None:
        """Open the counters. A missing device makes the trial invalid."""
        self._gone = []
        self._devices = []
        for name in watch.device_names:
            try:
                self._devices.append(_Device(name))
            except OSError:
                self._gone.append(name)
        self._last_s = time.monotonic()

    def sample(self) -> list[dict[str, Any]]:
        """Return one row per device."""
        # One moment for all: a thread that has to wait for a CPU between two of them would give
        # the second a rate of another span.
        now_s = time.monotonic()
        span_s, self._last_s = max(now_s - self._last_s, 1e-6), now_s
        rows: list[dict[str, Any]] = []
        for device in self._devices:
            try:
                rows.append(device.row(span_s))
            except OSError:
                if device.name not in self._gone:
                    self._gone.append(device.name)
        return rows

    def finish(self) -> Totals:
        """Return the `device` mapping of docs/records.md and `devices`, the devices summed; empty
        without a device.

        A device that disappeared makes the trial invalid: its I/O since its last sample is in no
        sum.
        """
        self.sample()
        summed = [
            device
            for device in self._devices
            if device.name in uppermost([d.name for d in self._devices])
        ]
        for device in self._devices:
            device.file.close()
        self._devices = []
        invalid = [("device-gone", _gone_text(name)) for name in self._gone]
        if not summed:
            return Totals(invalid=invalid)
        grown = [(device.first, device.last) for device in summed]
        return Totals(
            {
                "devices": [device.name for device in summed],
                "gone": self._gone,
                "bytes_read": sum(b.sectors_read - a.sectors_read for a, b in grown)
                * _SECTOR_BYTES,
                "bytes_written": sum(b.sectors_write - a.sectors_write for a, b in grown)
                * _SECTOR_BYTES,
                "requests_read": sum(b.requests_read - a.requests_read for a, b in grown),
                "requests_write": sum(b.requests_write - a.requests_write for a, b in grown),
                "busy_s": sum(b.busy_ms - a.busy_ms for a, b in grown) / 1000,
                "read_latency_s": sum(b.read_ms - a.read_ms for a, b in grown) / 1000,
                "write_latency_s": sum(b.write_ms - a.write_ms for a, b in grown) / 1000,
            },
            invalid,
        )

    @classmethod
    @override
    def combine(cls, values: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        """Return the sums; a device is named with its node."""
        having = {node: totals for node, totals in values.items() if totals}
        if not having:
            return {}
        lists = {
            name: [f"{node}:{device}" for node, totals in having.items() for device in totals[name]]
            for name in ("devices", "gone")
        }
        numbers = next(iter(having.values())).keys() - lists.keys()
        sums = {name: sum(totals[name] for totals in having.values()) for name in numbers}
        return {**lists, **sums}


def _gone_text(name: str) -> str:
    return (
        f"the counters of device {name} could not be read to the end of the trial: it was not "
        "there, or went away"
    )


def uppermost(names: list[str]) -> set[str]:
    """Return the devices on which no other of them is built (a RAID, a mapping, a partition)."""
    return {
        name
        for name in names
        if not any(
            other != name
            and ((_CLASS / name / "holders" / other).exists() or (_CLASS / name / other).exists())
            for other in names
        )
    }


def competing_io(
    device: dict[str, Any],
    jobs_read_bytes: int,
    duration_s: float,
    jobs_written_bytes: int | None = None,
) -> tuple[str, str] | None:
    """Return (code, sentence) if processes other than the jobs moved data on the device; pure.

    `device`: the totals above. `jobs_read_bytes`: what the jobs' processes made devices read
    (`bytes_device`). `jobs_written_bytes`: what they wrote; None to check reads only. Filesystems
    read and write metadata and the machine has background I/O, so the threshold is 1 MiB/s (at
    least 16 MiB) and 10 % of all data moved.
    """
    moved, caused = device["bytes_read"], jobs_read_bytes
    if jobs_written_bytes is not None:
        moved += device["bytes_written"]
        # Data that is still dirty in the page cache has not moved yet.
        caused += min(jobs_written_bytes, device["bytes_written"])
    foreign = moved - caused
    if (
        foreign <= max(_BACKGROUND_BYTES, _BACKGROUND_BYTES_PER_S * duration_s)
        or foreign <= _COMPETING_SHARE * moved
    ):
        return None
    return (
        "competing-io",
        f"the device moved {format_amount(moved)}, of which the jobs caused "
        f"{format_amount(caused)}: "
        f"{100 * foreign / moved:.0f} % was other I/O",
    )
