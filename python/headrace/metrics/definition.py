"""The definition of a metric: what a module of this package, or another package, writes once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from headrace.metrics.trial import RecordedTrial
from headrace.records.trial_record import TrialRecord
from headrace.study.model import Price

Better = Literal["more", "less"]
Scale = Literal["plain", "prefixed", "time", "share"]


@dataclass(frozen=True)
class Metric:
    """The definition of a metric."""

    name: str
    """Name in CSV and JSON: the unit comes last."""
    title: str
    """Title in table heads and on axes, without the unit."""
    unit: str = ""
    """Unit of the values, without a prefix: `B/s`, `events/s`. Empty for times and shares."""
    scale: Scale = "plain"
    """Scaling for display: none, SI prefixes, as a time, as a percentage."""
    unit_s: float = 1.0
    """For times: seconds per unit of the value."""
    better: Better = "more"
    value: Callable[[RecordedTrial], float | None] | None = None
    """Value of one trial; None, NaN or infinity when the trial has none."""
    value_for_price: Callable[[Mapping[str, float], Price], float | None] | None = None
    """For metrics of money: value from the trial's other metrics and the price of its target."""
    needs: str = "jobs"
    """What a trial must have recorded for this metric."""
    provenance: Callable[[TrialRecord], str] | None = None
    """Provenance of the value, if it differs from the provenance of the trial."""
    of_energy: bool = False
    """Whether no trial without energy in its record has a value. Nothing is then computed for it.
    """
    relative_uncertainty: Callable[[TrialRecord], float | None] | None = None
    """Standard uncertainty over the value, from an error that all repeats share, such as that of a
    meter's calibration: repeats do not make it smaller.
    """
    rank: int = 1000
    """Position among the columns of tables."""
    secondary: bool = False
    """Whether effects of factors and differences between results are also reported for this metric,
    in addition to the main one.
    """
    only_with: str = ""
    """Restrict that to trials that also have this metric."""
    byte_boundary: bool = False
    """Whether this is a byte rate at one of the boundaries between job and device; these share a
    plot.
    """
    highest: float = math.inf
    """Largest possible value."""

    @property
    def less_is_better(self) -> bool:
        """Whether smaller values are better."""
        return self.better == "less"
