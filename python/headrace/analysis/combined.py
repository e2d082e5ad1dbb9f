"""All choices together: the best combination of levels against the worst, at one load. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.analysis.cost import cost_of
from headrace.analysis.curves import choices, is_load
from headrace.analysis.findings import Combined, Estimate, Point
from headrace.analysis.log_means import LogMeans, seen_above
from headrace.analysis.naming import Kinds, level_key, varied_factors
from headrace.metrics import less_is_better


@dataclass(frozen=True)
class MeasuredCombination:
    """The cells compared, before they are judged."""

    points: tuple[Point, ...]
    values: Mapping[str, float]
    """The metric by trial."""
    workload: str
    target: str | None
    """None: cells of several targets."""
    metric: str


def measure_combinations(
    points: Sequence[Point], values: Mapping[str, float], workload: str, metric: str
) -> list[MeasuredCombination]:
    """Return the sets of cells to compare: for each target, and for all targets together, the cells
    at the largest load that several cells have.

    Only where two or more choices vary (the target is one of them): with a single choice the factor
    effect gives the same answer. `values` holds the metric by trial. Provenances are never mixed;
    load factors are not choices.
    """
    having = [
        point
        for point in points
        if point.workload == workload
        and metric in point.metrics
        # The logarithm needs positive values.
        and any(values[trial] > 0 for trial in point.metrics[metric].trials)
    ]
    targets: list[str | None] = list(dict.fromkeys(point.target for point in having))
    if len(targets) > 1:
        targets.insert(0, None)
    found: list[MeasuredCombination] = []
    for provenance in dict.fromkeys(point.provenance for point in having):
        for target in targets:
            mine = [p for p in having if p.provenance == provenance and target in (None, p.target)]
            compared = _at_largest_load(mine)
            # Where every target has only one cell, the target is the only choice.
            several = len(compared) > len({point.target for point in compared})
            if several and len(_varied(compared)) > 1:
                found.append(MeasuredCombination(tuple(compared), values, workload, target, metric))
    return found


def _varied(points: Sequence[Point]) -> list[str]:
    return varied_factors({"target": point.target, **choices(point.levels)} for point in points)


def _at_largest_load(points: Sequence[Point]) -> list[Point]:
    """Return the points at the largest load that more than one point has.

    Of several ways to make up this load (2 nodes with 4 slots, 4 with 2), the one that most points
    have: which one it is is no choice of storage.
    """
    for load in sorted({point.load for point in points}, reverse=True):
        shapes: dict[frozenset[tuple[str, str]], list[Point]] = {}
        for point in points:
            if point.load == load:
                shapes.setdefault(_shape(point), []).append(point)
        at = max(shapes.values(), key=len)
        if len(at) > 1:
            return at
    return []


def _shape(point: Point) -> frozenset[tuple[str, str]]:
    """Return the levels of the load factors that apply to a point."""
    return frozenset(
        (name, level_key(level))
        for name, level in point.levels.items()
        if is_load(name) and level is not None
    )


def p_value_of(found: MeasuredCombination) -> float | None:
    """Return the p-value of best against worst, selected from all pairs of cells; None without
    repeats."""
    means = _means(found)
    order = np.argsort(means.mean, kind="stable")
    return means.p_value(int(order[0]), int(order[-1]), _pairs(found))


def _pairs(found: MeasuredCombination) -> int:
    return len(found.points) * (len(found.points) - 1) // 2


def _means(found: MeasuredCombination) -> LogMeans:
    trials = (point.metrics[found.metric].trials for point in found.points)
    return LogMeans.of([[found.values[trial] for trial in each] for each in trials])


def judge_combination(found: MeasuredCombination, joint: float, kinds: Kinds) -> Combined:
    """Return the finding, with intervals at the confidence `joint` (jointly.py)."""
    points, less = found.points, less_is_better(found.metric)
    trials = [point.metrics[found.metric].trials for point in points]
    means = _means(found)
    order = np.argsort(means.mean, kind="stable")
    best, worst = (int(order[0]), int(order[-1])) if less else (int(order[-1]), int(order[0]))
    pairs = _pairs(found)
    different = np.abs(means.differences())
    half = means.half_widths(joint, pairs)
    detectable = means.detectable(best, worst, joint, pairs)
    above = seen_above(different, half)[best]
    return Combined(
        workload=found.workload,
        target=found.target,
        slots=points[best].load,
        metric=found.metric,
        best=_choice(points[best], found.target),
        worst=_choice(points[worst], found.target),
        cost=_cost(
            float(different[best, worst]),
            float(half[best, worst]),
            pairs,
            less,
            trials[best] + trials[worst],
        ),
        best_value=points[best].metrics[found.metric].value,
        worst_value=points[worst].metrics[found.metric].value,
        cells=len(points),
        provenance=points[best].provenance,
        alike_best=len(points) - 1 - int(above.sum()),
        detectable=None if detectable is None else cost_of(detectable, less),
        best_name=_name(points[best], points, kinds),
        worst_name=_name(points[worst], points, kinds),
    )


def _name(point: Point, among: Sequence[Point], kinds: Kinds) -> str:
    """Return what distinguishes a cell from the others, in words."""
    words = kinds.words(point.target, point.workload, point.levels)
    parts = [words[name] for name in kinds.in_order(_varied(among)) if name in words]
    if len({each.target for each in among}) > 1:
        parts.insert(0, kinds.storage(point.target))
    return ", ".join(parts)


def _cost(
    distance: float, half: float, pairs: int, less: bool, trials: tuple[str, ...]
) -> Estimate:
    value = cost_of(distance, less)
    if not math.isfinite(half):
        return Estimate(value, None, None, len(trials), "ratio of geometric means", trials)
    method = f"ratio of geometric means, Welch interval on the logarithm for {pairs} pairs"
    low, high = cost_of(distance - half, less), cost_of(distance + half, less)
    return Estimate(value, low, high, len(trials), method, trials)


def _choice(point: Point, target: str | None) -> dict[str, object]:
    levels = {name: level for name, level in choices(point.levels).items() if level is not None}
    return levels if target is not None else {"target": point.target, **levels}
