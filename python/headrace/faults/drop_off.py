"""Fault `drop-off`: a disconnected drive fails all requests until the fault ends."""

from __future__ import annotations

from typing import ClassVar

from headrace.faults import FaultOptions
from headrace.faults.drives import DriveFault, DriveFaultOptions


class DropOffOptions(DriveFaultOptions):
    """`[[fault]]` with `what = "drop-off"`."""


class DropOff(DriveFault):
    """A failed cable, backplane or controller: every request fails at once. A redundant RAID
    continues without the drive."""

    kind: ClassVar[str] = "drop-off"
    Options: ClassVar[type[FaultOptions]] = DropOffOptions

    def kind_of_model(self) -> dict[str, object]:
        return {"kind": "drop_off"}
