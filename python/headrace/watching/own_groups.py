"""What the control groups of a job count, where the job has groups for itself: bytes by device, and
pressure (PSI). Version 2: `io.stat`, `cpu.pressure`, `io.pressure`, `memory.pressure`; version 1:
`blkio.throttle.io_service_bytes_recursive`, no pressure.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from headrace.system.accounting import CounterFile, pressure_totals_us
from headrace.system.devices import name_of
from headrace.watching.group_places import directory_of, groups_of, has_only

_OWN_S = 10.0
"""Time between two looks whether the groups have processes of others."""
_LONGEST = 8.0
"""So many times longer between two looks at groups that always have."""
RESOURCES = ("cpu", "io", "memory")
_BLKIO = "blkio.throttle.io_service_bytes_recursive"


class MovedBytes(NamedTuple):
    """Bytes that a device read and wrote."""

    read: int = 0
    written: int = 0


class PressureStall(NamedTuple):
    """Time in which threads waited for a resource."""

    some_s: float = 0.0
    """At least one."""
    full_s: float = 0.0
    """All of those that were not idle."""


@dataclass(frozen=True)
class GroupUse:
    """What the groups of a job counted."""

    io: Mapping[str, MovedBytes] = field(default_factory=dict[str, MovedBytes])
    """By device."""
    stalls: Mapping[str, PressureStall] = field(default_factory=dict[str, PressureStall])
    """By resource; empty without PSI."""
    sources: tuple[str, ...] = ()

    def __add__(self, other: GroupUse) -> GroupUse:
        io, stalls = dict(self.io), dict(self.stalls)
        for device, moved in other.io.items():
            mine = io.get(device, MovedBytes())
            io[device] = MovedBytes(mine.read + moved.read, mine.written + moved.written)
        for resource, stall in other.stalls.items():
            has = stalls.get(resource, PressureStall())
            stalls[resource] = PressureStall(has.some_s + stall.some_s, has.full_s + stall.full_s)
        return GroupUse(io, stalls, other.sources or self.sources)

    def __sub__(self, earlier: GroupUse) -> GroupUse:
        """Return the increase since `earlier`, never below zero."""
        io = {
            device: MovedBytes(
                max(0, moved.read - earlier.io.get(device, MovedBytes()).read),
                max(0, moved.written - earlier.io.get(device, MovedBytes()).written),
            )
            for device, moved in self.io.items()
        }
        stalls = {
            resource: PressureStall(
                max(0.0, stall.some_s - earlier.stalls[resource].some_s),
                max(0.0, stall.full_s - earlier.stalls[resource].full_s),
            )
            for resource, stall in self.stalls.items()
            if resource in earlier.stalls
        }
        return GroupUse(io, stalls, self.sources)


def io_stat(text: bytes) -> dict[str, MovedBytes]:
    """Return the bytes by device number of an `io.stat` file (cgroup-v2.rst)."""
    found: dict[str, MovedBytes] = {}
    for line in text.decode().splitlines():
        number, *fields = line.split()
        values = dict(each.split("=", 1) for each in fields if "=" in each)
        if "rbytes" in values:
            found[number] = MovedBytes(int(values["rbytes"]), int(values["wbytes"]))
    return found


def blkio_bytes(text: bytes) -> dict[str, MovedBytes]:
    """Return the same of `blkio.throttle.io_service_bytes_recursive` of version 1."""
    found: dict[str, MovedBytes] = {}
    for line in text.decode().splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[1] in ("Read", "Write"):
            read, written = found.get(fields[0], MovedBytes())
            if fields[1] == "Read":
                read = int(fields[2])
            else:
                written = int(fields[2])
            found[fields[0]] = MovedBytes(read, written)
    return found


class OwnGroups:
    """The counters of the groups that one job has for itself."""

    def __init__(self, own_s: float = _OWN_S) -> None:
        """`own_s`: time between two looks which groups the job has for itself."""
        self._own_s = self._wait_s = own_s
        self._looked_s = -1e9
        self._paths: dict[str, Path] = {}
        self._files: dict[str, CounterFile] = {}
        self._last: GroupUse | None = None
        self.names: dict[str, str] = {}
        """Kernel names by device number."""

    def use(self, pids: Collection[int], *, pressure: bool = True) -> GroupUse | None:
        """Return what was counted since the last call; None when the job has no such group.

        `pressure`: read it, too; three more files.
        """
        now_s = time.monotonic()
        if now_s - self._looked_s > self._wait_s and pids:
            self._looked_s = now_s
            self._find(pids)
            # A job that has no group for itself seldom gets one later.
            longer_s = min(2 * self._wait_s, _LONGEST * self._own_s)
            self._wait_s = self._own_s if self._paths else longer_s
        if not self._files:
            return None
        try:
            now = self._read(pressure)
        except (OSError, ValueError):
            self.close()
            return None
        before, self._last = self._last, now
        return None if before is None else now - before

    def _read(self, pressure: bool) -> GroupUse:
        io: dict[str, MovedBytes] = {}
        if (file := self._files.get("io.stat")) is not None:
            io = io_stat(file.read())
        elif (file := self._files.get(_BLKIO)) is not None:
            io = blkio_bytes(file.read())
        stalls: dict[str, PressureStall] = {}
        for resource in RESOURCES if pressure else ():
            if (file := self._files.get(f"{resource}.pressure")) is not None:
                some_us, full_us = pressure_totals_us(file.read())
                stalls[resource] = PressureStall(some_us / 1e6, full_us / 1e6)
        return GroupUse(
            {self._name(number): moved for number, moved in io.items()},
            stalls,
            tuple(name for name in self._files if pressure or "pressure" not in name),
        )

    def _name(self, number: str) -> str:
        if number not in self.names:
            self.names[number] = name_of(number) or number
        return self.names[number]

    def _find(self, pids: Collection[int]) -> None:
        wanted: dict[str, Path] = {}
        groups: dict[str, str] = {}
        with contextlib.suppress(OSError, ValueError):
            groups = groups_of(next(iter(pids)))
        if (group := directory_of(groups, "")) is not None and has_only(group, pids):
            for name in ("io.stat", *(f"{resource}.pressure" for resource in RESOURCES)):
                wanted[name] = group / name
        if "io.stat" not in wanted or not wanted["io.stat"].exists():
            wanted.pop("io.stat", None)
            if (group := directory_of(groups, "blkio")) is not None and has_only(group, pids):
                wanted[_BLKIO] = group / _BLKIO
        if wanted != self._paths:  # groups may change while those before still exist
            self.close()
            self._paths = wanted
            for name, path in wanted.items():
                with contextlib.suppress(OSError):
                    self._files[name] = CounterFile(path, 65536)

    def close(self) -> None:
        """Safe to call twice."""
        for file in self._files.values():
            file.close()
        self._files, self._paths, self._last = {}, {}, None
