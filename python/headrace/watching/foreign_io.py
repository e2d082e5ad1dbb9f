"""Bytes that other programs than the watched jobs moved, by disk: what the kernel counts of a
device, less what it counts of the jobs."""

from __future__ import annotations

import os
from collections.abc import Iterable

from headrace.system.accounting import CounterFile
from headrace.system.devices import parent_disk, parts_below
from headrace.watching.job import JobSample
from headrace.watching.own_groups import MovedBytes

_SECTOR_BYTES = 512
"""Unit of /proc/diskstats (iostats.rst), whatever the device's sector is."""


class ForeignIo:
    """Looks at the disks of this node."""

    def __init__(self) -> None:
        self._file = CounterFile("/proc/diskstats", 1 << 18)
        self._before: dict[str, MovedBytes] = {}
        self._below: dict[str, list[str]] = {}

    def look(self, jobs: Iterable[JobSample]) -> dict[str, MovedBytes]:
        """Return the bytes since the last look, of disks that moved any."""
        now = disk_bytes(self._file.read().decode(), os.listdir("/sys/block"))  # noqa: PTH208
        before, self._before = self._before, now
        ours: dict[str, MovedBytes] = {}
        for job in jobs:
            for device, moved in _of_job(job).items():
                for each in self._with_below(device):
                    mine = ours.get(each, MovedBytes())
                    ours[each] = MovedBytes(mine.read + moved.read, mine.written + moved.written)
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

    def _with_below(self, device: str) -> list[str]:
        """Return the disk of a device, with the only one below it, if any (dm, loop)."""
        if device not in self._below:
            disk = parent_disk(device) or device
            below = [parent_disk(part) or part for part in parts_below(disk)]
            self._below[device] = [disk, *below] if len(below) == 1 else [disk]
        return self._below[device]

    def close(self) -> None:
        """Safe to call twice."""
        self._file.close()


def disk_bytes(diskstats: str, disks: Iterable[str]) -> dict[str, MovedBytes]:
    """Return the bytes that each of these disks has moved since it exists."""
    wanted = set(disks)
    return {
        fields[2]: MovedBytes(int(fields[5]) * _SECTOR_BYTES, int(fields[9]) * _SECTOR_BYTES)
        for fields in map(str.split, diskstats.splitlines())
        if len(fields) > 9 and fields[2] in wanted
    }


def _of_job(job: JobSample) -> dict[str, MovedBytes]:
    """Return the bytes of a job by device, of the last interval.

    Those of its control group. Without one of its own: the bytes of its processes, shared out as it
    waited; these name no device.
    """
    if job.group_last is not None and job.group_last.io:
        return dict(job.group_last.io)
    moved = job.last.moved
    if not moved.storage_read and not moved.storage_written:
        return {}
    waits = {
        wait.place: spent
        for wait, spent in job.total.ledger.waits_s.items()
        if wait.kind == "block" and wait.place
    }
    whole = sum(waits.values())
    return {
        place: MovedBytes(
            int(moved.storage_read * spent / whole), int(moved.storage_written * spent / whole)
        )
        for place, spent in waits.items()
        if whole
    }
