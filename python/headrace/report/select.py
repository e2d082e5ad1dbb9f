"""Select what the page shows of a large study, so that it stays small for any number of trials.

The page shows the best and the worst curves of each storage and workload, and the number of those
left out; the CSV and Parquet reports contain all.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.analysis.findings import Curve, Findings, Point

CURVES_AT_MOST = 60
POINTS_AT_MOST = 400
DRAWN_AT_ONCE = 8
SERIES_TRIALS_AT_MOST = 12


@dataclass(frozen=True)
class Shown:
    """Curves in the page, best first within a workload; those drawn initially; the number of
    those left out."""

    curves: tuple[Curve, ...]
    drawn: dict[str, tuple[int, ...]]
    """Workload -> indices into `curves`."""
    left_away: int


def _groups(findings: Findings) -> list[list[Curve]]:
    """Return the curves of each workload and storage, best first as in the findings."""
    groups: dict[tuple[str, str], list[Curve]] = {}
    for curve in findings.curves:
        groups.setdefault((curve.workload, curve.target), []).append(curve)
    return list(groups.values())


def _best_and_worst(group: list[Curve], count: int) -> list[Curve]:
    if count >= len(group):
        return group
    best = (count + 1) // 2
    return group[:best] + (group[-(count - best) :] if count > best else [])


def shown_curves(findings: Findings) -> Shown:
    """Return the curves shown in the page."""
    groups = _groups(findings)
    longest = max(
        (len(curve.points) + len(curve.distrusted) for curve in findings.curves), default=1
    )
    room = min(CURVES_AT_MOST, max(1, POINTS_AT_MOST // max(1, longest)))
    chosen: list[list[Curve]] = []
    left = room
    for position, group in enumerate(sorted(groups, key=len)):
        share = left // (len(groups) - position)
        taken = _best_and_worst(group, max(1, share)) if left > 0 else []
        left -= len(taken)
        chosen.append(taken)
    kept = {id(curve) for group in chosen for curve in group}
    curves = tuple(curve for curve in findings.curves if id(curve) in kept)
    drawn = {
        workload: _drawn(workload, groups, curves)
        for workload in dict.fromkeys(c.workload for c in curves)
    }
    return Shown(curves, drawn, len(findings.curves) - len(curves))


def _drawn(workload: str, groups: list[list[Curve]], curves: tuple[Curve, ...]) -> tuple[int, ...]:
    """Return all curves of a workload when they are few; otherwise some of each storage, from
    the best to the worst."""
    position = {
        id(curve): index for index, curve in enumerate(curves) if curve.workload == workload
    }
    if len(position) <= DRAWN_AT_ONCE // 2:
        return tuple(position.values())
    mine = [[position[id(curve)] for curve in group if id(curve) in position] for group in groups]
    mine = [group for group in mine if group]
    each = 4 if len(mine) == 1 else 2 if len(mine) <= DRAWN_AT_ONCE // 2 else 1
    picked = {index for group in mine[:DRAWN_AT_ONCE] for index in _spread(group, each)}
    return tuple(sorted(picked))


def _spread(ranked: list[int], count: int) -> list[int]:
    """Return `count` evenly spaced ones, including the first and, for two or more, the last."""
    if count == 1 or len(ranked) == 1:
        return ranked[:1]
    return [ranked[round(step * (len(ranked) - 1) / (count - 1))] for step in range(count)]


def knee_point(curve: Curve) -> Point | None:
    """Return the point at the largest number of slots fed, otherwise the first point."""
    if not curve.points:
        return None
    fed = curve.slots_fed
    matching = [point for point in curve.points if fed is not None and point.load == fed.slots]
    return matching[0] if matching else curve.points[0]


def series_trials(shown: Shown, wanted: tuple[str, ...] = ()) -> list[str]:
    """Return the trials whose device series are in the page.

    These are the requested ones, then for each drawn curve one at the largest number of slots fed
    and one with the most slots.
    """
    ids: list[str] = list(dict.fromkeys(wanted))
    for index in [index for drawn in shown.drawn.values() for index in drawn]:
        curve = shown.curves[index]
        for point in (knee_point(curve), curve.points[-1] if curve.points else None):
            if point is not None and point.trials and point.trials[0] not in ids:
                ids.append(point.trials[0])
    return ids[: max(SERIES_TRIALS_AT_MOST, len(wanted))]
