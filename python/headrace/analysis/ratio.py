"""The ratio of two means with its interval, used for comparisons and faults. Pure."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import stats

from headrace.analysis.contrasts import ROUNDING
from headrace.analysis.findings import Estimate


def ratio_of_means(
    a: np.ndarray, b: np.ndarray, ids: tuple[str, ...], confidence: float
) -> tuple[Estimate, float | None]:
    """Return B/A as a ratio of geometric means, with Welch's interval on the logarithm, and the
    p-value."""
    logs_a, logs_b = np.log(a), np.log(b)
    distance = float(logs_b.mean() - logs_a.mean())
    if abs(distance) < ROUNDING:
        # Without scatter, a rounding error would count as a certain difference.
        distance = 0.0
    method = "ratio of geometric means, Welch interval on the logarithm"
    if len(a) < 2 or len(b) < 2:
        return Estimate(
            math.exp(distance), None, None, len(ids), "ratio of geometric means", ids
        ), None
    if max(float(np.ptp(logs_a)), float(np.ptp(logs_b))) < ROUNDING:
        # No scatter in either, for example in a simulation without noise.
        return Estimate(
            math.exp(distance), math.exp(distance), math.exp(distance), len(ids), method, ids
        ), None
    test: Any = stats.ttest_ind(logs_b, logs_a, equal_var=False)
    bounds: Any = test.confidence_interval(confidence)
    estimate = Estimate(
        math.exp(distance), math.exp(bounds.low), math.exp(bounds.high), len(ids), method, ids
    )
    return estimate, float(test.pvalue)
