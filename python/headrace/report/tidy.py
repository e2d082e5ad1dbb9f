"""Findings as one long, tidy table with one row per estimate; CSV and Parquet are this table.

| column | is |
|---|---|
| `about` | `point`, `ledger`, `rank`, `slots fed`, `growth`, `knee`, `level effect`, |
| | `cost of wrong`, `combined cost`, `node`, `fault`, `interference`; not evidence: |
| | `distrusted`, `no valid trial`, `left out` |
| `workload`, `target` | null where the row is about several |
| `slots`, `clients` | null where the row is about several; `clients`: concurrent, on all nodes |
| `level_<factor>` | the factor's level as text |
| `metric` | name with its unit last; a factor's name and level are in `factor`, `level` |
| `value`, `low`, `high` | the estimate, in the metric's own unit, never scaled |
| `n`, `method`, `provenance` | of the estimate |
| `limit`, `limit_share` | the bottleneck of jobs at a point |
| `note` | reasons, best and worst levels |
| `trials` | ids, separated by spaces |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow

from headrace.analysis.findings import (
    Curve,
    Estimate,
    FaultEffect,
    Findings,
    Growth,
    Knee,
    NodesOfCell,
    Point,
    SlotsFed,
)
from headrace.analysis.metrics import LEDGER
from headrace.report import answers, energy, wording
from headrace.report.page_data import mark_of, provenance_of_metric

# Any: Arrow has no annotations.
pa: Any = pyarrow

_TEXT = (
    "about",
    "workload",
    "target",
    "metric",
    "factor",
    "level",
    "method",
    "provenance",
    "limit",
    "note",
    "trials",
)
_NUMBERS = ("value", "low", "high", "limit_share")
_WHOLE = ("slots", "clients", "n")
_ORDER = (
    "about",
    "workload",
    "target",
    "slots",
    "clients",
    "factor",
    "level",
    "metric",
    "value",
    "low",
    "high",
    "n",
    "method",
    "provenance",
    "limit",
    "limit_share",
    "note",
    "trials",
)


@dataclass(frozen=True)
class TidyRow:
    """One row of the table; what is None is null."""

    about: str = ""
    workload: str | None = None
    target: str | None = None
    slots: int | None = None
    clients: int | None = None
    factor: str | None = None
    level: str | None = None
    metric: str | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    method: str | None = None
    provenance: str | None = None
    limit: str | None = None
    limit_share: float | None = None
    note: str | None = None
    trials: str | None = None
    levels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Factor -> level; its column is `level_<factor>`."""

    def cells(self) -> dict[str, str | float | None]:
        """Return the columns of the table."""
        return {
            **{name: getattr(self, name) for name in _ORDER},
            **{f"level_{name}": level for name, level in self.levels.items()},
        }

    def with_estimate(self, estimate: Estimate, provenance: str) -> TidyRow:
        """Return the row with an estimate and its evidence."""
        return replace(
            self,
            value=estimate.value,
            low=estimate.low,
            high=estimate.high,
            n=estimate.n,
            method=estimate.method,
            provenance=estimate.provenance or provenance,
            trials=" ".join(estimate.trials),
        )


def _levels(levels: Mapping[str, object]) -> dict[str, str]:
    return {
        name: wording.level_text(level)
        for name, level in levels.items()
        if level is not None and name not in ("slots", "target", "workload")
    }


def _point_rows(point: Point) -> list[TidyRow]:
    shared = TidyRow(
        workload=point.workload,
        target=point.target,
        slots=point.slots,
        clients=point.load,
        levels=_levels(point.levels),
    )
    if point.reasons:
        row = replace(shared, about="distrusted", note="; ".join(point.reasons))
    else:
        shared = replace(shared, limit=point.limit.kind, limit_share=point.limit.share)
        row = replace(shared, about="point")
    rows = [
        replace(row, metric=name, note=_note(name, point, row.note)).with_estimate(
            estimate, mark_of(estimate, point)
        )
        for name, estimate in point.metrics.items()
    ]
    if point.reasons:
        return rows
    rows += [
        replace(
            shared,
            about="ledger",
            metric=f"{name}_share",
            value=point.ledger[name],
            n=len(point.trials),
            method="mean",
            provenance=point.provenance,
            trials=" ".join(point.trials),
        )
        for name in LEDGER
        if name in point.ledger
    ]
    return rows


def _note(name: str, point: Point, note: str | None) -> str | None:
    """Return the note of a row: for energy what it is of and where it comes from."""
    boundary, source = energy.basis_text(name, point.energy_basis)
    text = "; ".join(part for part in (note, boundary and f"boundary: {boundary}", source) if part)
    return text or None


