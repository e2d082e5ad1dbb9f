"""The HTML report: one file, offline, for a desk, a phone and paper. Last room of the way: Findings -> report.html.

Numbers stand in tables that need no script; figures (Bokeh, inlined) and pickers come on top.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bokeh.resources import Resources
from headrace.analysis.findings import Curve, Estimate, FactorEffect, Findings, Point
from headrace.report import figures, wording
from headrace.report.metrics import BYTE_RATES, Metric, interval_text, metric, number, percent, value_text
from headrace.report.page_data import mark_of, page_data, point_trials, provenance_of_metric, scaled_metrics
from headrace.report.palette import CURVE_COLOURS, CURVE_SIGNS, LEDGER_COLOURS, LEDGER_TEXT
from headrace.report.select import Shown, series_trials, shown_curves
from headrace.report.series import embedded_series
from jinja2 import Environment, PackageLoader, StrictUndefined

LEFT_OUT_AT_MOST = 200
EXTRA_ROWS_AT_MOST = 200
EFFECT_FIGURES_AT_MOST = 6
IDS_AT_MOST = 40
# The page may run its own inline script and style and nothing else: it cannot ask the network for anything.
CONTENT_SECURITY_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:"


@dataclass(frozen=True)
class Value:
    """One number in a table, with its interval, what it is, and what it rests on."""

    text: str
    interval: str
    provenance: str
    tip: str


def _tip(estimate: Estimate, provenance: str) -> str:
    return f"{provenance}; {estimate.method}; {wording.plural(estimate.n, 'trial')}"


def _value(point: Point, shown: Metric) -> Value | None:
    estimate = point.metrics.get(shown.name)
    if estimate is None:
        return None
    provenance = mark_of(estimate, point)
    return Value(
        value_text(estimate, shown), interval_text(estimate, shown), provenance, _tip(estimate, provenance)
    )


def _ledger(point: Point) -> list[dict[str, Any]]:
    return [
        {
            "title": wording.LEDGER_TITLES[name],
            "width": f"{point.ledger[name] * 100:.2f}",
            "text": f"{point.ledger[name] * 100:.0f}" if point.ledger[name] >= 0.12 else "",
            "percent": percent(point.ledger[name]),
            "key": name,
        }
        for name in wording.LEDGER
        if point.ledger.get(name, 0.0) > 0
    ]


def _row(point: Point, columns: list[Metric]) -> dict[str, Any]:
    return {
        "slots": point.slots,
        "values": [_value(point, column) for column in columns],
        "ledger": _ledger(point),
        "limit": point.limit.kind,
        "share": percent(point.limit.share),
        "evidence": point.limit.evidence,
        "trials": point_trials(point),
        "invalid": point.invalid,
        "failed": point.failed,
        "provenance": point.provenance,
    }


def _curve(
    index: int, curve: Curve, columns: list[Metric], shown: Shown, rate: Metric | None
) -> dict[str, Any]:
    fed = curve.slots_fed
    peak = (
        max(
            (p for p in curve.points if rate and rate.name in p.metrics),
            key=lambda p: p.metrics[rate.name].value,
            default=None,
        )
        if rate
        else None
    )
    return {
        "index": index,
        "label": curve.label,
        "drawn": index in shown.drawn,
        "rows": [_row(point, columns) for point in curve.points],
        "fed": None if fed is None else (f"≥\u202f{fed.slots}" if fed.censored else str(fed.slots)),
        "crossing": number(fed.interpolated)
        if fed and fed.interpolated is not None and not fed.censored
        else "",
        "why": wording.beyond_text(fed.why) if fed and not fed.censored else "",
        "knee": curve.knee,
        "peak": _value(peak, rate) if peak is not None and rate is not None else None,
        "peak_slots": peak.slots if peak is not None else None,
        "provenance": wording.provenance_of(curve),
        "trials": tuple(dict.fromkeys(trial for point in curve.points for trial in point_trials(point))),
    }


def _effect(effect: FactorEffect, provenance: str) -> dict[str, Any]:
    cost = effect.cost_of_wrong
    shown = metric("cost_share")
    return {
        "factor": wording.factor_text(effect.factor),
        "best": wording.level_text(effect.best),
        "worst": wording.level_text(effect.worst),
        "cost": Value(
            value_text(cost, shown),
            interval_text(cost, shown),
            cost.provenance or provenance,
            _tip(cost, provenance),
        ),
        "p": "–"
        if effect.p_value is None
        else ("< 0.001" if effect.p_value < 0.001 else number(effect.p_value, 2)),
        "error_term": effect.error_term,
        "levels": figures.effect_rows_text(effect),
        "trials": cost.trials,
    }


def _effect_groups(findings: Findings) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str], list[FactorEffect]] = {}
    for effect in findings.effects:
        groups.setdefault((effect.workload, effect.metric), []).append(effect)
    found: list[dict[str, Any]] = []
    for number_, ((workload, name), effects) in enumerate(groups.items()):
        effects.sort(key=lambda e: e.cost_of_wrong.value, reverse=True)
        element = f"figure-effects-{number_}"
        drawn = number_ < EFFECT_FIGURES_AT_MOST
        provenance = provenance_of_metric(findings, name)
        found.append(
            {
                "workload": workload,
                "metric": metric(name).title,
                "rows": [_effect(effect, provenance) for effect in effects],
                "element": element if drawn else "",
                "figure": figures.effect_figure(element, workload, name, effects) if drawn else None,
            }
        )
    return found


def _combined(findings: Findings) -> list[dict[str, Any]]:
    shown = metric("cost_share")
    marks = {c.metric: provenance_of_metric(findings, c.metric) for c in findings.combined}
    return [
        {
            "workload": c.workload,
            "target": c.target or "any",
            "slots": c.slots,
            "metric": metric(c.metric).title,
            "best": wording.levels_text(c.best, wording.differing(c)) or "no difference",
            "worst": wording.levels_text(c.worst, wording.differing(c)) or "no difference",
            "cost": Value(
                value_text(c.cost, shown),
                interval_text(c.cost, shown),
                c.cost.provenance or marks[c.metric],
                _tip(c.cost, marks[c.metric]),
            ),
            "trials": c.cost.trials,
        }
        for c in findings.combined
    ]


def _left_out(findings: Findings) -> dict[str, Any]:
    reasons = Counter(f"{left.status}: {reason}" for left in findings.left_out for reason in left.reasons)
    return {
        "rows": [
            {
                "trial": left.trial,
                "status": left.status,
                "levels": wording.levels_text(left.levels),
                "reasons": "; ".join(left.reasons),
            }
            for left in findings.left_out[:LEFT_OUT_AT_MOST]
        ],
        "more": max(0, len(findings.left_out) - LEFT_OUT_AT_MOST),
        "reasons": reasons.most_common(12),
        "count": len(findings.left_out),
    }


def flatten(values: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested values as (dotted name, text) rows."""
    rows: list[tuple[str, str]] = []
    for name, value in values.items():
        dotted = f"{prefix}{name}"
        if isinstance(value, dict):
            rows += flatten({str(key): item for key, item in value.items()}, f"{dotted}.")
        else:
            rows.append((dotted, wording.level_text(value)))
    return rows


