"""The HTML report: one file that works offline, on a desktop, a phone and paper.

Numbers are in tables that need no script; figures (Bokeh, inlined) and controls are additional.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict

from jinja2 import Environment, PackageLoader, StrictUndefined

from headrace.analysis.findings import Findings
from headrace.metrics import registered
from headrace.metrics.shown import ShownMetric, show
from headrace.palette import CURVE_COLOURS, LEDGER_COLOURS, LEDGER_TEXT
from headrace.report import (
    answers,
    bokeh_json,
    energy,
    faults,
    figures,
    first_screen,
    interference,
    nodes,
    prices,
    tables,
    wording,
)
from headrace.report.choices import choice_sentences
from headrace.report.numbers import percent
from headrace.report.page_data import page_data, provenance_of_metric, scaled_metrics
from headrace.report.select import Shown, series_trials, shown_curves
from headrace.report.series import SERVICES, TrialSeries, embedded_series
from headrace.report.template_code import TEMPLATE_CODE

CHOICES_AT_MOST = 6
EFFECT_FIGURES_AT_MOST = 6
IDS_AT_MOST = 40
# The page may run only its own inline script and style; it has no network access.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src "
    "'unsafe-inline'; img-src data: blob:; font-src data:"
)


def environment() -> Environment:
    """Return the templates of this package; every value is escaped, a missing one is an error."""
    made = Environment(
        loader=PackageLoader("headrace.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=TEMPLATE_CODE,
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
    """Return a template file unchanged."""
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


def _byte_rates(metrics: dict[str, ShownMetric]) -> list[ShownMetric]:
    """Return the byte rates at the boundaries between job and device."""
    return [
        metrics[name]
        for name, each in registered().items()
        if each.byte_boundary and name in metrics
    ]


def _answer_figure(
    shown: Shown, first: first_screen.First, metrics: dict[str, ShownMetric]
) -> dict[str, object]:
    """Return the figure of the first screen: the recommended curve, and a few others."""
    curves = [shown.curves[at] for at in first.curves]
    loads = sorted({p.load for curve in curves for p in (*curve.points, *curve.distrusted)})
    return figures.curve_figure("figure-answer", metrics[first.said.metric or ""].title, loads)


def _figures(
    shown: Shown, metrics: dict[str, ShownMetric], any_main: bool
) -> list[dict[str, object]]:
    loads = sorted({p.load for curve in shown.curves for p in (*curve.points, *curve.distrusted)})
    items: list[dict[str, object]] = []
    if any_main:
        items.append(figures.curve_figure("figure-rate", "Rate", loads))
    if "efficiency" in metrics:
        bounds = {curve.slots_fed.efficiency for curve in shown.curves if curve.slots_fed}
        bound = bounds.pop() * 100 if len(bounds) == 1 else None
        items.append(figures.curve_figure("figure-efficiency", "Job efficiency", loads, bound))
    if (per_job := energy.leading(metrics)) is not None:
        items.append(figures.curve_figure("figure-energy", metrics[per_job].title, loads))
    rates = _byte_rates(metrics)
    if rates:
        items.append(figures.byte_figure("figure-bytes", rates, loads))
    return items


class EmbeddedSeriesFigure(TypedDict):
    """One figure of the series of trials."""

    element: str
    title: str
    axis: str
    unit: str
    probe: str
    divisor: float
    columns: list[str]
    names: list[str]
    item: dict[str, object]


def _series_figures(series: dict[str, TrialSeries]) -> list[EmbeddedSeriesFigure]:
    """Return one figure for each quantity that is not 0 throughout in at least one embedded
    trial."""
    found: list[EmbeddedSeriesFigure] = []
    for position, wanted in enumerate(
        (_power_figure(series), *_service_figures(series), *figures.SERIES_FIGURES)
    ):
        samples = [trial.get(wanted.probe, {}) for trial in series.values()]
        present = [
            pair for pair in wanted.columns if any(any(each.get(pair[0], ())) for each in samples)
        ]
        if present:
            element = f"figure-series-{position}"
            names = [words for _, words in present]
            found.append(
                {
                    "element": element,
                    "title": wanted.title,
                    "axis": wanted.axis,
                    "unit": wanted.unit,
                    "probe": wanted.probe,
                    "divisor": wanted.divisor,
                    "columns": [name for name, _ in present],
                    "names": names,
                    "item": figures.series_figure(element, wanted.title, names),
                }
            )
    return found


def _power_figure(series: dict[str, TrialSeries]) -> figures.SeriesFigure:
    """Return the figure of power, with the channels that the trials have."""
    trials = (trial.get(figures.POWER_FIGURE.probe, {}) for trial in series.values())
    names = dict.fromkeys(name for trial in trials for name in trial if name != "time_s")
    kept = list(names)[: len(CURVE_COLOURS)]
    return replace(figures.POWER_FIGURE, columns=tuple((name, name) for name in kept))


def _service_figures(series: dict[str, TrialSeries]) -> list[figures.SeriesFigure]:
    """Return a figure for each unit of what monitoring services said."""
    columns: dict[str, dict[str, None]] = {}
    for trial in series.values():
        for probe, table in trial.items():
            if probe.startswith(f"{SERVICES} "):
                names = (name for name in table if name != "time_s")
                columns.setdefault(probe, {}).update(dict.fromkeys(names))
    return [
        figures.SeriesFigure(
            probe,
            f"Monitoring services ({unit})" if (unit := probe.partition(" ")[2]) else "Monitoring",
            "Value",
            unit,
            1.0,
            tuple((name, name) for name in list(names)[: len(CURVE_COLOURS)]),
        )
        for probe, names in columns.items()
    ]


def _trial_labels(shown: Shown, trials: list[str]) -> dict[str, str]:
    labels = {
        trial: f"{curve.label}, {wording.plural(point.load, wording.axis_noun(curve))}"
        for curve in shown.curves
        for point in curve.points
        for trial in point.trials
    }
    return {trial: labels.get(trial, "") for trial in trials}


def _effect_groups(findings: Findings) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    groups: list[dict[str, object]] = []
    items: list[dict[str, object]] = []
    names = wording.LevelNames.of(findings)
    for position, (workload, name, effects) in enumerate(tables.effect_groups(findings)):
        element = f"figure-effects-{position}" if position < EFFECT_FIGURES_AT_MOST else ""
        if element:
            items.append(figures.effect_figure(element, name, effects, names))
        provenance = provenance_of_metric(findings, name)
        rows = [tables.effect_row(effect, provenance, names) for effect in effects]
        groups.append(
            {"workload": workload, "metric": show(name).title, "rows": rows, "element": element}
        )
    return groups, items


@dataclass(frozen=True)
class _Columns:
    """Metrics of the three tables of points."""

    main: list[ShownMetric]
    bytes: list[ShownMetric]
    other: list[ShownMetric]

    @classmethod
    def of(cls, metrics: dict[str, ShownMetric], main_names: list[str]) -> _Columns:
        names = dict.fromkeys([*main_names, "efficiency", "throughput_jobs"])
        main = [metrics[name] for name in names if name in metrics]
        amplifications = ("amplification", "network_amplification")
        rates = [
            *_byte_rates(metrics),
            *(metrics[name] for name in amplifications if name in metrics),
        ]
        taken = {column.name for column in main + rates}
        return cls(main, rates, [each for name, each in metrics.items() if name not in taken])


def render(
    findings: Findings,
    results: Path,
    wanted_series: tuple[str, ...] = (),
    trials_folder: str = "trials",
) -> str:
    """Return the whole page.

    The trials' directories are in `results`; links to them begin with `trials_folder`.
    """
    shown = shown_curves(findings)
    metrics = scaled_metrics(shown.curves, findings)
    workloads = list(dict.fromkeys(curve.workload for curve in shown.curves))
    mains = {workload: wording.main_metric(findings, workload) for workload in workloads}
    main_names = list(dict.fromkeys(name for name in mains.values() if name in metrics))
    groups, effect_items = _effect_groups(findings)
    series = embedded_series(results, series_trials(shown, wanted_series))
    series_figures = _series_figures(series)
    first = first_screen.first_of(findings, shown, metrics)
    items = [*_figures(shown, metrics, bool(main_names)), *effect_items]
    if first is not None and first.curves:
        items.insert(0, _answer_figure(shown, first, metrics))
    energy_main = energy.leading(metrics)
    data = page_data(
        shown, metrics, mains, items, series, series_figures, trials_folder, energy_main,
        first.data if first is not None and first.curves else None,
    )  # fmt: skip
    template = environment().get_template("report.html.j2")
    return template.render(
        findings=findings,
        trials_folder=trials_folder,
        workloads=workloads,
        mains=mains,
        metrics=metrics,
        any_main=bool(main_names),
        left_away=shown.left_away,
        groups=groups,
        series_trials=_trial_labels(shown, list(series)),
        series_figures=series_figures,
        bokeh=bokeh_json.script(),
        script=asset("report.js"),
        tools=f"{asset('titles.js')}\n{asset('tools.js')}",
        data=data,
        **first_screen.template_values(findings, first, shown, metrics),
        **_answers_of(findings),
        **_curves_of(findings, shown, metrics, mains, _Columns.of(metrics, main_names)),
        **_sections_of(findings),
        **_energy_of(findings, shown, metrics, energy_main),
    )


def _answers_of(findings: Findings) -> dict[str, object]:
    """Return what the head of the page shows: answers, choices and what they rest on."""
    found = answers.answers(findings)
    leading = answers.leading(found)
    sentences = choice_sentences(findings)
    return {
        "answers": leading,
        "answers_more": len(found) - len(leading),
        "unanswered": [answers.unanswered_sentence(each) for each in findings.unanswered],
        "choices": sentences[:CHOICES_AT_MOST],
        "choices_more": max(0, len(sentences) - CHOICES_AT_MOST),
        "trials_sentence": wording.trials_sentence(findings),
        "confidence": wording.confidence_text(findings),
        "joint_confidence": percent(findings.joint_confidence, 3),
        "false_share": percent(1 - findings.confidence),
    }


def _curves_of(
    findings: Findings,
    shown: Shown,
    metrics: dict[str, ShownMetric],
    mains: dict[str, str | None],
    columns: _Columns,
) -> dict[str, object]:
    """Return the tables of the curves, and what their legends tell."""

    def rows(wanted: list[ShownMetric]) -> list[object]:
        if not wanted:
            return []
        return [tables.curve_rows(i, curve, wanted) for i, curve in enumerate(shown.curves)]

    curves = shown.curves
    return {
        "noun": "clients" if any(curve.axis == "clients" for curve in curves) else "slots",
        "axis": wording.axis_title(curves),
        "any_distrusted": any(curve.distrusted for curve in curves),
        "any_fed": any(curve.slots_fed is not None for curve in curves),
        "best_heading": wording.best_heading(mains.values()),
        "rank_notes": [
            note[:1].upper() + note[1:] for note in tables.rank_notes(curves, findings.curves)
        ],
        "summaries": [
            tables.summary_row(i, curve, metrics.get(mains[curve.workload] or ""), findings.curves)
            for i, curve in enumerate(curves)
        ],
        "curves": rows(columns.main),
        "byte_curves": rows(columns.bytes),
        "other_curves": rows(columns.other),
        "columns": columns.main,
        "byte_columns": columns.bytes,
        "other_columns": columns.other,
    }


def _energy_of(
    findings: Findings, shown: Shown, metrics: dict[str, ShownMetric], main: str | None
) -> dict[str, object]:
    """Return the tables of energy and of prices; empty without any."""
    return {
        "energy_main": main,
        "energy_curves": energy.energy_curves(shown.curves, main, metrics),
        "energy_columns": energy.columns(metrics, main),
        "energy_sentence": energy.sentence(findings, main) if main else "",
        "prices": prices.rows(findings),
        "price_columns": [prices.PER[name] for name in prices.per_columns(findings)],
        "price_sentence": prices.SENTENCE,
    }


def _sections_of(findings: Findings) -> dict[str, object]:
    """Return the tables below the curves."""
    return {
        "combined": tables.combined_rows(findings),
        "faults": faults.rows(findings),
        "fault_sentences": faults.sentences(findings),
        "node_tables": nodes.tables(findings),
        "interference": interference.rows(findings),
        "interference_warning": interference.warning(findings),
        "left_out": tables.left_out(findings),
        "extra_tables": tables.extra_tables(findings),
        "environment_rows": tables.flatten(findings.environment),
    }
