"""The page's data for templates/report.js: curves, metrics, series, in compact form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headrace.analysis.findings import Curve, Estimate, Findings, Knee, Point
from headrace.metrics.shown import ShownMetric, show
from headrace.palette import CURVE_COLOURS, CURVE_SIGNS
from headrace.report.numbers import interval_text, value_text
from headrace.report.select import Shown
from headrace.report.series import TrialSeries
from headrace.report.wording import (
    axis_title,
    level_text,
    limit_text,
    main_metric,
    plural,
    storage_of,
)

TRIALS_IN_A_TIP = 4


def scaled_metrics(curves: Iterable[Curve], findings: Findings) -> dict[str, ShownMetric]:
    """Return every metric of these curves, scaled by its largest value; main metrics first, then
    the usual order."""
    largest: dict[str, float] = {}
    for curve in curves:
        for point in (*curve.points, *curve.distrusted):
            for name, estimate in point.metrics.items():
                largest[name] = max(largest.get(name, 0.0), abs(estimate.value))
    byte_rates = {name: value for name, value in largest.items() if name.endswith("bytes_per_s")}
    mains = [
        main_metric(findings, workload)
        for workload in dict.fromkeys(c.workload for c in findings.curves)
    ]
    order = [
        name
        for name in (*mains, "events_per_s", "efficiency", "throughput_jobs")
        if name in largest
    ]
    names = list(dict.fromkeys([*order, *largest]))
    # All byte rates share one unit, so that they can be compared at a glance.
    return {
        name: show(name, max(byte_rates.values()) if name in byte_rates else largest[name])
        for name in names
    }


def mark_of(estimate: Estimate, point: Point) -> str:
    """Return the provenance of one value of a point."""
    return estimate.provenance or point.provenance


def provenance_of_metric(findings: Findings, name: str) -> str:
    """Return the provenance of a metric's values over all points."""
    marks = {
        mark_of(p.metrics[name], p)
        for curve in findings.curves
        for p in curve.points
        if name in p.metrics
    }
    return " + ".join(sorted(marks)) or " + ".join(findings.provenance)


def trial_names(trials: tuple[str, ...], most: int = TRIALS_IN_A_TIP) -> str:
    """Return the first few trial ids and the number of further ones, for a tooltip."""
    more = f" and {len(trials) - most} more" if len(trials) > most else ""
    return ", ".join(trials[:most]) + more


def _curve(curve: Curve, metrics: dict[str, ShownMetric]) -> dict[str, object]:
    points = (*curve.points, *curve.distrusted)
    values: dict[str, list[Any]] = {}
    for name, shown in metrics.items():
        rows = [_value(point, shown) for point in points]
        if any(row is not None for row in rows):
            values[name] = rows
    return {
        "label": curve.label,
        "name": curve.name or curve.label,
        "workload": curve.workload,
        "levels": filter_levels(curve),
        "axis": axis_title([curve]),
        "load": [point.load for point in points],
        "limit": [limit_text(point) if not point.reasons else "" for point in points],
        "reasons": ["; ".join(point.reasons) for point in points],
        "trials": [_evidence(point) for point in points],
        "knee": _ring(curve.knee),
        "values": values,
    }


def filter_levels(curve: Curve) -> dict[str, str]:
    """Return the levels by which readers filter storages, as text; the storage is one of them."""
    levels = {
        name: level_text(level)
        for name, level in curve.levels.items()
        if level is not None and name not in ("target", "workload")
    }
    return {"target": storage_of(curve), **levels}


def _ring(knee: Knee | None) -> dict[str, object] | None:
    """Return where a knee is marked; None when no two rates differ, as the tables say then."""
    if knee is None or knee.difference_seen is False:
        return None
    return {"load": knee.slots, "metric": knee.metric}


def _value(point: Point, shown: ShownMetric) -> list[Any] | None:
    """Return value, bounds, their text and the provenance of one metric, in its unit."""
    estimate = point.metrics.get(shown.name)
    if estimate is None:
        return None
    low, high = estimate.low, estimate.high
    return [
        _short(estimate.value / shown.divisor),
        _short(low / shown.divisor) if low is not None else None,
        _short(high / shown.divisor) if high is not None else None,
        value_text(estimate, shown),
        interval_text(estimate, shown),
        mark_of(estimate, point),
    ]


def _evidence(point: Point) -> str:
    return f"{plural(len(point.trials), 'trial')}: {trial_names(point.trials)}"


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def page_data(
    shown: Shown,
    metrics: dict[str, ShownMetric],
    mains: dict[str, str | None],
    figures: list[dict[str, object]],
    series: Mapping[str, TrialSeries],
    series_figures: Sequence[Mapping[str, object]],
    trials_folder: str,
    energy_metric: str | None = None,
    answer: Mapping[str, object] | None = None,
) -> str:
    """Return JSON for a `<script type="application/json">` element; `<` is escaped, so no value
    can close the element."""
    data = {
        "curves": [_curve(curve, metrics) for curve in shown.curves],
        "drawn": shown.drawn,
        "mains": mains,
        "metrics": {
            name: {"title": m.title, "unit": m.unit, "heading": m.heading}
            for name, m in metrics.items()
        },
        "colours": CURVE_COLOURS,
        "signs": CURVE_SIGNS,
        "figures": figures,
        "series": series,
        "series_figures": series_figures,
        "trials_folder": trials_folder,
        "energy_metric": energy_metric,
        "answer": answer,
    }
    return json.dumps(data, separators=(",", ":"), default=str, allow_nan=False).replace(
        "<", "\\u003c"
    )
