"""Bytes that other programs than the watched jobs moved, by disk: what the kernel counts of a
device, less what it counts of the jobs."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable

from headrace.system.accounting import CounterFile
from headrace.system.devices import parent_disk, parts_below
from headrace.watching.own_groups import MovedBytes
from headrace.watching.used import JobSample

_SECTOR_BYTES = 512
"""Unit of /proc/diskstats (iostats.rst), whatever the device's sector is."""
_NAMES_S = 2.0
"""Age at which the disks are looked for again."""


class ForeignIo:
    """Looks at the disks of this node."""

    def __init__(self) -> None:
        self._file: CounterFile | None = None
        with contextlib.suppress(OSError):  # some containers hide it
            self._file = CounterFile("/proc/diskstats")
        self._before: dict[str, MovedBytes] = {}
        self._names_s, self._disks = -1e9, list[str]()
        self._below: dict[str, list[str]] = {}

    def look(self, jobs: Iterable[JobSample]) -> dict[str, MovedBytes]:
        """Return the bytes since the last look, of disks that moved any."""
        if self._file is None:
            return {}
        now = disk_bytes(self._file.read_whole().decode(), self._names())
        before, self._before = self._before, now
        ours: dict[str, MovedBytes] = {}
        for job in jobs:
            moved = job.last.moved
            if job.group_last is None and not moved.storage_read and not moved.storage_written:
                continue  # the usual job
            for device, counted in _of_job(job).items():
                for each in self._with_below(device):
                    mine = ours.get(each, MovedBytes())
                    ours[each] = MovedBytes(
                        mine.read + counted.read, mine.written + counted.written
                    )
        found: dict[str, MovedBytes] = {}
        for disk, total in now.items():
            had, mine = before.get(disk, total), ours.get(disk, MovedBytes())
            left = MovedBytes(
                max(0, total.read - had.read - mine.read),
                max(0, total.written - had.written - mine.written),
            )
            if any(left):
                found[disk] = left
        return found

    def _names(self) -> list[str]:
        """Return the disks of this moment, to some seconds."""
        now_s = time.monotonic()
        if now_s - self._names_s > _NAMES_S:
            self._names_s = now_s
            self._disks = os.listdir("/sys/block")  # noqa: PTH208
        return self._disks

    def _with_below(self, device: str) -> list[str]:
        """Return the disk of a device, with the only one below it, if any (dm, loop)."""
        if device not in self._below:
            disk = parent_disk(device) or device
            below = [parent_disk(part) or part for part in parts_below(disk)]
            self._below[device] = [disk, *below] if len(below) == 1 else [disk]
        return self._below[device]

    def close(self) -> None:
        """Safe to call twice."""
        if self._file is not None:
            self._file.close()


def disk_bytes(diskstats: str, disks: Iterable[str]) -> dict[str, MovedBytes]:
    """Return the bytes that each of these disks has moved since it exists."""
    wanted = set(disks)
    found: dict[str, MovedBytes] = {}
    for line in diskstats.splitlines():
        name = line.split(maxsplit=3)[2:3]
        if name and name[0] in wanted:
            fields = line.split(maxsplit=10)
            if len(fields) > 9:
                read, written = int(fields[5]), int(fields[9])
                found[name[0]] = MovedBytes(read * _SECTOR_BYTES, written * _SECTOR_BYTES)
    return found


def _of_job(job: JobSample) -> dict[str, MovedBytes]:
    """Return the bytes of a job by device, of the last interval.

    Those of its control group. Other bytes of its processes name no device: they are shared out as
    the job waited for devices that the group does not count. Control groups of version 1 count only
    devices that have, or had, a limit (seen with Linux 6.18: the counters are blk-throttle's).
    """
    counted = dict(job.group_last.io) if job.group_last is not None else {}
    moved = job.last.moved
    if not moved.storage_read and not moved.storage_written:
        return counted
    read = moved.storage_read - sum(each.read for each in counted.values())
    written = moved.storage_written - sum(each.written for each in counted.values())
    waits = {
        wait.place: spent
        for wait, spent in job.total.ledger.waits_s.items()
        if wait.kind == "block" and wait.place and wait.place not in counted
    }
    whole = sum(waits.values())
    shared = {
        place: MovedBytes(int(max(0, read) * spent / whole), int(max(0, written) * spent / whole))
        for place, spent in waits.items()
        if whole
    }
    return counted | shared
