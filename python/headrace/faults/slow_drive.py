"""Fault `slow-drive`: every request takes several times as long.

Examples: a worn or hot SSD, a vibrating disk.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from headrace.faults import FaultOptions
from headrace.faults.drives import DriveFault, RequestFaultOptions


class SlowDriveOptions(RequestFaultOptions):
    """`[[fault]]` with `what = "slow-drive"`."""

    factor: float = Field(gt=1, le=1e6, description="how many times as long")


class SlowDrive(DriveFault):
    """A drive that is slow, as a whole or in a range."""

    kind: ClassVar[str] = "slow-drive"
    Options: ClassVar[type[FaultOptions]] = SlowDriveOptions

    def kind_of_model(self) -> dict[str, object]:
        return {"kind": "slow_down", "factor": self.options.factor}
