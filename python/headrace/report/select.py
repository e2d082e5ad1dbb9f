"""What a report shows of a large study: the page stays small however many trials there are.

The best and the worst of each storage and workload stand in the page; all of them are in the CSV and Parquet reports,
and the page says how many it left away.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.analysis.findings import Curve, Findings, Point
from headrace.report.wording import main_metric, rank

CURVES_AT_MOST = 60
POINTS_AT_MOST = 400
DRAWN_AT_ONCE = 8
SERIES_TRIALS_AT_MOST = 12


@dataclass(frozen=True)
class Shown:
    """Curves in the page, best first within storage and workload; those drawn at first; how many were left away."""

    curves: tuple[Curve, ...]
    drawn: tuple[int, ...]
    """Indices into `curves`."""
    left_away: int


def _groups(findings: Findings) -> list[list[Curve]]:
    rate = main_metric(findings)
    groups: dict[tuple[str, str], list[Curve]] = {}
    for curve in findings.curves:
        groups.setdefault((curve.workload, curve.target), []).append(curve)
    return [sorted(group, key=lambda c: rank(c, rate), reverse=True) for group in groups.values()]


def _best_and_worst(group: list[Curve], count: int) -> list[Curve]:
    if count >= len(group):
        return group
    best = (count + 1) // 2
    return group[:best] + (group[-(count - best) :] if count > best else [])


def shown_curves(findings: Findings) -> Shown:
    """The curves that stand in the page."""
    groups = _groups(findings)
    longest = max((len(curve.points) for curve in findings.curves), default=1)
    room = min(CURVES_AT_MOST, max(1, POINTS_AT_MOST // max(1, longest)))
    chosen: list[list[Curve]] = []
    left = room
    for position, group in enumerate(sorted(groups, key=len)):
        share = left // (len(groups) - position)
        taken = _best_and_worst(group, max(1, share)) if left > 0 else []
        left -= len(taken)
        chosen.append(taken)
    kept = {id(curve) for group in chosen for curve in group}
    curves = tuple(curve for group in groups for curve in group if id(curve) in kept)
    return Shown(curves, _drawn(groups, curves), len(findings.curves) - len(curves))


def _drawn(groups: list[list[Curve]], curves: tuple[Curve, ...]) -> tuple[int, ...]:
    """Best and worst of each group, as many as can be told apart; all when they are few."""
    if len(curves) <= DRAWN_AT_ONCE // 2:
        return tuple(range(len(curves)))
    position = {id(curve): index for index, curve in enumerate(curves)}
    bests = [position[id(group[0])] for group in groups if id(group[0]) in position]
    worsts = [position[id(group[-1])] for group in groups if len(group) > 1 and id(group[-1]) in position]
    picked = bests[:DRAWN_AT_ONCE]
    if len(picked) + len(worsts) <= DRAWN_AT_ONCE:
        picked += worsts
    return tuple(sorted(picked))


def knee_point(curve: Curve) -> Point | None:
    """The point at the largest number of slots fed, else the first one."""
    if not curve.points:
        return None
    fed = curve.slots_fed
    matching = [point for point in curve.points if fed is not None and point.slots == fed.slots]
    return matching[0] if matching else curve.points[0]


def series_trials(shown: Shown, wanted: tuple[str, ...] = ()) -> list[str]:
    """Trials whose device series stand in the page: those wanted, then for each drawn curve one where the storage
    still feeds all slots and one with the most slots."""
    ids: list[str] = list(dict.fromkeys(wanted))
    for index in shown.drawn:
        curve = shown.curves[index]
        fed = knee_point(curve)
        for point in (fed, curve.points[-1] if curve.points else None):
            if point is None:
                continue
            trials = next((estimate.trials for estimate in point.metrics.values() if estimate.trials), ())
            if trials and trials[0] not in ids:
                ids.append(trials[0])
    return ids[: max(SERIES_TRIALS_AT_MOST, len(wanted))]
