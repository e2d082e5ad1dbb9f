"""The HTML report: one file, offline, for a desk, a phone and paper. End of the way: Findings -> report.html.

Numbers stand in tables that need no script; figures (Bokeh, inlined) and pickers come on top.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bokeh.resources import Resources
from jinja2 import Environment, PackageLoader, StrictUndefined

from headrace.analysis.findings import Findings
from headrace.palette import CURVE_COLOURS, LEDGER_COLOURS, LEDGER_TEXT
from headrace.report import faults, figures, tables, wording
from headrace.report.metrics import BYTE_RATES, Metric, metric
from headrace.report.page_data import page_data, provenance_of_metric, scaled_metrics
from headrace.report.select import Shown, series_trials, shown_curves
from headrace.report.series import embedded_series

EFFECT_FIGURES_AT_MOST = 6
IDS_AT_MOST = 40
# The page may run its own inline script and style and nothing else: it cannot ask the network for anything.
CONTENT_SECURITY_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:"


def environment() -> Environment:
    """The templates of this room; every value is escaped, a missing one is an error."""
    made = Environment(
        loader=PackageLoader("headrace.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    shared: Any = made.globals
    shared.update(
        ledger_colours=LEDGER_COLOURS,
        ledger_text=LEDGER_TEXT,
        ledger_titles=wording.LEDGER_TITLES,
        curve_colours=CURVE_COLOURS,
        marks=wording.PROVENANCE_MARKS,
        meanings=wording.PROVENANCE_MEANING,
        provenances=wording.provenances,
        ids_at_most=IDS_AT_MOST,
        policy=CONTENT_SECURITY_POLICY,
        style=asset("report.css"),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )
    return made


def asset(name: str) -> str:
    """A file of the templates as it stands."""
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


def bokeh_script() -> str:
    """Bokeh's core as text for an inline script element."""
    return "\n".join(Resources(mode="inline", components=["bokeh"], log_level="error").js_raw)


def _figures(shown: Shown, metrics: dict[str, Metric], any_main: bool) -> list[dict[str, Any]]:
    slots = sorted({point.slots for curve in shown.curves for point in curve.points})
    items: list[dict[str, Any]] = []
    if any_main:
        items.append(figures.curve_figure("figure-rate", "Rate against slots", slots))
    if "efficiency" in metrics:
        bounds = {curve.slots_fed.efficiency for curve in shown.curves if curve.slots_fed}
        bound = bounds.pop() * 100 if len(bounds) == 1 else None
        items.append(figures.curve_figure("figure-efficiency", "Job efficiency against slots", slots, bound))
    rates = [metrics[name] for name in BYTE_RATES if name in metrics]
    if rates:
        items.append(figures.byte_figure("figure-bytes", rates, slots))
    return items


def _series_figures(series: dict[str, Any]) -> list[dict[str, Any]]:
    """One figure for each quantity that at least one embedded trial has samples of."""
    found: list[dict[str, Any]] = []
    for position, (probe, title, y_title, divisor, columns) in enumerate(figures.SERIES_FIGURES):
        present = [
            pair for pair in columns if any(pair[0] in trial.get(probe, {}) for trial in series.values())
        ]
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
        for trial in point.trials
    }
    return {trial: labels.get(trial, "") for trial in trials}


def _effect_groups(findings: Findings) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    groups: list[dict[str, Any]] = []
    items: list[dict[str, Any]] = []
    for position, (workload, name, effects) in enumerate(tables.effect_groups(findings)):
        element = f"figure-effects-{position}" if position < EFFECT_FIGURES_AT_MOST else ""
        if element:
            items.append(figures.effect_figure(element, workload, name, effects))
        provenance = provenance_of_metric(findings, name)
        rows = [tables.effect_row(effect, provenance) for effect in effects]
        groups.append({"workload": workload, "metric": metric(name).title, "rows": rows, "element": element})
    return groups, items


def render(findings: Findings, results: Path, wanted_series: tuple[str, ...] = ()) -> str:
    """The whole page. `results` is where the trials' directories lie; links are relative to it."""
    shown = shown_curves(findings)
    metrics = scaled_metrics(shown.curves, findings)
    workloads = list(dict.fromkeys(curve.workload for curve in shown.curves))
    mains = {workload: wording.main_metric(findings, workload) for workload in workloads}
    main_names = list(dict.fromkeys(name for name in mains.values() if name in metrics))
    groups, effect_items = _effect_groups(findings)
    series = embedded_series(results, series_trials(shown, wanted_series))
    series_figures = _series_figures(series)
    columns = [
        metrics[n] for n in dict.fromkeys([*main_names, "efficiency", "throughput_jobs"]) if n in metrics
    ]
    byte_columns = [
        metrics[name] for name in (*BYTE_RATES, "amplification", "network_amplification") if name in metrics
    ]
    taken = {column.name for column in columns + byte_columns}
    other_columns = [shown_metric for name, shown_metric in metrics.items() if name not in taken]

    def curves(wanted: list[Metric]) -> list[dict[str, Any]]:
        return [tables.curve_rows(i, c, wanted) for i, c in enumerate(shown.curves)] if wanted else []

    return (
        environment()
        .get_template("report.html.j2")
        .render(
            findings=findings,
            answers=wording.answers(findings),
            choices=wording.choice_sentences(findings),
            trials_sentence=wording.trials_sentence(findings),
            confidence=wording.confidence_text(findings),
            workloads=workloads,
            summaries=[
                tables.summary_row(i, curve, metrics.get(mains[curve.workload] or ""))
                for i, curve in enumerate(shown.curves)
            ],
            any_fed=any(curve.slots_fed is not None for curve in shown.curves),
            curves=curves(columns),
            byte_curves=curves(byte_columns),
            other_curves=curves(other_columns),
            columns=columns,
            byte_columns=byte_columns,
            other_columns=other_columns,
            metrics=metrics,
            any_main=bool(main_names),
            left_away=shown.left_away,
            groups=groups,
            combined=tables.combined_rows(findings),
            faults=faults.rows(findings),
            fault_sentences=faults.sentences(findings),
            left_out=tables.left_out(findings),
            extra_tables=tables.extra_tables(findings),
            environment_rows=tables.flatten(findings.environment),
            series_trials=_trial_labels(shown, list(series)),
            series_figures=series_figures,
            bokeh=bokeh_script(),
            script=asset("report.js"),
            data=page_data(
                shown,
                metrics,
                mains,
                [*_figures(shown, metrics, bool(main_names)), *effect_items],
                series,
                series_figures,
            ),
        )
    )
