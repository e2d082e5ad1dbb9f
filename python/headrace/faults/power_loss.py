"""Fault `power-loss`: the drives lose power and all data not on stable storage.

This includes acknowledged data. During the jobs a witness writes numbered records, each forced to
stable storage before the next. When power is back and the jobs are done, the file system is checked
as after a crash, and every acknowledged record must exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from headrace.errors import HeadraceError
from headrace.faults import FaultOptions
from headrace.faults.drives import DriveFault
from headrace.faults.witness import Witness
from headrace.targets import Location
from headrace.units import Seconds

if TYPE_CHECKING:
    from headrace.system.journal import Journal


class PowerLossOptions(FaultOptions):
    """`[[fault]]` with `what = "power-loss"`. `duration`: how long the power is off."""

    witness: Seconds | None = Field(
        0.25, gt=0, description="time between two records of the witness that proves what is kept"
    )


class PowerLoss(DriveFault):
    """Power loss of every drive of the target, and a check of what survived."""

    kind: ClassVar[str] = "power-loss"
    Options: ClassVar[type[FaultOptions]] = PowerLossOptions

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._witness: Witness | None = None
        self._devices_before: dict[str, int] = {}

    def kind_of_model(self) -> dict[str, object]:
        return {"kind": "power_loss"}

    def begin(self, location: Location, journal: Journal) -> None:
        self._devices_before = {
            device.name: device.report().lost_bytes for device in location.emulated
        }
        if location.directory is not None and self.options.witness is not None:
            self._witness = Witness(location.directory, self.options.witness)
            self._witness.start()

    def end(self, location: Location, journal: Journal) -> None:
        """Count the losses: on the drives, and of the witness's records."""
        lost = 0
        for device in location.emulated:
            lost += device.report().lost_bytes - self._devices_before.get(device.name, 0)
        self.seen["lost_bytes"] = lost
        if self._witness is None or location.directory is None:
            return
        self._witness.stop()
        if location.verify_after_crash is not None:
            try:
                self.seen["file_system"] = location.verify_after_crash()
            except HeadraceError as error:
                self.seen["file_system"] = error.message
        self.seen |= self._witness.verdict(location.directory)

    def abandon(self) -> None:
        if self._witness is not None:
            self._witness.stop()
