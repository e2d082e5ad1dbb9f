"""What draws of a configuration's numbers scatter by. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.analysis.scatter import relative_spread, storage_of
from headrace.decision.cells import CandidateCell, rate_name
from headrace.records.inventory import Inventory

Draws = npt.NDArray[np.float64]
"""Values of one number, a draw each."""

ASSUMED_SPREAD = 0.1
"""Relative standard deviation of rates between repeats where no configuration was measured twice.
An assumption: with none, two single trials would show any difference."""
_NOT_REPEATED = "no configuration was measured twice: repeats are taken to differ by 10 %"

SETTINGS_ERROR = 0.03
"""Relative error of a simulated rate between settings of one storage with the same slots, at most.
Twice what is left in the reproduction of *cluster-energy* without the mean error of each storage:
1.0 % of the energies and 1.5 % of the times, over 28 filesystems and schedulers each."""
SLOTS_SHARE = 0.5
"""Share of the model's error (its variance) that is another one for each number of slots of a
storage. An assumption: in the reproduction of *proof-ssd*, curves over slots are as far off as
storages are."""


@dataclass(frozen=True)
class Spread:
    """Relative standard deviations between repeats of several configurations."""

    rate: float
    power: float


@dataclass(frozen=True)
class Spreads:
    """How far repeats scatter."""

    alone: dict[bool, Spread]
    """Of simulated cells (True), and of the others: for cells with one trial."""
    of_storage: dict[tuple[bool, str, str], Spread]
    """Of the cells of a storage with one workload, where several have repeats: simulated or not,
    storage, workload."""
    notes: tuple[str, ...] = ()
    """What is assumed."""


def spreads_of(cells: Sequence[CandidateCell]) -> Spreads:
    """Return the spreads of these cells. Simulated cells without repeats have none."""
    alone: dict[bool, Spread] = {}
    notes: tuple[str, ...] = ()
    groups: dict[tuple[bool, str, str], list[_Rows]] = {}
    for simulated in (True, False):
        mine = [cell for cell in cells if (cell.provenance == "simulated") == simulated]
        every = [rows for cell in mine for _, rows in cell.rows.values()]
        rate, power = _pooled_spread(every), _pooled_spread(every, "mean_power_w")
        if rate is None and mine and not simulated:
            notes = (_NOT_REPEATED,)
        other = 0.0 if simulated else ASSUMED_SPREAD
        alone[simulated] = Spread(
            other if rate is None else rate, other if power is None else power
        )
        for cell in mine:
            for workload, (_, rows) in cell.rows.items():
                if len(rows) > 1:
                    name = storage_of(cell.target, rows[0]["inventory"] or ())
                    groups.setdefault((simulated, name, workload), []).append(rows)
    of_storage = {
        name: Spread(_pooled_spread(each) or 0.0, _pooled_spread(each, "mean_power_w") or 0.0)
        for name, each in groups.items()
        if len(each) > 1
    }
    return Spreads(alone, of_storage, notes)


_Rows = Sequence[Mapping[str, Any]]


def _pooled_spread(cells: Sequence[_Rows], name: str = "") -> float | None:
    """Return the relative standard deviation of a metric between repeats, over all cells; of the
    rate if none is named. None when no cell has repeats."""
    return relative_spread(
        [row["metrics"].get(name or rate_name(row["metrics"]), math.nan) for row in rows]
        for rows in cells
    )


class Randomness:
    """Where draws come from. Cells of one storage share what the model of it does not know."""

    def __init__(
        self,
        source: np.random.Generator,
        draws: int,
        error: float | None,
        spreads: Spreads,
    ) -> None:
        self.source = source
        self.draws = draws
        self.error = error
        """Relative error of simulated rates."""
        self.spreads = spreads
        self._factors: dict[str, Draws] = {}
        self._meters: dict[str, Draws] = {}

    def model_factor(self, target: str, inventory: Inventory, slots: int) -> Draws:
        """Return the factors between the true and the simulated rates of a configuration.

        One part is common to all configurations of a storage, one to those with the same slots.
        """
        storage = storage_of(target, inventory)
        error = self.error or 0.0
        common = self._common(storage, error * math.sqrt(1 - SLOTS_SHARE))
        of_slots = self._common(f"{storage} {slots}", error * math.sqrt(SLOTS_SHARE))
        own = self.source.normal(0.0, min(error, SETTINGS_ERROR), self.draws)
        return common * of_slots * np.exp(own)

    def meter(self, name: str) -> Draws:
        """Return the error of a meter's calibration, in standard deviations: the same whenever
        this name is given."""
        if name not in self._meters:
            self._meters[name] = self.source.normal(size=self.draws)
        return self._meters[name]

    def _common(self, name: str, error: float) -> Draws:
        """Return the same factors whenever this name is given."""
        if name not in self._factors:
            self._factors[name] = np.exp(self.source.normal(0.0, error, self.draws))
        return self._factors[name]
