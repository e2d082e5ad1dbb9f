"""Fault `disk-full`: fills the target's file system, down to a given number of free bytes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from headrace.errors import Problem, UnsupportedLevelError
from headrace.faults import FaultOptions, InjectedFault
from headrace.system.owned import fill
from headrace.targets import Location
from headrace.units import Bytes

if TYPE_CHECKING:
    from headrace.system.journal import Journal, JournalEntry


class DiskFullOptions(FaultOptions):
    """`[[fault]]` with `what = "disk-full"`."""

    free: Bytes = Field(0, description="bytes that stay free")


class DiskFull(InjectedFault):
    """A file system without free space. The space is only reserved, not written, so that the device
    stays idle."""

    kind: ClassVar[str] = "disk-full"
    Options: ClassVar[type[FaultOptions]] = DiskFullOptions

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._journal: Journal | None = None
        self._entries: list[JournalEntry] = []

    def check(self) -> list[Problem]:
        return []

    def inject(self, location: Location, journal: Journal) -> None:
        if location.directory is None:
            raise UnsupportedLevelError(f"disk-full: {location.url} is not a directory")
        self._journal = journal
        places = location.node_directories if location.local_drives else (location.directory,)
        for place in places:
            self._entries.append(fill(journal, place, self.options.free))
        self.fired += 1

    def lift(self) -> None:
        if self._entries and self._journal is not None:
            self._journal.put_back(self._entries)
            os.sync()  # the space becomes free only when its release is on disk