def _price_rows(findings: Findings) -> list[TidyRow]:
    rows: list[TidyRow] = []
    for each in findings.prices:
        currency = each.currency.lower()
        shared = TidyRow(
            about="price",
            workload=each.workload,
            target=each.target,
            clients=each.load,
            levels=_levels(each.levels),
            note=f"{each.label}; {each.what}",
            trials=" ".join(each.trials),
        )
        rows.append(
            replace(shared, metric=f"price_{currency}", value=each.amount, provenance=each.source)
        )
        rows += [
            replace(shared, metric=f"price_per_{name}_{currency}").with_estimate(
                estimate, estimate.provenance
            )
            for name, estimate in each.per.items()
        ]
    return rows


def _curve_rows(curve: Curve) -> list[TidyRow]:
    trials = [trial for point in curve.points for trial in point.trials]
    shared = TidyRow(
        workload=curve.workload,
        target=curve.target,
        n=len(trials),
        trials=" ".join(trials),
        provenance=wording.provenance_of(curve),
        levels=_levels(curve.levels),
    )
    rows = [row for point in (*curve.points, *curve.distrusted) for row in _point_rows(point)]
    if curve.rank is not None:
        rows.append(
            replace(
                shared,
                about="rank",
                metric="rank",
                value=float(curve.rank),
                note=f"no difference seen to {wording.plural(curve.alike, 'other')}",
                low=float(curve.rank),
                high=float(curve.rank + curve.alike),
            )
        )
    if curve.slots_fed is not None:
        rows += _fed_rows(shared, curve.slots_fed, wording.axis_noun(curve))
    if (growth := curve.growth) is not None:
        tried = ", ".join(
            f"{count}: {rate:.6g}" for count, rate in zip(growth.clients, growth.rates, strict=True)
        )
        low, high = _bounds(growth)
        rows.append(
            replace(
                shared,
                about="growth",
                metric="clients_enough",
                value=float(growth.enough),
                low=low,
                high=high,
                note=f"of {growth.metric}; beyond it {growth.beyond}; clients tried: {tried}",
            )
        )
    if (knee := curve.knee) is not None:
        rows.append(_knee_row(shared, knee))
    return rows


def _knee_row(shared: TidyRow, knee: Knee) -> TidyRow:
    note = f"of {knee.metric}, there {knee.value:.6g}; beyond it {knee.beyond}"
    if knee.difference_seen is False:
        note = f"of {knee.metric}; no difference seen between any two numbers of slots"
    low, high = _bounds(knee)
    return replace(
        shared,
        about="knee",
        metric="knee",
        clients=knee.slots,
        value=float(knee.slots),
        low=low,
        high=high,
        note=note,
    )


def _bounds(found: Knee | Growth) -> tuple[float | None, float | None]:
    return (
        None if found.low is None else float(found.low),
        None if found.high is None else float(found.high),
    )


def _fed_rows(shared: TidyRow, fed: SlotsFed, noun: str) -> list[TidyRow]:
    note = f"at {fed.efficiency:g} job efficiency; " + (
        f"at least; {wording.untried_text(fed.failed_above, noun)}" if fed.censored else fed.why
    )
    if not fed.slots:
        note += f"; fewer than {fed.smallest}, the smallest number tried"
    row = replace(shared, about="slots fed", note=note)
    rows = [
        replace(
            row,
            metric="slots_fed",
            value=float(fed.slots),
            low=None if fed.low is None else float(fed.low),
            high=None if fed.high is None or fed.open_above else float(fed.high),
            method="largest number tried that holds the efficiency; by its intervals",
        )
    ]
    if fed.interpolated is not None:
        rows.append(
            replace(
                row,
                metric="slots_fed_interpolated",
                value=fed.interpolated,
                low=fed.interpolated_low,
                high=fed.interpolated_high,
                method="linear between two numbers tried",
            )
        )
    return rows


def _choice_rows(findings: Findings) -> list[TidyRow]:
    rows: list[TidyRow] = []
    for effect in findings.effects:
        provenance = effect.provenance or provenance_of_metric(findings, effect.metric)
        shared = TidyRow(workload=effect.workload, factor=effect.factor, metric=effect.metric)
        rows += [
            replace(
                shared, about="level effect", level=wording.level_text(each.level)
            ).with_estimate(each.estimate, provenance)
            for each in effect.levels
        ]
        p_value = "" if effect.p_value is None else f"; p {effect.p_value:.3g}"
        note = (
            f"{'best' if effect.seen else 'no difference seen; highest'} "
            f"{wording.level_text(effect.best)}, "
            f"{'worst' if effect.seen else 'lowest'} {wording.level_text(effect.worst)}; "
            f"judged against {effect.error_term}{p_value}"
        )
        rows.append(
            replace(shared, about="cost of wrong", note=note).with_estimate(
                effect.cost_of_wrong, provenance
            )
        )
    for each in findings.combined:
        row = TidyRow(
            about="combined cost",
            workload=each.workload,
            target=each.target,
            clients=each.slots,
            metric=each.metric,
            note=f"{'' if each.seen else 'no difference seen; '}"
            f"best {wording.levels_text(each.best)}; worst {wording.levels_text(each.worst)}",
        )
        provenance = each.provenance or provenance_of_metric(findings, each.metric)
        rows.append(row.with_estimate(each.cost, provenance))
    return rows


