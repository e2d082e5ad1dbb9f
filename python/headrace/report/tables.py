"""The page's tables as values: every number with its interval, what it is, and the trials that it rests on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from headrace.analysis.findings import Curve, Estimate, FactorEffect, Findings, Point
from headrace.report import wording
from headrace.report.metrics import (
    Metric,
    digits_for,
    interval_text,
    metric,
    number,
    percent,
    value_text,
)
from headrace.report.page_data import mark_of, provenance_of_metric
from headrace.units import format_bytes

LEFT_OUT_AT_MOST = 200
EXTRA_ROWS_AT_MOST = 200
COST = Metric("cost_of_wrong", "Cost of the wrong choice", "%", 0.01)


@dataclass(frozen=True)
class Value:
    """One number in a table, with its interval, what it is, and what it rests on."""

    text: str
    interval: str
    provenance: str
    tip: str


def value(estimate: Estimate, shown: Metric, provenance: str, *, unit: bool = False) -> Value:
    """An estimate as a table cell; `unit` puts the unit into the cell."""
    text = value_text(estimate, shown) + (f"\u202f{shown.unit}" if unit and shown.unit else "")
    tip = f"{provenance}; {estimate.method}; {wording.plural(estimate.n, 'trial')}"
    return Value(text, interval_text(estimate, shown), provenance, tip)


def _of_point(point: Point, shown: Metric) -> Value | None:
    estimate = point.metrics.get(shown.name)
    return None if estimate is None else value(estimate, shown, mark_of(estimate, point))


def ledger(point: Point) -> list[dict[str, Any]]:
    """Pieces of the ledger bar, in per cent of wall time."""
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
        "values": [_of_point(point, column) for column in columns],
        "ledger": ledger(point),
        "limit": wording.limit_name(point.limit.kind),
        "share": percent(point.limit.share),
        "evidence": point.limit.evidence,
        "trials": point.trials,
        "invalid": point.invalid,
        "failed": point.failed,
    }


def curve_rows(index: int, curve: Curve, columns: list[Metric]) -> dict[str, Any]:
    """A curve's points as rows of these columns."""
    return {"index": index, "label": curve.label, "rows": [_row(point, columns) for point in curve.points]}


def summary_row(index: int, curve: Curve, main: Metric | None) -> dict[str, Any]:
    """A curve as one row: slots fed, best value of the main metric, knee; of a workload that loads the storage where its rate stops
    growing with clients."""
    fed = curve.slots_fed
    best = wording.peak(curve, main.name) if main else None
    crossing = fed.interpolated if fed is not None and not fed.censored else None
    knee = None if curve.knee is None else f"at {curve.knee.slots}, then {curve.knee.beyond}"
    why = wording.beyond_text(fed.why) if fed and not fed.censored else ""
    if (growth := curve.growth) is not None:
        stops = f"at {wording.plural(growth.enough, 'client')}, then {growth.beyond}"
        knee = None if growth.beyond == "untried" else stops
        why = "" if growth.beyond == "untried" else wording.beyond_text(growth.why)
    return {
        "index": index,
        "label": curve.label,
        "workload": curve.workload,
        "fed": None if fed is None else (f"≥\u202f{fed.slots}" if fed.censored else str(fed.slots)),
        "crossing": "" if crossing is None else number(crossing),
        "why": why,
        "knee": knee,
        "peak": value(best.metrics[main.name], main, mark_of(best.metrics[main.name], best), unit=True)
        if best is not None and main is not None
        else None,
        "peak_slots": best.slots if best is not None else None,
        "provenance": wording.provenance_of(curve),
        "trials": tuple(dict.fromkeys(trial for point in curve.points for trial in point.trials)),
    }


def levels_of(effect: FactorEffect) -> str:
    """All levels of a factor with their means, as one text."""
    shown = metric(effect.metric, max((abs(level.estimate.value) for level in effect.levels), default=0.0))
    return "; ".join(
        f"{wording.level_text(level.level)} "
        f"{number(level.estimate.value / shown.divisor, digits_for(level.estimate))} {shown.unit}".strip()
        for level in effect.levels
    )


