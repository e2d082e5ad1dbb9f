"""The first screen of the page, and the filters of its tables, for templates/report.html.j2."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.analysis.findings import Findings
from headrace.metrics.shown import ShownMetric
from headrace.report import wording
from headrace.report.page_data import filter_levels
from headrace.report.recommendation import Recommendation, recommendation
from headrace.report.select import Shown
from headrace.report.ticket import ticket_text

FILTERS_FROM = 8
"""With fewer curves than this the tables need no filters."""
CURVES_BESIDE = 3
"""Curves drawn beside that of the recommendation, from the best of another storage to the worst."""


@dataclass(frozen=True)
class Filter:
    """One select element: the levels of one factor."""

    factor: str
    title: str
    levels: tuple[str, ...]


@dataclass(frozen=True)
class First:
    """The recommendation with what its figure shows."""

    said: Recommendation
    curves: tuple[int, ...]
    """Indices into the shown curves, the recommended one first."""

    @property
    def data(self) -> dict[str, object]:
        """What the page's script draws."""
        return {"curves": self.curves, "metric": self.said.metric}


def first_of(findings: Findings, shown: Shown, metrics: dict[str, ShownMetric]) -> First | None:
    """Return the recommendation with its figure; None without a valid trial."""
    said = recommendation(findings)
    if said is None:
        return None
    if said.metric not in metrics:
        return First(said, ())
    labels = [curve.label for curve in shown.curves]
    mine = labels.index(said.curve.label) if said.curve.label in labels else None
    drawn = [at for at in shown.drawn.get(said.curve.workload, ()) if at != mine]
    best_of: dict[str, int] = {}
    for at in drawn:
        best_of.setdefault(shown.curves[at].target, at)
    others = sorted(best_of.values())[:CURVES_BESIDE] or drawn[-1:]
    return First(said, (*(() if mine is None else (mine,)), *others))


def template_values(
    findings: Findings, first: First | None, shown: Shown, metrics: dict[str, ShownMetric]
) -> dict[str, object]:
    """Return what the template needs for the first screen and the filters."""
    values: dict[str, object] = {"ticket": ticket_text(findings), "filters": filters_of(shown)}
    if first is None:
        return {**values, "first": None, "first_marks": []}
    said = first.said
    shown_metric = metrics.get(said.metric or "")
    return {
        **values,
        "first": {
            "action": said.action,
            "reason": said.reason,
            "doubts": said.doubts,
            "interfered": said.interfered,
            "measure_next": said.measure_next,
            "curve": said.curve,
            "metric": said.metric if first.curves else None,
            "metric_title": shown_metric.title if shown_metric is not None else "",
        },
        "first_marks": [wording.provenance_of(said.curve)],
    }


def filters_of(shown: Shown) -> list[Filter]:
    """Return the filters of a page with many storages: one for each factor that varies."""
    if len(shown.curves) < FILTERS_FROM:
        return []
    levels: dict[str, dict[str, None]] = {}
    for curve in shown.curves:
        for name, level in filter_levels(curve).items():
            levels.setdefault(name, {})[level] = None
    return [
        Filter(name, "Storage" if name == "target" else _title(name), tuple(found))
        for name, found in levels.items()
        if len(found) > 1
    ]


def _title(factor: str) -> str:
    text = wording.factor_text(factor)
    return text[:1].upper() + text[1:]
