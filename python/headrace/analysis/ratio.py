"""The ratio of two means with its interval, used for comparisons and faults. Pure."""

from __future__ import annotations

import math

import numpy as np

from headrace.analysis.contrasts import ROUNDING
from headrace.analysis.findings import Estimate
from headrace.special_functions import stdtr, stdtrit


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
    # Welch's test (Biometrika 34 (1947) 28), degrees of freedom by Welch and Satterthwaite, as in
    # scipy.stats.ttest_ind, whose import takes a quarter of the CPU time of a short study.
    share_a, share_b = (float(logs.var(ddof=1)) / len(logs) for logs in (logs_a, logs_b))
    error = math.sqrt(share_a + share_b)
    freedom = (share_a + share_b) ** 2 / (
        share_a**2 / (len(logs_a) - 1) + share_b**2 / (len(logs_b) - 1)
    )
    difference = float(logs_b.mean() - logs_a.mean())
    half = float(stdtrit(freedom, 0.5 + confidence / 2)) * error
    estimate = Estimate(
        math.exp(distance),
        math.exp(difference - half),
        math.exp(difference + half),
        len(ids),
        method,
        ids,
    )
    return estimate, 2 * float(stdtr(freedom, -abs(difference) / error))


def ratio_of_pairs(
    a: np.ndarray, b: np.ndarray, ids: tuple[str, ...], confidence: float
) -> tuple[Estimate, float | None]:
    """Return B/A as a ratio of geometric means, with the t interval of the logarithms' differences
    in pairs, and the p-value. `a` and `b` are in the same order; two or more each."""
    distances = np.log(b) - np.log(a)
    mean = float(distances.mean())
    method = "ratio of geometric means, t interval of pairs on the logarithm"
    if float(np.ptp(distances)) < ROUNDING:
        # The same in every pair, for example in two simulations of the same.
        value = math.exp(0.0 if abs(mean) < ROUNDING else mean)
        return Estimate(value, value, value, len(ids), method, ids), None
    freedom = len(distances) - 1
    error = float(distances.std(ddof=1)) / math.sqrt(len(distances))
    half = float(stdtrit(freedom, 0.5 + confidence / 2)) * error
    estimate = Estimate(
        math.exp(mean), math.exp(mean - half), math.exp(mean + half), len(ids), method, ids
    )
    return estimate, 2 * float(stdtr(freedom, -abs(mean) / error))
