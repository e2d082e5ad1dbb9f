"""Cost of the worst level against the best, and the smallest detectable cost. Pure."""

from __future__ import annotations

import math

from headrace.analysis.findings import Estimate
from headrace.analysis.log_means import POWER
from headrace.special_functions import stdtrit


def cost_of(distance: float, less: bool) -> float:
    """Return a distance of logarithms as a cost: 1 - worst/best, or worst/best - 1 where less is
    better."""
    return math.expm1(distance) if less else -math.expm1(-distance)


def cost_estimate(
    distance: float,
    variance: float,
    freedom: float,
    pairs: int,
    confidence: float,
    less: bool,
    trials: tuple[str, ...],
) -> Estimate:
    """Return the cost of worst against best, from the distance of their logarithms.

    The interval holds for `pairs` pairs at once (Bonferroni), because the data selected best and
    worst. There is none without degrees of freedom.
    """
    if freedom <= 0 or not math.isfinite(variance):
        return Estimate(
            cost_of(distance, less), None, None, len(trials), "ratio of geometric means", trials
        )
    half = _quantile(freedom, pairs, confidence) * math.sqrt(variance) if variance > 0 else 0.0
    return Estimate(
        cost_of(distance, less),
        cost_of(distance - half, less),
        cost_of(distance + half, less),
        len(trials),
        f"ratio of geometric means, t interval on the logarithm for {pairs} "
        f"pair{'s' if pairs != 1 else ''}",
        trials,
    )


def detectable_cost(
    variance: float, freedom: float, pairs: int, confidence: float, less: bool
) -> float:
    """Return the cost that would have been detected with 80 % probability."""
    if variance <= 0:
        return 0.0
    steps = _quantile(freedom, pairs, confidence) + float(stdtrit(freedom, POWER))
    return cost_of(steps * math.sqrt(variance), less)


def _quantile(freedom: float, pairs: int, confidence: float) -> float:
    return float(stdtrit(freedom, 1 - (1 - confidence) / 2 / max(1, pairs)))
