"""Fault `latency-spike`: all requests, or a share of them, take longer by a fixed time."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from headrace.faults import FaultOptions
from headrace.faults.drives import DriveFault, RequestFaultOptions
from headrace.units import Seconds


class LatencySpikeOptions(RequestFaultOptions):
    """`[[fault]]` with `what = "latency-spike"`."""

    extra: Seconds = Field(
        gt=0, le=1e4, description="time that is added to each request that it meets"
    )


class LatencySpike(DriveFault):
    """Models retries of a weak sector, thermal recalibration, or a pause for the drive's
    housekeeping."""

    kind: ClassVar[str] = "latency-spike"
    Options: ClassVar[type[FaultOptions]] = LatencySpikeOptions

    def kind_of_model(self) -> dict[str, object]:
        return {"kind": "latency_spike", "extra_ms": self.options.extra * 1e3}
