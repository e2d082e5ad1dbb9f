"""Points -> curves: each storage against slots, the knee in its rate, and how many slots it feeds; or, where a workload is there to
load it, how its rate grows with clients."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace

from headrace.analysis.findings import Curve, Growth, Knee, Point, SlotsFed
from headrace.analysis.points import varied_levels

KNEE_SHARE = 0.95
"""The knee is the fewest slots that reach this share of the highest rate."""
CLIENT_FACTORS = ("nodes", "clients")
"""Factors beside `slots` that are another number of clients, and no other storage."""


def make_curves(
    points: Sequence[Point], headline: dict[str, str], efficiency: float, loading: Collection[str] = ()
) -> list[Curve]:
    """Points of the same storage, workload, other levels and provenance, by rising slots. `loading` are the workloads that load the
    storage."""
    groups: dict[str, list[Point]] = {}
    for point in points:
        rest = {name: level for name, level in point.levels.items() if name != "slots"}
        name = json.dumps([point.workload, point.target, rest, point.provenance], sort_keys=True, default=str)
        groups.setdefault(name, []).append(point)
    varied = varied_levels(points)
    workloads = {point.workload for point in points}
    provenances = {point.provenance for point in points}
    curves: list[Curve] = []
    for group in groups.values():
        by_slots = tuple(sorted(group, key=lambda point: point.slots))
        first = by_slots[0]
        rest = {name: level for name, level in first.levels.items() if name != "slots"}
        words = [first.target, *(f"{rest[name]}" for name in varied if rest.get(name) is not None)]
        if len(workloads) > 1:
            words.insert(0, first.workload)
        if len(provenances) > 1:
            words.append(first.provenance)
        curves.append(
            Curve(
                label=", ".join(words),
                target=first.target,
                workload=first.workload,
                levels=rest,
                points=by_slots,
                knee=find_knee(by_slots, headline.get(first.workload)),
                slots_fed=slots_fed(by_slots, efficiency) if _computes(by_slots) else None,
                provenance=first.provenance,
            )
        )
    return _with_growth(curves, headline, loading)


def _with_growth(curves: list[Curve], headline: dict[str, str], loading: Collection[str]) -> list[Curve]:
    families: dict[str, list[Point]] = {}

    def family(curve: Curve) -> list[Point]:
        rest = {name: level for name, level in curve.levels.items() if name not in CLIENT_FACTORS}
        name = json.dumps([curve.workload, curve.target, rest, curve.provenance], sort_keys=True, default=str)
        return families.setdefault(name, [])

    for curve in curves:
        family(curve).extend(curve.points)
    return [
        replace(curve, growth=find_growth(family(curve), headline.get(curve.workload)))
        if curve.workload in loading
        else curve
        for curve in curves
    ]


def find_growth(points: Sequence[Point], metric: str | None) -> Growth | None:
    """How a rate grows with clients; None without any rate."""
    best: dict[int, Point] = {}
    for point in points:
        if metric is None or metric not in point.metrics:
            continue
        other = best.get(point.clients)
        if other is None or point.metrics[metric].value > other.metrics[metric].value:
            best[point.clients] = point
    if metric is None or not best:
        return None
    clients = tuple(sorted(best))
    rates = tuple(best[number].metrics[metric].value for number in clients)
    highest = max(rates)
    at = next(index for index, rate in enumerate(rates) if rate >= KNEE_SHARE * highest)
    beyond = "untried"
    if at < len(clients) - 1:
        beyond = "falls" if rates[-1] < KNEE_SHARE * rates[at] else "level"
    return Growth(metric, clients, rates, clients[at], beyond, best[clients[at]].limit.kind)


def find_knee(points: Sequence[Point], metric: str | None) -> Knee | None:
    """The fewest slots whose rate is within 5 % of the highest, when more slots than these were tried.

    None when the highest number of slots still gains, or with fewer than two points.
    """
    if metric is None:
        return None
    having = [point for point in points if metric in point.metrics]
    if len(having) < 2:
        return None
    highest = max(point.metrics[metric].value for point in having)
    for point in having[:-1]:
        value = point.metrics[metric].value
        if highest > 0 and value >= KNEE_SHARE * highest:
            last = having[-1].metrics[metric].value
            return Knee(point.slots, metric, value, "falls" if last < KNEE_SHARE * value else "level")
    return None


def slots_fed(points: Sequence[Point], bound: float) -> SlotsFed | None:
    """How many jobs the storage feeds at a job efficiency of `bound` or better; None without any efficiency.

    The largest number tried up to which every number tried holds the bound; where the efficiency crosses the bound is
    interpolated linearly between it and the next.
    """
    having = [point for point in points if "efficiency" in point.metrics]
    if not having:
        return None
    holds: Point | None = None
    for point in having:
        value = point.metrics["efficiency"].value
        if value < bound:
            if holds is None:
                return SlotsFed(0, None, bound, False, point.limit.kind)
            upper = holds.metrics["efficiency"].value
            crossing = holds.slots + (upper - bound) / (upper - value) * (point.slots - holds.slots)
            return SlotsFed(holds.slots, crossing, bound, False, point.limit.kind)
        holds = point
    return SlotsFed(having[-1].slots, None, bound, True, "")


def _computes(points: Sequence[Point]) -> bool:
    """Whether the workload's jobs compute, so that their efficiency says something: they count events, or the fewest of them
    spent most of their time on CPU. A program that only moves bytes has no efficiency to hold."""
    first = points[0]
    return "events_per_s" in first.metrics or first.ledger["on_cpu"] >= 0.5
