"""Base layer: several drives as one file system with btrfs RAID profiles: create, degrade, rebuild.

A drive is removed while the file system is unmounted, as a dead drive is missing after a restart;
`btrfs replace` fills a new one from the others while the file system is in use.
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
from headrace.system.journal import Journal, JournalEntry
from headrace.system.mounts import mount
from headrace.system.processes import run_program
from headrace.system.waiting import wait_until

REDUNDANT = frozenset({1, 5, 6, 10})
_REBUILD_PATIENCE_S = 600.0


@dataclass
class MountedArray:
    """An array that is mounted on a directory."""

    journal: Journal
    level: int
    images: list[Path]
    """One file per drive."""
    directory: Path
    options: tuple[str, ...] = ()
    """Mount options."""
    entries: list[JournalEntry] = field(default_factory=list[JournalEntry])
    """Entries that undo everything, last change last.

    Those of the mount and of the drives' loop devices are replaced as these change.
    """
    _loops: list[loops.Loop | None] = field(default_factory=list["loops.Loop | None"])
    _mount: JournalEntry | None = None

    @property
    def devices(self) -> list[Path]:
        """The existing block devices."""
        return [loop.device for loop in self._loops if loop is not None]

    def make(self, mkfs: Sequence[str]) -> None:
        """Create the file system over all drives and mount it. Raises HeadraceError."""
        for image in self.images:
            self._loops.append(self._attached(image))
        first, *others = self.devices
        profile = ("-d", f"raid{self.level}", "-m", f"raid{self.level}")
        self.entries.append(
            make_filesystem(
                self.journal, first, "btrfs", (*profile, *mkfs), self.directory, others=others
            )
        )
        self._mounted()

    def _attached(self, image: Path) -> loops.Loop:
        loop = loops.attach(self.journal, image)
        self.entries.append(loop.entry)
        return loop

    def _mounted(self, *further: str) -> None:
        # The kernel must know every drive before mounting.
        run_program(
            self.journal, ["btrfs", "device", "scan", *map(str, self.devices)], timeout_s=30
        )
        source = str(self.devices[0])
        self._mount = mount(
            self.journal, source, self.directory, "btrfs", [*self.options, *further]
        )
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
        """Remove the last drive. Raises UnsupportedLevelError for an array without redundancy."""
        if self.level not in REDUNDANT:
            raise UnsupportedLevelError(
                f"RAID {self.level} without one of its drives holds nothing"
            )
        self._unmounted()
        gone = self._loops[-1]
        if gone is not None:
            run_program(
                self.journal,
                ["btrfs", "device", "scan", "--forget", str(gone.device)],
                timeout_s=30,
            )
            result = self.journal.undo(gone.entry)
            if not result.done:
                raise HeadraceError(result.text)
            self.entries.remove(gone.entry)
            self._loops[-1] = None
        self._mounted("degraded")

    def rebuild(self, fresh: Path) -> None:
        """Replace the missing drive with a new, empty one and start the rebuild.

        `fresh` is a file of the same size.
        """
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
        """Return btrfs's number of the missing drive: the one that it does not list."""
        shown = run_program(
            self.journal,
            ["btrfs", "filesystem", "show", "--raw", str(self.directory)],
            timeout_s=30,
        )
        held = {
            int(match.group(1))
            for match in re.finditer(r"devid\s+(\d+)\s+size\s+(\d+)\s.*path\s+(\S+)", shown)
            if Path(match.group(3)) in self.devices
        }
        return next(number for number in range(1, len(self.images) + 1) if number not in held)

    def state(self) -> str:
        """Return the kernel's state: `whole`, `degraded` or `rebuilding`."""
        if self._loops[-1] is None:
            return "degraded"
        said = run_program(
            self.journal, ["btrfs", "replace", "status", "-1", str(self.directory)], timeout_s=30
        )
        return "rebuilding" if re.search(r"\d+(\.\d+)?% done", said) else "whole"

    def wait_rebuilt(self) -> float:
        """Wait until the new drive is filled; return the seconds that took."""
        begun = time.monotonic()
        if not wait_until(lambda: self.state() != "rebuilding", _REBUILD_PATIENCE_S, 0.2):
            raise HeadraceError(f"the array is not rebuilt within {_REBUILD_PATIENCE_S:g} s")
        return time.monotonic() - begun

    def release(self) -> None:
        """Remove the whole array. Safe to call twice.

        Raises HeadraceError that names what could not be removed; a second call tries again.
        """
        self.journal.put_back(self.entries)
        self._loops.clear()
        self._mount = None