def cell_text(value: object) -> str:
    """A value of a workload's own table."""
    if isinstance(value, float):
        return number(value, 4)
    return wording.level_text(value)


def _extra_tables(findings: Findings) -> list[dict[str, Any]]:
    tables: list[dict[str, Any]] = []
    for title, rows in findings.extra_tables.items():
        columns = list(dict.fromkeys(name for row in rows for name in row))
        body = [[cell_text(row.get(name)) for name in columns] for row in rows[:EXTRA_ROWS_AT_MOST]]
        tables.append(
            {"title": title, "columns": columns, "rows": body, "more": max(0, len(rows) - EXTRA_ROWS_AT_MOST)}
        )
    return tables


def _figures(shown: Shown, metrics: dict[str, Metric], rate: Metric | None) -> list[dict[str, Any]]:
    slots = sorted({point.slots for curve in shown.curves for point in curve.points})
    items: list[dict[str, Any]] = []
    if rate is not None:
        items.append(figures.curve_figure("figure-rate", "Rate against slots", slots))
    if "efficiency" in metrics:
        bounds = {curve.slots_fed.efficiency for curve in shown.curves if curve.slots_fed}
        items.append(
            figures.curve_figure(
                "figure-efficiency",
                "Job efficiency against slots",
                slots,
                bounds.pop() * 100 if len(bounds) == 1 else None,
            )
        )
    rates = [metrics[name] for name in BYTE_RATES if name in metrics]
    if rates:
        items.append(figures.byte_figure("figure-bytes", rates, slots))
    return items


