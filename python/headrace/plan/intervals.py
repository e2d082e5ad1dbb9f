"""Intervals of a mean and of a median from few repeats, for adaptive repeats and for findings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Statistic = Literal["mean", "median"]


@dataclass(frozen=True)
class Interval:
    """A statistic of some values with its confidence bounds; None with too few values."""

    value: float
    low: float | None
    high: float | None
    method: str

    @property
    def half_width(self) -> float:
        """Half the interval over the value; infinite without an interval or for a value of 0."""
        if self.low is None or self.high is None or self.value == 0:
            return math.inf
        return (self.high - self.low) / 2 / abs(self.value)


def interval(values: Sequence[float], confidence: float, statistic: Statistic = "mean") -> Interval:
    """Return the mean with its t interval, or the median with its interval by order statistics.

    Raises ValueError without values.
    """
    if len(values) == 0:
        raise ValueError("no values")
    if statistic == "median":
        return _median(np.sort(np.asarray(values, dtype=np.float64)), confidence)
    mean = float(np.mean(values))
    if len(values) < 2:
        return Interval(mean, None, None, "one trial")
    # On first use: a plan without repeats to judge needs no SciPy.
    from headrace.special_functions import stdtrit

    half = float(
        stdtrit(len(values) - 1, 0.5 + confidence / 2)
        * np.std(values, ddof=1)
        / math.sqrt(len(values))
    )
    return Interval(mean, mean - half, mean + half, "mean, t interval")


def _median(ordered: np.ndarray, confidence: float) -> Interval:
    """Return the order statistics that enclose the median for any distribution.

    [x(k+1), x(n-k)] misses the median with probability 2 P(B <= k), B binomial(n, 1/2), so k is the
    largest that keeps this within 1 - confidence (Conover, Practical Nonparametric Statistics, 3rd
    ed., section 3.2). At 95 % this needs six values.
    """
    from headrace.special_functions import bdtr

    count = len(ordered)
    middle = float(np.median(ordered))
    below = -1
    while below + 1 < count and bdtr(below + 1, count, 0.5) <= (1 - confidence) / 2:
        below += 1
    if below < 0:
        return Interval(
            middle,
            None,
            None,
            f"median, {count} trial{'s' if count != 1 else ''} are too few for an interval",
        )
    return Interval(
        middle, float(ordered[below]), float(ordered[count - 1 - below]), "median, order statistics"
    )
