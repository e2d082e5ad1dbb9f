"""Requests of other programs on the drive that is learnt: what the kernel counted on its disk
beyond what the script issued."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from headrace.system import devices

MOST_SHARE = 0.01
"""Requests of others per own request, above which values are doubtful: the script leaves out more
than this share of late answers."""


@dataclass(frozen=True)
class DiskSums:
    """Sums of a disk since the machine started, or differences of them."""

    requests: int = 0
    read_sectors: int = 0
    written_sectors: int = 0

    def __sub__(self, other: DiskSums) -> DiskSums:
        return DiskSums(
            self.requests - other.requests,
            self.read_sectors - other.read_sectors,
            self.written_sectors - other.written_sectors,
        )

    def __add__(self, other: DiskSums) -> DiskSums:
        return DiskSums(
            self.requests + other.requests,
            self.read_sectors + other.read_sectors,
            self.written_sectors + other.written_sectors,
        )


@dataclass(frozen=True)
class OtherTraffic:
    """Requests of others during a part of the script."""

    part: str
    requests: int
    """At least; the kernel divides large requests and merges small ones."""
    read_bytes: int
    written_bytes: int
    doubtful: bool
    """So many that the values of this part are doubtful."""


def parse_stat(text: str) -> DiskSums:
    """Return the counters of `/sys/block/NAME/stat` (Documentation/block/stat.rst)."""
    fields = [int(word) for word in text.split()]
    return DiskSums(fields[0] + fields[4], fields[2], fields[6])


def others_in(part: str, counted: DiskSums, issued: DiskSums) -> OtherTraffic | None:
    """Return what was counted beyond what was issued; None if nothing was."""
    more = counted - issued
    if more.read_sectors <= 0 and more.written_sectors <= 0:
        return None
    requests = max(more.requests, 1)
    return OtherTraffic(
        part,
        requests,
        max(more.read_sectors, 0) * 512,
        max(more.written_sectors, 0) * 512,
        requests > MOST_SHARE * issued.requests,
    )


class DiskCounters:
    """Counters of the whole disk of a block device, so that other partitions count, too."""

    def __init__(self, device: Path) -> None:
        name = os.path.realpath(device).rsplit("/", 1)[-1]
        self._folder = Path("/sys/class/block") / (devices.parent_disk(name) or name)

    def read(self) -> DiskSums | None:
        """Return the counters; None if the kernel does not count for this disk."""
        try:
            if (self._folder / "queue/iostats").read_text().strip() == "0":
                return None
            return parse_stat((self._folder / "stat").read_text())
        except (OSError, ValueError, IndexError):
            return None
