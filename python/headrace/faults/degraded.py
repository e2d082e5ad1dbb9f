"""Fault `degraded`: a RAID loses a drive and continues without it.

With a duration, the RAID is then rebuilt onto a new drive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from headrace.errors import Problem, UnsupportedLevelError
from headrace.faults import FaultOptions
from headrace.faults.drives import DriveFault
from headrace.targets import Location

if TYPE_CHECKING:
    from headrace.system.journal import Journal


class RaidFaultOptions(FaultOptions):
    """Options of faults of a RAID."""

    drive: int = Field(0, ge=0, description="which drive of the RAID, from 0")


class RaidFault(DriveFault):
    """A fault of a redundant RAID by the model."""

    def check_on(self, target: str, options: Any) -> list[Problem]:
        """Return a problem if the target has no RAID that can lose a drive."""
        raid = getattr(options, "raid", None)
        if getattr(options, "drive", None) is None or raid is None or raid.level == 0:
            what = (
                f"fault {self.kind} needs a RAID of drives of the catalog that can lose one, "
                f"and target {target} has none"
            )
            return [
                Problem(
                    what,
                    f"fault {self.options.label}",
                    "raid = { level = 1, drives = 2 }, or 5, 6, 10",
                )
            ]
        if getattr(raid, "by", "model") == "kernel":
            what = (
                f"fault {self.kind} affects a RAID of the model's, and that of target {target} "
                "is the kernel's"
            )
            return [
                Problem(
                    what,
                    f"fault {self.options.label}",
                    "drop-off takes a drive from the kernel's RAID",
                )
            ]
        return super().check_on(target, options)

    def inject(self, location: Location, journal: Journal) -> None:
        if any(len(devices) != 1 for devices in location.emulated_by_node):
            raise UnsupportedLevelError(f"{self.kind}: the target is not a RAID of the model's")
        super().inject(location, journal)


class Degraded(RaidFault):
    """A drive of a redundant RAID is out of service."""

    kind: ClassVar[str] = "degraded"
    Options: ClassVar[type[FaultOptions]] = RaidFaultOptions

    def kind_of_model(self) -> dict[str, object]:
        return {"kind": "degraded"}
