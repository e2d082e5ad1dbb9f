"""What is learnt of a drive: values with their uncertainty, and what could not be determined."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from headrace.drives.learning.traffic import OtherTraffic
from headrace.scenario import Table

USED_BY_OTHERS = "other programs used the drive"
DIGITS = 6
"""Digits of a number in the file of a learnt drive."""
ROUNDING = 0.5 * 10 ** (1 - DIGITS)
"""Largest relative error of a number with so many digits."""


@dataclass(frozen=True)
class LearntValue:
    """One value."""

    name: str
    """Dotted path in the drive's table, or a name of its own for a value that is only shown."""
    value: float
    error: float | None
    """Standard error; None where a search ends with the exact value."""
    unit: str
    how: str
    """The measurement that it follows from, in a few words."""
    part: str = ""
    """The part of the script that found it."""
    doubt: str = ""
    """Why it is doubtful; empty if it is not."""


@dataclass(frozen=True)
class Unknown:
    """What could not be determined, and why."""

    name: str
    why: str


@dataclass(frozen=True)
class LoadCheck:
    """One load of the script, as measured and as the learnt drive's model has it."""

    name: str
    measured_iops: float
    modelled_iops: float
    measured_p50_s: float
    modelled_p50_s: float
    measured_p99_s: float
    modelled_p99_s: float


@dataclass
class LearntDrive:
    """A learnt drive."""

    table: Table = field(default_factory=dict[str, object])
    values: list[LearntValue] = field(default_factory=list[LearntValue])
    unknown: list[Unknown] = field(default_factory=list[Unknown])
    checks: list[LoadCheck] = field(default_factory=list[LoadCheck])
    seconds: float = 0.0
    """Time of the requests."""
    fit_cpu_s: float = 0.0
    """CPU time of the fits, which is not in it."""
    read_bytes: int = 0
    written_bytes: int = 0
    others: list[OtherTraffic] = field(default_factory=list[OtherTraffic])
    """Requests of other programs, by part of the script."""

    def add(self, name: str, value: float, unit: str, how: str, error: float | None = None) -> None:
        """Add a value."""
        self.values.append(LearntValue(name, float(value), error, unit, how))

    def doubt(self, how: str, why: str) -> None:
        """Make the values that follow from a measurement doubtful."""
        self.values = [
            replace(each, doubt=why) if each.how == how else each for each in self.values
        ]

    def doubt_all(self, why: str) -> None:
        """Make all values doubtful."""
        self.values = [replace(each, doubt=why) for each in self.values]

    def end_part(self, part: str, others: OtherTraffic | None) -> None:
        """End a part of the script; many requests of others make its values doubtful."""
        if others is not None:
            self.others.append(others)
        disturbed = others is not None and others.doubtful
        self.values = [
            each
            if each.part
            else replace(each, part=part, doubt=USED_BY_OTHERS if disturbed else each.doubt)
            for each in self.values
        ]


def standard_error(values: npt.NDArray[np.float64]) -> float:
    """Return the standard error of the mean."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def spread(values: npt.NDArray[np.float64]) -> float:
    """Return the standard deviation of the bulk, from the median absolute deviation."""
    return float(1.4826 * np.median(np.abs(values - np.median(values))))
