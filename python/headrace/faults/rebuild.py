"""Fault `rebuild`: a new drive of a RAID is filled from the others while jobs run."""

from __future__ import annotations

from typing import ClassVar

from headrace.faults import FaultOptions
from headrace.faults.degraded import RaidFault, RaidFaultOptions


class Rebuild(RaidFault):
    """A RAID that rebuilds under load, as fast as Linux md allows (`dev.raid.speed_limit_max`)."""

    kind: ClassVar[str] = "rebuild"
    Options: ClassVar[type[FaultOptions]] = RaidFaultOptions

    def kind_of_model(self) -> dict[str, object]:
        return {"kind": "rebuild"}
