"""What draws of a configuration's numbers scatter by. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
    """Relative standard deviations between repeats, for cells with one trial."""

    rate: float
    power: float


def spreads_of(cells: Sequence[CandidateCell]) -> tuple[dict[bool, Spread], tuple[str, ...]]:
    """Return the spread of the simulated cells (True) and of the others (False), and a note where
    it is assumed. Simulated cells without repeats have none."""
    found: dict[bool, Spread] = {}
    notes: tuple[str, ...] = ()
    for simulated in (True, False):
        mine = [cell for cell in cells if (cell.provenance == "simulated") == simulated]
        rate, power = _pooled_spread(mine), _pooled_spread(mine, "mean_power_w")
        if rate is None and mine and not simulated:
            notes = (_NOT_REPEATED,)
        other = 0.0 if simulated else ASSUMED_SPREAD
        found[simulated] = Spread(
            other if rate is None else rate, other if power is None else power
        )
    return found, notes


def _pooled_spread(cells: Sequence[CandidateCell], name: str = "") -> float | None:
    """Return the relative standard deviation of a metric between repeats, over all cells; of the
    rate if none is named. None when no cell has repeats."""
    squares, freedom = 0.0, 0
    for cell in cells:
        for _, rows in cell.rows.values():
            values = [
                row["metrics"].get(name or rate_name(row["metrics"]), math.nan) for row in rows
            ]
            logs = np.log([value for value in values if value > 0])
            if len(logs) > 1:
                squares += float(((logs - logs.mean()) ** 2).sum())
                freedom += len(logs) - 1
    return math.sqrt(squares / freedom) if freedom else None


class Randomness:
    """Where draws come from. Cells of one storage share what the model of it does not know."""

    def __init__(
        self,
        source: np.random.Generator,
        draws: int,
        error: float | None,
        spreads: Mapping[bool, Spread],
    ) -> None:
        self.source = source
        self.draws = draws
        self.error = error
        """Relative error of simulated rates."""
        self.spreads = spreads
        """Of simulated cells (True), and of others."""
        self._factors: dict[str, Draws] = {}

    def model_factor(self, target: str, inventory: Inventory, slots: int) -> Draws:
        """Return the factors between the true and the simulated rates of a configuration.

        One part is common to all configurations of a storage, one to those with the same slots.
        """
        storage = repr((target, [(item.name, item.count) for item in inventory]))
        error = self.error or 0.0
        common = self._common(storage, error * math.sqrt(1 - SLOTS_SHARE))
        of_slots = self._common(f"{storage} {slots}", error * math.sqrt(SLOTS_SHARE))
        own = self.source.normal(0.0, min(error, SETTINGS_ERROR), self.draws)
        return common * of_slots * np.exp(own)

    def _common(self, name: str, error: float) -> Draws:
        """Return the same factors whenever this name is given."""
        if name not in self._factors:
            self._factors[name] = np.exp(self.source.normal(0.0, error, self.draws))
        return self._factors[name]
