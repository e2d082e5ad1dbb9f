"""The page's tables as values: every number with its interval, provenance and trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from headrace.analysis.curves import family_of
from headrace.analysis.faults import is_spared
from headrace.analysis.findings import (
    Combined,
    Curve,
    Estimate,
    FactorEffect,
    Findings,
    Point,
    SlotsFed,
)
from headrace.analysis.metrics import LEDGER
from headrace.analysis.ranking import peak
from headrace.metrics.shown import ShownMetric, show
from headrace.report import wording
from headrace.report.choices import combination_names
from headrace.report.numbers import digits_for, interval_text, number, percent, value_text
from headrace.report.page_data import mark_of, provenance_of_metric
from headrace.units import format_bytes

LEFT_OUT_AT_MOST = 200
EXTRA_ROWS_AT_MOST = 200
COST = ShownMetric("cost_of_wrong", "Cost of the wrong choice", "%", 0.01)


@dataclass(frozen=True)
class Value:
    """One number in a table, with its interval, its provenance, and its evidence."""

    text: str
    interval: str
    provenance: str
    tip: str


class LedgerSegment(TypedDict):
    """One segment of a ledger bar."""

    title: str
    width: str
    text: str
    percent: str
    key: str


class PointRow(TypedDict):
    """One point of a curve."""

    load: int
    values: list[Value | None]
    ledger: list[LedgerSegment]
    limit: str
    share: str
    evidence: str
    trials: tuple[str, ...]
    invalid: int
    failed: int
    reasons: tuple[str, ...]


class CurveRows(TypedDict):
    """The points of a curve."""

    index: int
    label: str
    axis: str
    rows: list[PointRow]


class SummaryRow(TypedDict):
    """A curve as one row."""

    index: int
    label: str
    name: str
    workload: str
    rank: str
    fed: str | None
    fed_interval: str
    crossing: str
    why: str
    knee: str | None
    peak: Value | None
    peak_load: int | None
    provenance: str
    trials: tuple[str, ...]
    reasons: tuple[str, ...]


class EffectRow(TypedDict):
    """Effect of one factor."""

    factor: str
    seen: bool
    best: str
    worst: str
    cost: Value
    verdict: str
    p: str
    error_term: str
    levels: str
    note: str
    trials: tuple[str, ...]


class CombinedRow(TypedDict):
    """Best against worst over all choices together."""

    workload: str
    target: str
    load: int
    metric: str
    seen: bool
    best: str
    worst: str
    best_value: str
    worst_value: str
    cost: Value
    verdict: str
    alike: str
    trials: tuple[str, ...]


class LeftOutRow(TypedDict):
    """One trial that no number uses."""

    trial: str
    status: str
    levels: str
    reasons: str


class LeftOutTable(TypedDict):
    """Trials that no number uses."""

    rows: list[LeftOutRow]
    more: int
    reasons: list[tuple[str, int]]
    count: int


class ExtraTable(TypedDict):
    """A table of one workload."""

    title: str
    columns: list[str]
    same: list[tuple[str, str]]
    rows: list[list[str]]
    more: int


def value(estimate: Estimate, shown: ShownMetric, provenance: str, *, unit: bool = False) -> Value:
    """Return an estimate as a table cell; `unit` adds the unit to the cell."""
    text = value_text(estimate, shown) + (f"\u202f{shown.unit}" if unit and shown.unit else "")
    tip = f"{provenance}; {estimate.method}; {wording.plural(estimate.n, 'trial')}"
    return Value(text, interval_text(estimate, shown), provenance, tip)


def _of_point(point: Point, shown: ShownMetric) -> Value | None:
    estimate = point.metrics.get(shown.name)
    return None if estimate is None else value(estimate, shown, mark_of(estimate, point))


def ledger(shares: Mapping[str, float]) -> list[LedgerSegment]:
    """Return the segments of the ledger bar, in per cent of wall time."""
    return [
        {
            "title": wording.LEDGER_TITLES[name],
            "width": f"{shares[name] * 100:.2f}",
            "text": f"{shares[name] * 100:.0f}" if shares[name] >= 0.12 else "",
            "percent": percent(shares[name]),
            "key": name,
        }
        for name in LEDGER
        if shares.get(name, 0.0) > 0
    ]


def _row(point: Point, columns: list[ShownMetric]) -> PointRow:
    return {
        "load": point.load,
        "values": [_of_point(point, column) for column in columns],
        "ledger": ledger(point.ledger),
        "limit": wording.limit_name(point.limit.kind),
        "share": percent(point.limit.share),
        "evidence": point.limit.evidence,
        "trials": point.trials,
        "invalid": point.invalid,
        "failed": point.failed,
        "reasons": point.reasons,
    }


def curve_rows(index: int, curve: Curve, columns: list[ShownMetric]) -> CurveRows:
    """Return a curve's points as rows of these columns, including untrusted points, by rising
    load."""
    points = sorted(
        (*curve.points, *curve.distrusted), key=lambda point: (point.load, bool(point.reasons))
    )
    return {
        "index": index,
        "label": curve.label,
        "axis": "Clients" if curve.axis == "clients" else "Slots",
        "rows": [_row(point, columns) for point in points],
    }


def _ranked_with(curve: Curve) -> tuple[str, str, bool]:
    """Return what curves that are ranked together have in common."""
    return curve.workload, curve.provenance, is_spared(curve.levels)


def not_told_apart(curve: Curve, curves: Sequence[Curve]) -> bool:
    """Return whether a curve can be told apart from none of those that are ranked with it."""
    together = {
        family_of(each)
        for each in curves
        if each.points and _ranked_with(each) == _ranked_with(curve)
    }
    return curve.alike > 0 and curve.alike >= len(together) - 1


def rank_notes(curves: Sequence[Curve], every: Sequence[Curve]) -> list[str]:
    """Return the notes below a table of these curves, of all that are ranked together."""
    texts = [rank_text(curve, every) for curve in curves]
    notes = [wording.RANK] if any("–" in text and text != "–" for text in texts) else []
    return [*notes, wording.UNRANKED] if wording.NOT_TOLD_APART in texts else notes


def rank_text(curve: Curve, curves: Sequence[Curve]) -> str:
    """Return the rank among these curves, as a range where the difference to some is not
    significant; `–` without repeats."""
    if curve.rank is None:
        return "–"
    if not_told_apart(curve, curves):
        return wording.NOT_TOLD_APART
    return f"{curve.rank} – {curve.rank + curve.alike}" if curve.alike else str(curve.rank)


def summary_row(
    index: int, curve: Curve, main: ShownMetric | None, curves: Sequence[Curve]
) -> SummaryRow:
    """Return a curve as one row: rank among all `curves`, slots fed, best value of the main metric,
    knee.

    For a workload that loads the storage, the knee is where its rate stops growing with clients.
    """
    fed = curve.slots_fed
    best = peak(curve, main.name) if main else None
    crossing = fed.interpolated if fed is not None and not fed.censored else None
    noun = wording.axis_noun(curve)
    knee = None if curve.knee is None else wording.knee_text(curve.knee, curve.knee.slots, noun)
    why = wording.beyond_text(fed.why) if fed and not fed.censored else ""
    if (growth := curve.growth) is not None:
        untried = growth.beyond == "untried"
        knee = None if untried else wording.knee_text(growth, growth.enough, "client")
        why = "" if untried else wording.beyond_text(growth.why)
    return {
        "index": index,
        "label": curve.label,
        "name": curve.name or curve.label,
        "workload": curve.workload,
        "rank": rank_text(curve, curves),
        "fed": None if fed is None else fed_text(fed),
        "fed_interval": "" if fed is None else wording.fed_interval(fed),
        "crossing": "" if crossing is None else number(crossing),
        "why": why,
        "knee": knee,
        "peak": value(
            best.metrics[main.name], main, mark_of(best.metrics[main.name], best), unit=True
        )
        if best is not None and main is not None
        else None,
        "peak_load": best.load if best is not None else None,
        "provenance": wording.provenance_of(curve),
        "trials": tuple(dict.fromkeys(trial for point in curve.points for trial in point.trials)),
        "reasons": () if curve.points else _reasons(curve),
    }


def fed_text(fed: SlotsFed) -> str:
    """Return slots fed as a short text: `6`, `≥ 8`, `< 2` when not even the smallest number
    tried is fed."""
    if not fed.slots:
        return f"<\u202f{fed.smallest}"
    return f"≥\u202f{fed.slots}" if fed.censored else str(fed.slots)


def _reasons(curve: Curve) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reason for point in curve.distrusted for reason in point.reasons))


def levels_of(effect: FactorEffect, names: wording.LevelNames) -> str:
    """Return all levels of a factor with their means, as one text."""
    shown = show(
        effect.metric, max((abs(level.estimate.value) for level in effect.levels), default=0.0)
    )
    return "; ".join(
        f"{names.level(effect, level.level)} "
        f"{number(level.estimate.value / shown.divisor, digits_for(level.estimate))} "
        f"{shown.unit}".strip()
        for level in effect.levels
    )


def p_text(p_value: float | None) -> str:
    """Return a p-value as text."""
    if p_value is None:
        return "–"
    return "<\u202f0.001" if p_value < 0.001 else number(p_value, 2)


def effect_row(effect: FactorEffect, provenance: str, names: wording.LevelNames) -> EffectRow:
    """Return a factor effect as a row.

    Best and worst are named only where the difference is significant.
    """
    cost = effect.cost_of_wrong
    best = (effect.best, *effect.alike_best) if effect.seen else ()
    worst = (effect.worst, *effect.alike_worst) if effect.seen else ()
    return {
        "factor": wording.factor_text(effect.factor),
        "seen": effect.seen,
        "best": " or ".join(names.level(effect, level) for level in best) or "–",
        "worst": " or ".join(names.level(effect, level) for level in worst) or "–",
        "cost": value(cost, COST, cost.provenance or effect.provenance or provenance),
        "verdict": verdict(effect),
        "p": p_text(effect.p_value),
        "error_term": effect.error_term,
        "levels": levels_of(effect, names),
        "note": effect.note,
        "trials": cost.trials,
    }


def verdict(found: FactorEffect | Combined) -> str:
    """Return what to say where no difference is significant, with the smallest detectable one;
    empty where one is significant."""
    if found.seen:
        return ""
    cost = found.cost_of_wrong if isinstance(found, FactorEffect) else found.cost
    if cost.low is None:
        return "one trial each: not tested"
    said = wording.detectable_text(found.detectable)
    return "no difference seen" + (f"; {said}" if said else "")


def effect_groups(findings: Findings) -> list[tuple[str, str, list[FactorEffect]]]:
    """Return effects by workload and metric; factors with a significant difference first, the
    strongest first."""
    groups: dict[tuple[str, str], list[FactorEffect]] = {}
    for effect in findings.effects:
        groups.setdefault((effect.workload, effect.metric), []).append(effect)
    return [
        (
            workload,
            name,
            sorted(effects, key=lambda e: (e.seen, e.cost_of_wrong.value), reverse=True),
        )
        for (workload, name), effects in groups.items()
    ]


def combined_rows(findings: Findings) -> list[CombinedRow]:
    """Return best against worst over all choices together, one row for each workload and
    storage."""
    return [_combined_row(findings, each) for each in findings.combined]


def _combined_row(findings: Findings, c: Combined) -> CombinedRow:
    provenance = c.cost.provenance or c.provenance or provenance_of_metric(findings, c.metric)
    shown = show(c.metric, max(abs(c.best_value), abs(c.worst_value)))
    best, worst = combination_names(c)
    known = c.seen and bool(c.best_value or c.worst_value)
    return {
        "workload": c.workload,
        "target": c.target or "any",
        "load": c.slots,
        "metric": shown.title,
        "seen": c.seen,
        "best": best if c.seen else "–",
        "worst": worst if c.seen else "–",
        "best_value": f"{number(c.best_value / shown.divisor)} {shown.unit}" if known else "",
        "worst_value": f"{number(c.worst_value / shown.divisor)} {shown.unit}" if known else "",
        "cost": value(c.cost, COST, provenance),
        "verdict": verdict(c),
        "alike": f"no difference seen to {wording.plural(c.alike_best, 'other')}"
        if c.seen and c.alike_best
        else "",
        "trials": c.cost.trials,
    }


def left_out(findings: Findings) -> LeftOutTable:
    """Return the trials that no number uses: the first of them in full, all of them counted by
    reason."""
    reasons = Counter(
        f"{left.status}: {reason}" for left in findings.left_out for reason in left.reasons
    )
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


def flatten(values: Mapping[str, object], prefix: str = "") -> list[tuple[str, str]]:
    """Return nested values as (dotted name, text) rows."""
    rows: list[tuple[str, str]] = []
    for name, item in values.items():
        dotted = f"{prefix}{name}"
        if isinstance(item, dict):
            rows += flatten({str(key): inner for key, inner in item.items()}, f"{dotted}.")
        elif isinstance(item, int) and name.endswith("_bytes") and item >= 1024:
            rows.append((dotted, format_bytes(item)))
        else:
            rows.append((dotted, wording.level_text(item)))
    return rows


def cell_text(cell: object) -> str:
    """Return a value of a workload's own table as text."""
    return number(cell, 4) if isinstance(cell, float) else wording.level_text(cell)


def extra_tables(findings: Findings) -> list[ExtraTable]:
    """Return the tables of single workloads, truncated for the page; columns with the same value
    in every row are separate."""
    tables: list[ExtraTable] = []
    for title, rows in findings.extra_tables.items():
        names = list(dict.fromkeys(name for row in rows for name in row))
        texts = {name: [cell_text(row.get(name)) for row in rows] for name in names}
        columns = [
            name for name in names if len(rows) < 2 or name == "trial" or len(set(texts[name])) > 1
        ]
        tables.append(
            {
                "title": title,
                "columns": columns,
                "same": [(name, texts[name][0]) for name in names if name not in columns],
                "rows": [
                    [texts[name][i] for name in columns]
                    for i in range(min(len(rows), EXTRA_ROWS_AT_MOST))
                ],
                "more": max(0, len(rows) - EXTRA_ROWS_AT_MOST),
            }
        )
    return tables
