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
    """Curves in the page, best first within workload and storage; those drawn at first; how many were left away."""

    curves: tuple[Curve, ...]
    drawn: dict[str, tuple[int, ...]]
    """Workload -> indices into `curves`."""
    left_away: int


def _groups(findings: Findings) -> list[list[Curve]]:
    groups: dict[tuple[str, str], list[Curve]] = {}
    for curve in findings.curves:
        groups.setdefault((curve.workload, curve.target), []).append(curve)
    return [
        sorted(group, key=lambda c: rank(c, main_metric(findings, c.workload)), reverse=True)
        for group in groups.values()
    ]


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
    drawn = {
        workload: _drawn(workload, groups, curves) for workload in dict.fromkeys(c.workload for c in curves)
    }
    return Shown(curves, drawn, len(findings.curves) - len(curves))


def _drawn(workload: str, groups: list[list[Curve]], curves: tuple[Curve, ...]) -> tuple[int, ...]:
    """All curves of a workload when they are few; else some of each storage, from the best to the worst."""
    position = {id(curve): index for index, curve in enumerate(curves) if curve.workload == workload}
    if len(position) <= DRAWN_AT_ONCE // 2:
        return tuple(position.values())
    mine = [[position[id(curve)] for curve in group if id(curve) in position] for group in groups]
    mine = [group for group in mine if group]
    each = 4 if len(mine) == 1 else 2 if len(mine) <= DRAWN_AT_ONCE // 2 else 1
    picked = {index for group in mine[:DRAWN_AT_ONCE] for index in _spread(group, each)}
    return tuple(sorted(picked))


def _spread(ranked: list[int], count: int) -> list[int]:
    """So many of them, the first and the last among them where there is room for two."""
    if count == 1 or len(ranked) == 1:
        return ranked[:1]
    return [ranked[round(step * (len(ranked) - 1) / (count - 1))] for step in range(count)]


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
    for index in [index for drawn in shown.drawn.values() for index in drawn]:
        curve = shown.curves[index]
        for point in (knee_point(curve), curve.points[-1] if curve.points else None):
            if point is not None and point.trials and point.trials[0] not in ids:
                ids.append(point.trials[0])
    return ids[: max(SERIES_TRIALS_AT_MOST, len(wanted))]
