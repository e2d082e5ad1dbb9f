"""Coverage of a mean's interval when repeats are added until the interval is narrow enough.

Such an interval is narrow partly because the values happen to be close together. It contains the
true mean less often than an interval from a fixed number of repeats (Anscombe, "Large-sample theory
of sequential estimation", 1952; Chow and Robbins, 1965).
"""

from __future__ import annotations

from functools import cache

import numpy as np

_CELLS = 10_000
_REPEATS_MAX = 100
"""Maximum of the simulation; larger maxima are treated as this one."""
_WIDTHS = np.geomspace(0.2, 5, 24)
"""Requested half widths of the interval, in standard deviations of a repeat."""


@cache
def least_coverage(fewest: int, most: int, confidence: float) -> float:
    """Return the share of cells whose interval contains the true mean, for the worst half width.

    `fewest` and `most` are `repeats.min` and `repeats.max`; `confidence` is that of the intervals.
    The rule of `plan/repeats.py` is simulated for 10,000 cells of normally distributed repeats with
    a fixed seed: accurate to 0.003. With `most` = `fewest` the coverage equals the confidence.
    """
    from headrace.special_functions import stdtrit

    fewest, most = max(fewest, 2), min(max(most, 2), _REPEATS_MAX)
    if most <= fewest:
        return confidence
    count = np.arange(1, most + 1)
    values = np.random.default_rng(1).standard_normal((_CELLS, most))
    mean = values.cumsum(axis=1) / count
    squares = (values**2).cumsum(axis=1) - count * mean**2
    with np.errstate(divide="ignore", invalid="ignore"):
        half = stdtrit(count - 1, 0.5 + confidence / 2) * np.sqrt(squares / (count - 1) / count)
    inside = np.abs(mean) <= half
    shares: list[float] = []
    for width in _WIDTHS:
        stops = half[:, fewest - 1 :] <= width
        stops[:, -1] = True
        last = fewest - 1 + stops.argmax(axis=1)
        shares.append(float(inside[np.arange(_CELLS), last].mean()))
    return min(*shares, confidence)
