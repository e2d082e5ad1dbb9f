"""Mean logarithms of a rate at several points, compared by Welch intervals of all pairs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.analysis.contrasts import ROUNDING
from headrace.analysis.jointly import pair_p_value
from headrace.special_functions import stdtr, stdtrit

POWER = 0.8
"""Probability with which a detectable difference would have been detected."""


@dataclass(frozen=True)
class LogMeans:
    """Points whose values are compared as ratios. Values that are not positive are left out."""

    mean: np.ndarray
    """Mean logarithm of each point; -inf without a value."""
    variance: np.ndarray
    """Variance of each mean; NaN with fewer than two values."""
    count: np.ndarray

    @classmethod
    def of(cls, values: Sequence[Sequence[float]]) -> LogMeans:
        """Compute them from the values of each point."""
        logs = [np.log([value for value in each if value > 0]) for each in values]
        count = np.array([len(each) for each in logs])
        mean = np.array([each.mean() if len(each) else -np.inf for each in logs])
        variance = np.array(
            [each.var(ddof=1) / len(each) if len(each) > 1 else np.nan for each in logs]
        )
        # Scatter below ROUNDING is floating-point error, as in a simulation without noise.
        return cls(mean, np.where(variance < ROUNDING**2, 0.0, variance), count)

    @property
    def repeated(self) -> bool:
        """Whether at least two points have repeats, so that a difference can be tested."""
        return bool((self.count > 1).sum() > 1)

    def differences(self) -> np.ndarray:
        """Return the mean logarithm of the row minus that of the column, for all pairs; rounding
        errors become 0."""
        with np.errstate(invalid="ignore"):
            found = self.mean[:, None] - self.mean[None, :]
        return np.where(np.abs(found) < ROUNDING, 0.0, found)

    def half_widths(self, confidence: float, pairs: int = 1) -> np.ndarray:
        """Return the half width of each difference's Welch interval; NaN where it has none.

        The diagonal is 0. The intervals of `pairs` pairs hold at once (Bonferroni).
        """
        error = self.variance[:, None] + self.variance[None, :]
        freedom = self._freedom(error)
        quantile = stdtrit(freedom, 1 - (1 - confidence) / 2 / max(1, pairs))
        half = np.where(error == 0, 0.0, quantile * np.sqrt(error))
        np.fill_diagonal(half, np.where(self.count > 0, 0.0, np.nan))
        return half

    def p_value(self, one: int, other: int, pairs: int = 1) -> float | None:
        """Return the p-value of a pair selected from `pairs` pairs; None without repeats."""
        pair = LogMeans(
            self.mean[[one, other]], self.variance[[one, other]], self.count[[one, other]]
        )
        error = pair.variance[:, None] + pair.variance[None, :]
        freedom = float(pair._freedom(error)[0, 1])
        return pair_p_value(float(pair.differences()[0, 1]), float(error[0, 1]), freedom, pairs)

    def smallest_p(self, pairs: int) -> float | None:
        """Return the smallest p-value, corrected for `pairs` pairs; None without repeats."""
        error = self.variance[:, None] + self.variance[None, :]
        with np.errstate(invalid="ignore", divide="ignore"):
            t = np.where(error > 0, np.abs(self.differences()) / np.sqrt(error), np.nan)
        p = 2 * stdtr(self._freedom(error), -t) * pairs
        # Without scatter any difference is certain (p = 0), and equality is certain too (p = 1).
        p = np.where(error == 0, np.where(self.differences() == 0, 1.0, 0.0), p)
        found = p[np.triu_indices(len(self.mean), 1)]
        return None if np.isnan(found).all() else float(min(1.0, np.nanmin(found)))

    def detectable(self, one: int, other: int, confidence: float, pairs: int = 1) -> float | None:
        """Return the difference of two points that would have been detected with 80 %
        probability; None without repeats."""
        both = [one, other]
        pair = LogMeans(self.mean[both], self.variance[both], self.count[both])
        half = float(pair.half_widths(confidence, pairs)[0, 1])
        if half == 0:
            return 0.0
        error = float(pair.variance.sum())
        freedom = float(pair._freedom(pair.variance[:, None] + pair.variance[None, :])[0, 1])
        return None if np.isnan(half) else half + float(stdtrit(freedom, POWER)) * error**0.5

    def _freedom(self, error: np.ndarray) -> np.ndarray:
        """Return degrees of freedom by Welch and Satterthwaite."""
        squares = self.variance**2 / np.maximum(self.count - 1, 1)
        total = squares[:, None] + squares[None, :]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(total > 0, error**2 / np.where(total > 0, total, 1.0), np.inf)


def seen_above(differences: np.ndarray, half_widths: np.ndarray) -> np.ndarray:
    """Return for all pairs whether the row is significantly above the column: its interval
    excludes zero difference."""
    with np.errstate(invalid="ignore"):
        return differences - half_widths > 0
