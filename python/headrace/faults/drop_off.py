"""Fault `drop-off`: a disconnected drive fails all requests until the fault ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.faults import FaultOptions
from headrace.faults.drives import DriveFault, DriveFaultOptions
from headrace.targets import Location

if TYPE_CHECKING:
    from headrace.system.journal import Journal


class DropOffOptions(DriveFaultOptions):
    """`[[fault]]` with `what = "drop-off"`."""


class DropOff(DriveFault):
    """A failed cable, backplane or controller: every request fails at once. A redundant RAID
    continues without the drive."""

    kind: ClassVar[str] = "drop-off"
    Options: ClassVar[type[FaultOptions]] = DropOffOptions

    def kind_of_model(self) -> dict[str, object]:
        return {"kind": "drop_off"}

    def inject(self, location: Location, journal: Journal) -> None:
        super().inject(location, journal)
        # Then nothing moves, whatever the devices count.
        self.seen["every_drive"] = self.options.drive is None
