"""The confidence required of many comparisons, so that few named differences are false. Pure.

Benjamini and Hochberg, Journal of the Royal Statistical Society B 57 (1995) 289: of the differences
named, at most 5 % are false on average (at a confidence of 95 %), and a study without any real
difference names one in at most 5 % of cases. The matching intervals: Benjamini and Yekutieli,
Journal of the American Statistical Association 100 (2005) 71. At the confidence returned here,
exactly the intervals of the named comparisons exclude zero difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from headrace.special_functions import stdtr


def joint_confidence(p_values: Sequence[float | None], confidence: float) -> float:
    """Return the confidence of each comparison's interval.

    A p-value of None is a comparison that cannot be tested. A p-value belongs to a whole
    comparison: of best against worst, times the number of pairs from which they were selected.
    """
    tested = sorted(value for value in p_values if value is not None)
    count = len(tested)
    error = 1 - confidence
    named = max(
        (rank for rank, value in enumerate(tested, 1) if value <= rank * error / count), default=0
    )
    return 1 - error * max(1, named) / max(1, count)


def pair_p_value(distance: float, variance: float, freedom: float, pairs: int) -> float | None:
    """Return the two-sided p-value of a difference selected from `pairs` pairs.

    None without an error term.

    Without scatter any difference is certain (p = 0), and equality is certain too (p = 1).
    """
    if not math.isfinite(variance) or not freedom > 0:
        return None
    if variance <= 0:
        return 0.0 if distance else 1.0
    t = abs(distance) / math.sqrt(variance)
    return min(1.0, 2 * float(stdtr(freedom, -t)) * max(1, pairs))
