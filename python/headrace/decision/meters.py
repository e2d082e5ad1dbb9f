"""What draws of a configuration's energy are off by, because its meters are. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from headrace.decision.randomness import Draws, Randomness
from headrace.metrics import less_is_better, metric_of
from headrace.records.meter_errors import MeterErrors

MeteredEnergy = Literal["total", "metered"]


@dataclass(frozen=True)
class MeteredBy:
    """The errors of the meters of one cell's trials, by what they are of."""

    errors: Mapping[MeteredEnergy, tuple[MeterErrors, ...]] = field(
        default_factory=dict["MeteredEnergy", "tuple[MeterErrors, ...]"]
    )
    """Of each trial that has some."""
    trials: int = 0

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> MeteredBy:
        """Return those of these trials (rows of `Records.trials`)."""
        found: dict[MeteredEnergy, tuple[MeterErrors, ...]] = {}
        kinds: tuple[MeteredEnergy, ...] = ("total", "metered")
        for kind in kinds:
            here = tuple(row["meter_errors"][kind] for row in rows if kind in row["meter_errors"])
            if here:
                found[kind] = here
        return cls(found, len(rows))

    @property
    def calibration(self) -> dict[str, float]:
        """Return the relative error of the whole energy by each meter, the mean of the trials."""
        return self._calibration("total")

    def _calibration(self, kind: MeteredEnergy) -> dict[str, float]:
        found: dict[str, float] = {}
        for each in self.errors.get(kind, ()):
            for meter, error in each.calibration.items():
                found[meter] = found.get(meter, 0.0) + error / self.trials
        return found

    def applied(self, draws: dict[str, Draws], random: Randomness) -> dict[str, Draws]:
        """Return draws of metrics with these errors.

        The calibration of a meter is off by the same in all that it measures, so it does not tell
        two configurations apart. Its readings are off by something else in each trial.
        """
        found = dict(draws)
        for kind, errors in self.errors.items():
            calibrated = np.ones(random.draws)
            for meter, error in self._calibration(kind).items():
                calibrated = calibrated + error * random.meter(meter)
            squares = sum(each.reading**2 for each in errors)
            reading = math.sqrt(squares) / self.trials
            read = 1 + reading * random.source.normal(size=random.draws)
            for name in draws:
                if metered_energy_of(name) != kind:
                    continue
                off = calibrated if name == "idle_power_w" else calibrated * read
                off = np.maximum(off, 1e-9)
                # Events per energy is the only one of them of which more is better.
                found[name] = draws[name] * off if less_is_better(name) else draws[name] / off
        return found


def note_on_meters(cells: Iterable[MeteredBy]) -> tuple[str, ...]:
    """Return a sentence on the meters whose calibration the energies share; none without any."""
    worst: dict[str, float] = {}
    for cell in cells:
        for meter, error in cell.calibration.items():
            worst[meter] = max(worst.get(meter, 0.0), error)
    if not worst:
        return ()
    named = ", ".join(f"{100 * error:.2g} % by {meter}" for meter, error in worst.items())
    return (
        f"power and energy have the standard error of the meters' calibration, {named}; it is the "
        "same for all that one meter measures",
    )


def metered_energy_of(name: str) -> MeteredEnergy | None:
    """Return which energy a metric is of; None of those that no error of a meter affects."""
    if name == "energy_metered_wh_per_job":
        return "metered"
    # Idle power is measured by the meters of the rest.
    of_total = name == "idle_power_w" or metric_of(name).relative_uncertainty is not None
    return "total" if of_total else None
