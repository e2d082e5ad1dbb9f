"""Ground: an array of several drives as one file system, by btrfs's own profiles: made, degraded, rebuilt.

A drive is taken away while the file system is not mounted, as a dead one is missing at the next start; `btrfs replace` fills a new one
from the others while the file system is in use.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.errors import HeadraceError, UnsupportedLevelError
from headrace.system import loops
from headrace.system.filesystems import make_filesystem
from headrace.system.journal import Entry, Journal
from headrace.system.mounts import mount
from headrace.system.processes import run_program

LEAST_DRIVES = {0: 2, 1: 2, 5: 3, 6: 4, 10: 4}
"""Drives that each RAID level takes at least; btrfs's raid10 could do with two, which is no RAID 10."""
REDUNDANT = frozenset({1, 5, 6, 10})
_REBUILD_PATIENCE_S = 600.0


@dataclass
class Array:
    """An array that is mounted on a directory."""

    journal: Journal
    level: int
    images: list[Path]
    """A file a drive."""
    directory: Path
    options: tuple[str, ...] = ()
    """Mount options."""
    entries: list[Entry] = field(default_factory=list[Entry])
    """What undoes it all, last change last; those of the mount and of the drives' loop devices are renewed as they change."""
    _loops: list[loops.Loop | None] = field(default_factory=list["loops.Loop | None"])
    _mount: Entry | None = None

    @property
    def devices(self) -> list[Path]:
        """The block devices that are there."""
        return [loop.device for loop in self._loops if loop is not None]

    def make(self, mkfs: Sequence[str]) -> None:
        """Makes the file system over all drives and mounts it. Raises HeadraceError."""
        for image in self.images:
            self._loops.append(self._attached(image))
        first, *others = self.devices
        profile = ("-d", f"raid{self.level}", "-m", f"raid{self.level}")
        self.entries.append(
            make_filesystem(self.journal, first, "btrfs", (*profile, *mkfs), self.directory, others=others)
        )
        self._mounted()

    def _attached(self, image: Path) -> loops.Loop:
        loop = loops.attach(self.journal, image)
        self.entries.append(loop.entry)
        return loop

    def _mounted(self, *further: str) -> None:
        # The kernel has to know every drive before it mounts.
        run_program(self.journal, ["btrfs", "device", "scan", *map(str, self.devices)], timeout_s=30)
        source = str(self.devices[0])
        self._mount = mount(self.journal, source, self.directory, "btrfs", [*self.options, *further])
        self.entries.append(self._mount)

    def _unmounted(self) -> None:
        if self._mount is None:
            return
        result = self.journal.undo(self._mount)
        if not result.done:
            raise HeadraceError(result.text)
        self.entries.remove(self._mount)
        self._mount = None

    def degrade(self) -> None:
        """Takes the last drive away. Raises UnsupportedLevelError for an array that has nothing twice."""
        if self.level not in REDUNDANT:
            raise UnsupportedLevelError(f"RAID {self.level} without one of its drives holds nothing")
        self._unmounted()
        gone = self._loops[-1]
        if gone is not None:
            run_program(self.journal, ["btrfs", "device", "scan", "--forget", str(gone.device)], timeout_s=30)
            result = self.journal.undo(gone.entry)
            if not result.done:
                raise HeadraceError(result.text)
            self.entries.remove(gone.entry)
            self._loops[-1] = None
        self._mounted("degraded")

    def rebuild(self, fresh: Path) -> None:
        """Puts a new, empty drive (a file of the same size) in the place of the one that is gone, and begins to fill it."""
        if self._loops[-1] is not None:
            raise HeadraceError("no drive is missing")
        loop = self._attached(fresh)
        argv = [
            "btrfs",
            "replace",
            "start",
            "-f",
            str(self._missing()),
            str(loop.device),
            str(self.directory),
        ]
        run_program(self.journal, argv, timeout_s=60)
        self._loops[-1], self.images[-1] = loop, fresh

    def _missing(self) -> int:
        """Number of the missing drive as btrfs counts: that which is not among those shown."""
        shown = run_program(
            self.journal, ["btrfs", "filesystem", "show", "--raw", str(self.directory)], timeout_s=30
        )
        held = {
            int(match.group(1))
            for match in re.finditer(r"devid\s+(\d+)\s+size\s+(\d+)\s.*path\s+(\S+)", shown)
            if Path(match.group(3)) in self.devices
        }
        return next(number for number in range(1, len(self.images) + 1) if number not in held)

    def state(self) -> str:
        """`whole`, `degraded` or `rebuilding`, as the kernel has it."""
        if self._loops[-1] is None:
            return "degraded"
        said = run_program(
            self.journal, ["btrfs", "replace", "status", "-1", str(self.directory)], timeout_s=30
        )
        return "rebuilding" if re.search(r"\d+(\.\d+)?% done", said) else "whole"

    def wait_rebuilt(self) -> float:
        """Waits until the new drive is filled; the seconds that took."""
        begun = time.monotonic()
        while self.state() == "rebuilding":
            if time.monotonic() - begun > _REBUILD_PATIENCE_S:
                raise HeadraceError(f"the array is not rebuilt within {_REBUILD_PATIENCE_S:g} s")
            time.sleep(0.2)
        return time.monotonic() - begun

    def release(self) -> list[str]:
        """Takes all of it down; what could not be, in words. Safe to call twice."""
        left: list[str] = []
        while self.entries:
            result = self.journal.undo(self.entries.pop())
            if not result.done:
                left.append(result.text)
        self._loops.clear()
        self._mount = None
        return left