def _of_cell(cell: FaultEffect | NodesOfCell, about: str, level: str, note: str = "") -> TidyRow:
    """Return what the rows of one fault, or one node, of a cell share."""
    return TidyRow(
        about=about,
        workload=cell.workload,
        target=cell.target,
        slots=cell.slots,
        factor=about,
        level=level,
        provenance=cell.provenance,
        n=len(cell.trials),
        trials=" ".join(cell.trials),
        levels=_levels(cell.levels),
        note=note,
    )


def _with_values(shared: TidyRow, values: Mapping[str, float | None]) -> list[TidyRow]:
    return [
        replace(shared, metric=name, value=float(value))
        for name, value in values.items()
        if value is not None
    ]


def _fault_rows(findings: Findings) -> list[TidyRow]:
    rows: list[TidyRow] = []
    for effect in findings.faults:
        shared = _of_cell(effect, "fault", effect.fault, effect.note or effect.error)
        rows += _with_values(
            shared,
            {
                "jobs": effect.jobs,
                "failed_jobs": effect.failed_jobs,
                "fired": effect.fired,
                "stall_s": effect.stall_s,
                "recovered_s": effect.recovered_s,
                "acknowledged_writes": effect.acknowledged_writes,
                "lost_writes": effect.lost_writes,
                "lost_bytes": effect.lost_bytes,
            },
        )
        if effect.rate is not None:
            row = replace(shared, metric="rate_left", note=f"against {effect.against}")
            rows.append(row.with_estimate(effect.rate, effect.provenance))
    return rows


def _node_rows(findings: Findings) -> list[TidyRow]:
    rows: list[TidyRow] = []
    for cell, node in ((each, node) for each in findings.nodes for node in each.nodes):
        shared = _of_cell(cell, "node", node.name, "; ".join(node.events))
        rows += _with_values(
            shared,
            {
                f"{cell.per}s_per_s": node.per_s,
                "jobs": node.jobs,
                "failed_jobs": node.failed_jobs,
                "efficiency": node.efficiency,
                "foreign_cpus": node.other_cpus,
                "metered_power_w": node.metered_w,
                "start_s": node.start_s,
                **{f"{part}_share": share for part, share in node.ledger.items()},
            },
        )
        if node.relative is not None:
            row = replace(shared, metric=f"time_per_{cell.per}_over_others")
            rows.append(row.with_estimate(node.relative, cell.provenance))
    return rows


def _interference_rows(findings: Findings) -> list[TidyRow]:
    return [
        TidyRow(
            about="interference",
            workload=each.workload,
            target=each.target,
            metric=name,
            value=value,
            n=len(each.invalid) + len(each.warned),
            note=", ".join(each.programs),
            trials=" ".join((*each.invalid, *each.warned)),
        )
        for each in findings.interference
        for name, value in (("foreign_cpus", each.foreign_cpus), ("lost_share", each.lost_share))
    ]


def _left_out_rows(findings: Findings) -> list[TidyRow]:
    return [
        TidyRow(
            about="left out",
            workload=_text(left.levels.get("workload")),
            target=_text(left.levels.get("target")),
            slots=slots if isinstance(slots := left.levels.get("slots"), int) else None,
            note=f"{left.status}: {'; '.join(left.reasons)}",
            trials=left.trial,
            levels=_levels(left.levels),
        )
        for left in findings.left_out
    ]


def _text(level: object) -> str | None:
    return None if level is None else str(level)


def _unanswered_rows(findings: Findings) -> list[TidyRow]:
    return [
        TidyRow(
            about="no valid trial",
            workload=each.workload,
            target=each.target,
            n=each.planned,
            note=answers.unanswered_sentence(each),
        )
        for each in findings.unanswered
    ]


def tidy_table(findings: Findings) -> Any:
    """Return the long table, as an Arrow table.

    The columns and their order are the same for the same study.
    """
    rows = [row for curve in findings.curves for row in _curve_rows(curve)]
    rows += (
        _price_rows(findings)
        + _choice_rows(findings)
        + _node_rows(findings)
        + _fault_rows(findings)
        + _interference_rows(findings)
    )
    rows += _unanswered_rows(findings) + _left_out_rows(findings)
    factors = list(dict.fromkeys(f"level_{name}" for row in rows for name in row.levels))
    kinds = {
        **dict.fromkeys(_TEXT, pa.string()),
        **dict.fromkeys(_NUMBERS, pa.float64()),
        **dict.fromkeys(_WHOLE, pa.int64()),
    }
    names = [*_ORDER[:5], *factors, *_ORDER[5:]]
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in names])
    return pa.Table.from_pylist([row.cells() for row in rows], schema=schema)
