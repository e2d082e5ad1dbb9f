"""Where a rate stops growing with load, and how many concurrent jobs a storage feeds. Pure.

Both have an interval. The knee of a rate is judged by Welch intervals of the ratios of all pairs of
points. Slots fed are judged by the intervals of the efficiencies: the fewest is the largest number
up to which every lower bound reaches the required efficiency, the most is the largest up to which
every upper bound does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headrace.analysis.findings import Growth, Knee, Point, SlotsFed
from headrace.analysis.log_means import LogMeans, seen_above
from headrace.metrics import less_is_better

KNEE_SHARE = 0.95
"""The knee is the smallest load that reaches this share of the highest rate."""

Values = Mapping[str, float]
"""A metric of trials, by their ids."""


@dataclass(frozen=True)
class _Plateau:
    """Where rates, by rising load, stop growing."""

    at: int
    """Position of the smallest load within 5 % of the highest rate."""
    low: int | None
    """Position of the first that may reach that share."""
    high: int | None
    """Position of the first that is shown to reach it."""
    falls: bool
    difference_seen: bool | None


def _plateau(
    rates: Sequence[float],
    values: Sequence[Sequence[float]],
    confidence: float,
    less: bool = False,
) -> _Plateau:
    """Return where rates stop growing; with `less`, where values for which less is better stop
    falling: their reciprocals are such rates."""
    if less:
        rates = [1 / rate if rate > 0 else 0.0 for rate in rates]
        values = [[1 / value for value in each if value > 0] for each in values]
    at = next(index for index, rate in enumerate(rates) if rate >= KNEE_SHARE * max(rates))
    means = LogMeans.of(values)
    if not means.repeated:
        return _Plateau(at, None, None, rates[-1] < KNEE_SHARE * rates[at], None)
    different, half = means.differences(), means.half_widths(confidence)
    # Of many pairs some differ by chance: only differences that hold for all pairs at once count.
    pairs = len(rates) * (len(rates) - 1) // 2
    above = seen_above(different, means.half_widths(confidence, pairs))
    share = np.log(KNEE_SHARE)
    # A point without repeats has NaN bounds: it neither excludes nor confirms anything.
    possible = ~(different + half < share).any(axis=1)
    sure = (different - half >= share).all(axis=1)
    return _Plateau(
        at,
        int(np.argmax(possible)) if possible.any() else None,
        int(np.argmax(sure)) if sure.any() else None,
        bool(above[at, -1]) and rates[-1] < KNEE_SHARE * rates[at],
        bool(above.any()),
    )


def find_knee(
    points: Sequence[Point],
    metric: str | None,
    values: Values | None = None,
    confidence: float = 0.95,
) -> Knee | None:
    """Return the smallest load with a rate within 5 % of the highest, if larger ones were tried.

    None when the rate still grows at the largest load, or with fewer than two points. `values` is
    the metric by trial; without it the knee has no interval. Of a metric for which less is better,
    it is the smallest load within 5 % of the lowest.
    """
    if metric is None:
        return None
    having = [point for point in points if metric in point.metrics]
    rates = [point.metrics[metric].value for point in having]
    if len(having) < 2 or max(rates) <= 0:
        return None
    less = less_is_better(metric)
    found = _plateau(rates, _values_of(having, metric, values), confidence, less)
    if found.at == len(having) - 1:
        return None
    at = having[found.at]
    return Knee(
        slots=at.load,
        metric=metric,
        value=at.metrics[metric].value,
        beyond=_beyond(found, less),
        low=None if found.low is None else having[found.low].load,
        high=None if found.high is None else having[found.high].load,
        difference_seen=found.difference_seen,
    )


def _beyond(found: _Plateau, less: bool) -> str:
    return ("rises" if less else "falls") if found.falls else "level"


def find_growth(
    points: Sequence[Point],
    metric: str | None,
    values: Values | None = None,
    confidence: float = 0.95,
) -> Growth | None:
    """Return how a rate grows with clients; None without any rate.

    `values` is the metric by trial.
    """
    if metric is None:
        return None
    sign = -1 if (less := less_is_better(metric)) else 1
    best: dict[int, Point] = {}
    for point in points:
        if metric not in point.metrics:
            continue
        other = best.get(point.load)
        if other is None or sign * point.metrics[metric].value > sign * other.metrics[metric].value:
            best[point.load] = point
    if not best:
        return None
    clients = tuple(sorted(best))
    having = [best[number] for number in clients]
    rates = tuple(point.metrics[metric].value for point in having)
    found = _plateau(rates, _values_of(having, metric, values), confidence, less)
    last = found.at == len(clients) - 1
    return Growth(
        metric=metric,
        clients=clients,
        rates=rates,
        enough=clients[found.at],
        beyond="untried" if last else _beyond(found, less),
        why=having[found.at].limit.kind,
        low=None if found.low is None else clients[found.low],
        high=None if found.high is None else clients[found.high],
        difference_seen=found.difference_seen,
    )


def _values_of(points: Sequence[Point], metric: str, values: Values | None) -> list[list[float]]:
    known = values or {}
    return [
        [known[trial] for trial in point.metrics[metric].trials if trial in known]
        for point in points
    ]


def slots_fed(points: Sequence[Point], bound: float) -> SlotsFed | None:
    """Return how many concurrent jobs the storage feeds; None when no point has an efficiency.

    This is the largest number tried up to which every number tried reaches the job efficiency
    `bound`. Where the efficiency crosses `bound` is interpolated linearly between it and the next
    number. The fewest and the most come from the intervals of the efficiencies in the same way.
    """
    having = [point for point in points if "efficiency" in point.metrics]
    if not having:
        return None
    estimates = [point.metrics["efficiency"] for point in having]
    loads = [point.load for point in having]
    held, crossing = _held(loads, [each.value for each in estimates], bound)
    found = SlotsFed(
        slots=loads[held - 1] if held else 0,
        interpolated=crossing,
        efficiency=bound,
        censored=held == len(having),
        why="" if held == len(having) else having[held].limit.kind,
        smallest=loads[0],
    )
    if all(each.low is None for each in estimates):
        return found
    # A missing interval becomes 0..1: it confirms nothing and excludes nothing.
    low, low_crossing = _held(
        loads, [0.0 if each.low is None else each.low for each in estimates], bound
    )
    high, high_crossing = _held(
        loads, [1.0 if each.high is None else each.high for each in estimates], bound
    )
    return replace(
        found,
        low=loads[low - 1] if low else 0,
        high=loads[high - 1] if high else 0,
        open_above=high == len(having),
        interpolated_low=low_crossing,
        interpolated_high=high_crossing,
    )


def _held(
    loads: Sequence[int], efficiencies: Sequence[float], bound: float
) -> tuple[int, float | None]:
    """Return how many of the first points reach `bound`, and where the efficiency crosses it."""
    for index, value in enumerate(efficiencies):
        if value < bound:
            if index == 0:
                return 0, None
            upper = efficiencies[index - 1]
            step = loads[index] - loads[index - 1]
            return index, loads[index - 1] + (upper - bound) / (upper - value) * step
    return len(loads), None
