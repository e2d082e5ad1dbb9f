"""The page's data for templates/report.js: curves, metrics, series, as small as it can be written."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from headrace.analysis.findings import Curve, Estimate, Findings, Point
from headrace.palette import CURVE_COLOURS, CURVE_SIGNS
from headrace.report.metrics import Metric, interval_text, metric, value_text
from headrace.report.select import Shown
from headrace.report.wording import limit_text, main_metric, plural

TRIALS_IN_A_TIP = 4


def scaled_metrics(curves: Iterable[Curve], findings: Findings) -> dict[str, Metric]:
    """Every metric of these curves, scaled by its largest value; main ones first, then the usual order."""
    largest: dict[str, float] = {}
    for curve in curves:
        for point in curve.points:
            for name, estimate in point.metrics.items():
                largest[name] = max(largest.get(name, 0.0), abs(estimate.value))
    byte_rates = {name: value for name, value in largest.items() if name.endswith("bytes_per_s")}
    mains = [
        main_metric(findings, workload) for workload in dict.fromkeys(c.workload for c in findings.curves)
    ]
    order = [name for name in (*mains, "events_per_s", "efficiency", "throughput_jobs") if name in largest]
    names = list(dict.fromkeys([*order, *largest]))
    # All byte rates share one unit, so that they can be compared at a glance.
    return {
        name: metric(name, max(byte_rates.values()) if name in byte_rates else largest[name])
        for name in names
    }


def mark_of(estimate: Estimate, point: Point) -> str:
    """Provenance of one value of a point."""
    return estimate.provenance or point.provenance


def provenance_of_metric(findings: Findings, name: str) -> str:
    """What the values of a metric are, over all points."""
    marks = {
        mark_of(p.metrics[name], p) for curve in findings.curves for p in curve.points if name in p.metrics
    }
    return " + ".join(sorted(marks)) or " + ".join(findings.provenance)


def trial_names(trials: tuple[str, ...], most: int = TRIALS_IN_A_TIP) -> str:
    """Ids for a tooltip, shortened to the first few."""
    more = f" and {len(trials) - most} more" if len(trials) > most else ""
    return ", ".join(trials[:most]) + more


def _curve(curve: Curve, metrics: dict[str, Metric]) -> dict[str, Any]:
    values: dict[str, list[Any]] = {}
    for name, shown in metrics.items():
        rows: list[Any] = []
        for point in curve.points:
            estimate = point.metrics.get(name)
            if estimate is None:
                rows.append(None)
                continue
            low, high = estimate.low, estimate.high
            rows.append(
                [
                    _short(estimate.value / shown.divisor),
                    _short(low / shown.divisor) if low is not None else None,
                    _short(high / shown.divisor) if high is not None else None,
                    value_text(estimate, shown),
                    interval_text(estimate, shown),
                    mark_of(estimate, point),
                ]
            )
        if any(row is not None for row in rows):
            values[name] = rows
    return {
        "label": curve.label,
        "workload": curve.workload,
        "slots": [point.slots for point in curve.points],
        "limit": [limit_text(point) for point in curve.points],
        "trials": [_rests_on(point) for point in curve.points],
        "knee": {"slots": curve.knee.slots, "metric": curve.knee.metric} if curve.knee else None,
        "values": values,
    }


def _rests_on(point: Point) -> str:
    return f"{plural(len(point.trials), 'trial')}: {trial_names(point.trials)}"


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def page_data(
    shown: Shown,
    metrics: dict[str, Metric],
    mains: dict[str, str | None],
    figures: list[dict[str, Any]],
    series: dict[str, Any],
    series_figures: list[dict[str, Any]],
) -> str:
    """JSON for a `<script type="application/json">` element; nothing in it can end that element."""
    data = {
        "curves": [_curve(curve, metrics) for curve in shown.curves],
        "drawn": shown.drawn,
        "mains": mains,
        "metrics": {
            name: {"title": m.title, "unit": m.unit, "heading": m.heading} for name, m in metrics.items()
        },
        "colours": CURVE_COLOURS,
        "signs": CURVE_SIGNS,
        "figures": figures,
        "series": series,
        "series_figures": series_figures,
    }
    return json.dumps(data, separators=(",", ":"), default=str, allow_nan=False).replace("<", "\\u003c")
