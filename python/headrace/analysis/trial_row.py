"""One trial as a row of `Records.trials`."""

from __future__ import annotations

from typing import Any, TypedDict, cast

from headrace.records.energy_basis import EnergyBasis
from headrace.records.interference import Interference
from headrace.records.inventory import Inventory
from headrace.records.trial_record import FaultRecord, JsonObject


class TrialRow(TypedDict):
    """The columns that findings read by row; metrics and sums are read by column."""

    id: str
    cell: str
    index: int
    repeat: int
    status: str
    provenance: str
    cause: str | None
    valid: bool
    reasons: tuple[tuple[str, str], ...]
    """Pairs of code and text."""
    warnings: tuple[tuple[str, str], ...]
    interference: Interference | None
    target: str
    workload: str
    slots: int
    nodes: int
    levels: JsonObject
    location: JsonObject
    faults: tuple[FaultRecord, ...]
    last_done_s: float | None
    load: str
    jobs: float
    """Number of jobs; NaN without any."""
    cpu_cores: float
    results: JsonObject
    energy_basis: EnergyBasis | None
    inventory: Inventory | None


def trial_rows(trials: Any) -> list[TrialRow]:
    """Return the trials of a frame one by one; none if it is empty."""
    # By column: a frame has four times as many, and pandas looks at each value.
    names = [name for name in TrialRow.__annotations__ if name in trials]
    columns = [trials[name].tolist() for name in names]
    rows = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    return cast("list[TrialRow]", rows)