def _series_figures(series: dict[str, Any]) -> list[dict[str, Any]]:
    """One figure for each quantity that at least one embedded trial has samples of."""
    found: list[dict[str, Any]] = []
    for position, (probe, title, y_title, divisor, columns) in enumerate(figures.SERIES_FIGURES):
        present = tuple(
            pair for pair in columns if any(pair[0] in trial.get(probe, {}) for trial in series.values())
        )
        if present:
            element = f"figure-series-{position}"
            names = [words for _, words in present]
            found.append(
                {
                    "element": element,
                    "title": title,
                    "probe": probe,
                    "divisor": divisor,
                    "columns": [name for name, _ in present],
                    "names": names,
                    "item": figures.series_figure(element, title, y_title, names),
                }
            )
    return found


def _trial_labels(shown: Shown, trials: list[str]) -> dict[str, str]:
    labels = {
        trial: f"{curve.label}, {wording.plural(point.slots, 'slot')}"
        for curve in shown.curves
        for point in curve.points
        for trial in point_trials(point)
    }
    return {trial: labels.get(trial, "") for trial in trials}


def environment() -> Environment:
    """The templates of this room; every value is escaped, a missing one is an error."""
    made = Environment(
        loader=PackageLoader("headrace.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(
        ledger_colours=LEDGER_COLOURS,
        ledger_text=LEDGER_TEXT,
        ledger_titles=wording.LEDGER_TITLES,
        curve_colours=CURVE_COLOURS,
        curve_signs=CURVE_SIGNS,
        marks=wording.PROVENANCE_MARKS,
        meanings=wording.PROVENANCE_MEANING,
        ids_at_most=IDS_AT_MOST,
        policy=CONTENT_SECURITY_POLICY,
    )
    return made


def _asset(name: str) -> str:
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


def bokeh_script() -> str:
    """Bokeh's core as text for an inline script element."""
    return "\n".join(Resources(mode="inline", components=["bokeh"], log_level="error").js_raw)


def render(findings: Findings, results: Path, wanted_series: tuple[str, ...] = ()) -> str:
    """The whole page. `results` is where the trials' directories lie; links are relative to it."""
    shown = shown_curves(findings)
    metrics = scaled_metrics(shown.curves, findings)
    main = wording.main_metric(findings)
    rate = metrics.get(main) if main else None
    groups = _effect_groups(findings)
    trials = series_trials(shown, wanted_series)
    series = embedded_series(results, trials)
    series_figures = _series_figures(series)
    main_columns = [
        metrics[name]
        for name in dict.fromkeys([main, "efficiency", "throughput_jobs"])
        if name and name in metrics
    ]
    byte_columns = [metrics[name] for name in (*BYTE_RATES, "amplification") if name in metrics]
    taken = {column.name for column in main_columns + byte_columns}
    other_columns = [m for name, m in metrics.items() if name not in taken]
    all_figures = [*_figures(shown, metrics, rate), *(group["figure"] for group in groups if group["figure"])]
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            findings=findings,
            made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            answers=wording.answers(findings),
            choices=wording.choice_sentences(findings),
            trials_sentence=wording.trials_sentence(findings),
            curves=[_curve(i, curve, main_columns, shown, rate) for i, curve in enumerate(shown.curves)],
            byte_curves=[_curve(i, curve, byte_columns, shown, rate) for i, curve in enumerate(shown.curves)]
            if byte_columns
            else [],
            other_curves=[
                _curve(i, curve, other_columns, shown, rate) for i, curve in enumerate(shown.curves)
            ]
            if other_columns
            else [],
            columns=main_columns,
            byte_columns=byte_columns,
            other_columns=other_columns,
            metrics=metrics,
            rate=rate,
            left_away=shown.left_away,
            groups=groups,
            combined=_combined(findings),
            left_out=_left_out(findings),
            extra_tables=_extra_tables(findings),
            environment_rows=flatten(findings.environment),
            series_trials=_trial_labels(shown, list(series)),
            series_figures=series_figures,
            bokeh=bokeh_script(),
            style=_asset("report.css"),
            script=_asset("report.js"),
            data=page_data(shown, metrics, all_figures, series, series_figures),
        )
    )
