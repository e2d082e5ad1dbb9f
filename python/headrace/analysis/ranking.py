"""Sort curves best first by the headline metric, with ranks by significant differences. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from headrace.analysis.curves import Family, family_of
from headrace.analysis.faults import is_spared
from headrace.analysis.findings import Curve, Point
from headrace.analysis.log_means import LogMeans, seen_above
from headrace.metrics import less_is_better


def peak(curve: Curve, metric: str | None) -> Point | None:
    """Return the valid point with the best value of a metric; None without any."""
    having = [point for point in curve.points if metric is not None and metric in point.metrics]
    if metric is None or not having:
        return None
    return (min if less_is_better(metric) else max)(
        having, key=lambda point: point.metrics[metric].value
    )


def groups_of(curves: Sequence[Curve]) -> list[list[Curve]]:
    """Return the curves that are ranked together: those of one workload and provenance, in the
    order given. Those with a fault come last: they are no storage that one can choose."""
    groups: dict[tuple[str, str], dict[bool, list[Curve]]] = {}
    for curve in curves:
        of = groups.setdefault((curve.workload, curve.provenance), {True: [], False: []})
        of[is_spared(curve.levels)].append(curve)
    return [of[spared] for of in groups.values() for spared in (True, False) if of[spared]]


def p_values(
    curves: Sequence[Curve], headline: Mapping[str, str], values: Mapping[str, Mapping[str, float]]
) -> list[float | None]:
    """Return the p-value of the clearest difference for each group with several storages; None
    without repeats."""
    found: list[float | None] = []
    for group in groups_of(curves):
        metric = headline.get(group[0].workload)
        if metric is None:
            continue
        having = [
            family[0] for family in _families(group, metric) if peak(family[0], metric) is not None
        ]
        if len(having) > 1:
            known = values.get(group[0].workload, {})
            means = LogMeans.of([_peak_values(curve, metric, known) for curve in having])
            found.append(means.smallest_p(len(having) * (len(having) - 1) // 2))
    return found


def best_first(
    curves: Sequence[Curve],
    headline: Mapping[str, str],
    values: Mapping[str, Mapping[str, float]],
    joint: float,
) -> list[Curve]:
    """Return the curves by workload and provenance, the best first, with their ranks.

    Storages with their choices are compared by the point with the best value of the workload's
    headline metric, at any load. Curves that differ only in load share the rank. `values` holds
    these metrics by workload and trial. All pairs of a group are compared at once at the confidence
    `joint` (Welch, Bonferroni; jointly.py).
    """
    return [
        curve
        for group in groups_of(curves)
        for curve in _ranked(group, headline.get(group[0].workload), values, joint)
    ]


def _ranked(
    group: list[Curve],
    metric: str | None,
    values: Mapping[str, Mapping[str, float]],
    joint: float,
) -> list[Curve]:
    if metric is None:
        return group
    sign = -1 if less_is_better(metric) else 1
    families = _families(group, metric)
    in_order = [curve for family in families for curve in family]
    known = values.get(group[0].workload, {})
    having = [family for family in families if peak(family[0], metric) is not None]
    means = LogMeans.of([_peak_values(family[0], metric, known) for family in having])
    if not means.repeated:
        return in_order
    pairs = len(having) * (len(having) - 1) // 2
    different = sign * means.differences()
    above = seen_above(different, means.half_widths(joint, pairs))
    alike = ~(above | above.T)
    np.fill_diagonal(alike, False)
    ranked = [
        replace(curve, rank=1 + int(above[:, index].sum()), alike=int(alike[index].sum()))
        if means.count[index] > 1 and curve.points
        else curve
        for index, family in enumerate(having)
        for curve in family
    ]
    return [*ranked, *in_order[len(ranked) :]]


def _families(group: Sequence[Curve], metric: str) -> list[list[Curve]]:
    """Return the curves of each storage with its choices: the best family first, and within each
    the best curve first."""
    sign = -1 if less_is_better(metric) else 1

    def value(curve: Curve) -> float:
        at = peak(curve, metric)
        return float("-inf") if at is None else sign * at.metrics[metric].value

    families: dict[Family, list[Curve]] = {}
    for curve in sorted(group, key=value, reverse=True):
        families.setdefault(family_of(curve), []).append(curve)
    return list(families.values())


def _peak_values(curve: Curve, metric: str, known: Mapping[str, float]) -> list[float]:
    at = peak(curve, metric)
    return (
        []
        if at is None
        else [known[trial] for trial in at.metrics[metric].trials if trial in known]
    )