def p_text(p_value: float | None) -> str:
    """A p-value as it is printed."""
    if p_value is None:
        return "–"
    return "<\u202f0.001" if p_value < 0.001 else number(p_value, 2)


def effect_row(effect: FactorEffect, provenance: str) -> dict[str, Any]:
    """What a factor is worth, as a row."""
    cost = effect.cost_of_wrong
    return {
        "factor": wording.factor_text(effect.factor),
        "best": wording.level_text(effect.best),
        "worst": wording.level_text(effect.worst),
        "cost": value(cost, COST, cost.provenance or effect.provenance or provenance),
        "p": p_text(effect.p_value),
        "error_term": effect.error_term,
        "levels": levels_of(effect),
        "note": effect.note,
        "trials": cost.trials,
    }


def effect_groups(findings: Findings) -> list[tuple[str, str, list[FactorEffect]]]:
    """Effects by workload and metric, the strongest factor first."""
    groups: dict[tuple[str, str], list[FactorEffect]] = {}
    for effect in findings.effects:
        groups.setdefault((effect.workload, effect.metric), []).append(effect)
    return [
        (workload, name, sorted(effects, key=lambda e: e.cost_of_wrong.value, reverse=True))
        for (workload, name), effects in groups.items()
    ]


def combined_rows(findings: Findings) -> list[dict[str, Any]]:
    """Best against worst over all factors together, a row a workload and storage."""
    rows: list[dict[str, Any]] = []
    for c in findings.combined:
        provenance = c.cost.provenance or c.provenance or provenance_of_metric(findings, c.metric)
        shown = metric(c.metric, max(abs(c.best_value), abs(c.worst_value)))
        differ = wording.differing(c)
        both = c.best_value or c.worst_value
        rows.append(
            {
                "workload": c.workload,
                "target": c.target or "any",
                "slots": c.slots,
                "metric": shown.title,
                "best": wording.levels_text(c.best, differ) or "no difference",
                "worst": wording.levels_text(c.worst, differ) or "no difference",
                "best_value": f"{number(c.best_value / shown.divisor)} {shown.unit}" if both else "",
                "worst_value": f"{number(c.worst_value / shown.divisor)} {shown.unit}" if both else "",
                "cost": value(c.cost, COST, provenance),
                "trials": c.cost.trials,
            }
        )
    return rows


def left_out(findings: Findings) -> dict[str, Any]:
    """Trials that no number rests on, the first of them in full, all of them counted by reason."""
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
    for name, item in values.items():
        dotted = f"{prefix}{name}"
        if isinstance(item, dict):
            rows += flatten({str(key): inner for key, inner in item.items()}, f"{dotted}.")
        else:
            size = isinstance(item, int) and name.endswith("_bytes") and item >= 1024
            rows.append((dotted, format_bytes(item) if size else wording.level_text(item)))
    return rows


def cell_text(cell: object) -> str:
    """A value of a workload's own table."""
    return number(cell, 4) if isinstance(cell, float) else wording.level_text(cell)


def extra_tables(findings: Findings) -> list[dict[str, Any]]:
    """Tables of single workloads, cut to a length that a page bears; what is the same in every row stands apart."""
    tables: list[dict[str, Any]] = []
    for title, rows in findings.extra_tables.items():
        names = list(dict.fromkeys(name for row in rows for name in row))
        texts = {name: [cell_text(row.get(name)) for row in rows] for name in names}
        columns = [name for name in names if len(rows) < 2 or name == "trial" or len(set(texts[name])) > 1]
        tables.append(
            {
                "title": title,
                "columns": columns,
                "same": [(name, texts[name][0]) for name in names if name not in columns],
                "rows": [
                    [texts[name][i] for name in columns] for i in range(min(len(rows), EXTRA_ROWS_AT_MOST))
                ],
                "more": max(0, len(rows) - EXTRA_ROWS_AT_MOST),
            }
        )
    return tables
