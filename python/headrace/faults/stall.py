"""Fault `stall`: no request to the drive completes before the fault ends."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from headrace.faults import FaultOptions
from headrace.faults.drives import DriveFault, RequestFaultOptions
from headrace.units import Seconds


class StallOptions(RequestFaultOptions):
    """`[[fault]]` with `what = "stall"`."""

    duration: Seconds | None = Field(  # pyright: ignore[reportGeneralTypeIssues]
        gt=0, description="how long nothing ends; the kernel gives a request up after 20 s and more"
    )


class Stall(DriveFault):
    """A drive that does not answer for some time."""

    kind: ClassVar[str] = "stall"
    Options: ClassVar[type[FaultOptions]] = StallOptions

    def kind_of_model(self) -> dict[str, object]:
        return {"kind": "stall"}
