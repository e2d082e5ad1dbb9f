"""Records -> Findings. Pure: the same records and options, the same findings."""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from headrace.analysis.curves import make_curves
from headrace.analysis.effects import combined_effects, factor_effects
from headrace.analysis.environment import flat, shared_environment, values_by_name
from headrace.analysis.faults import FACTOR, NONE, fault_effects
from headrace.analysis.findings import Combined, FactorEffect, Findings, LeftOut
from headrace.analysis.metrics import headline_metric, stated_metrics, trial_metrics, valid_trials
from headrace.analysis.points import Left, PointOptions, make_points
from headrace.plan.intervals import Statistic
from headrace.records.read import Records
from headrace.study.model import PlanOptions, Price, ReportOptions

BESIDE = ("efficiency", "energy_j_per_job")
"""Metrics whose factor effects are found beside those of the headline metric, where they mean something."""


@dataclass(frozen=True)
class FindOptions:
    """What 'best' means, and how sure the intervals are."""

    metric: str | None = None
    """As `[report] metric`; None for events/s, or bytes/s of a workload without events."""
    efficiency: float = 0.9
    confidence: float = 0.95
    statistic: Statistic = "mean"
    price: dict[str, Price] = field(default_factory=dict[str, Price])

    @classmethod
    def of_study(cls, report: ReportOptions, plan: PlanOptions) -> FindOptions:
        """What a study asks for."""
        return cls(report.metric, report.efficiency, report.confidence, plan.repeats.statistic, report.price)

    @classmethod
    def of_records(cls, records: Records) -> FindOptions:
        """What the study file that lies with the records asks for; the defaults where it cannot be read."""
        try:
            study = tomllib.loads((records.root / "study.toml").read_text())
            return cls.of_study(
                ReportOptions.model_validate(study.get("report", {})),
                PlanOptions.model_validate(study.get("plan", {})),
            )
        except (OSError, ValueError):
            return cls()


def find(records: Records, options: FindOptions | None = None) -> Findings:
    """All that the records say. Failed, invalid and unsupported trials are left out of every number, and listed."""
    options = options or FindOptions.of_records(records)
    trials = valid_trials(records)
    metrics = trial_metrics(trials, options.price) if len(trials) else pd.DataFrame()
    points = make_points(
        trials,
        metrics,
        _left_by_cell(records),
        PointOptions(
            options.confidence, options.statistic, options.efficiency, stated_metrics(options.price)
        ),
    )
    headline: dict[str, str] = {}
    effects: list[FactorEffect] = []
    combined: list[Combined] = []
    rates: dict[str, float] = {}
    for workload in dict.fromkeys(point.workload for point in points):
        own: Any = metrics[(trials["workload"] == workload).to_numpy()]
        own_ids: Any = trials["id"][(trials["workload"] == workload).to_numpy()]
        metric = headline_metric(options.metric, own)
        if metric is None:
            continue
        headline[workload] = metric
        events = "events_per_s" in own and bool(own["events_per_s"].notna().any())
        beside = [name for name in BESIDE if name != metric and (events or name != "efficiency")]
        # A fault is nobody's choice: it has a table of its own.
        found = factor_effects(trials, metrics, workload, [metric, *beside], options.confidence)
        effects += [effect for effect in found if effect.factor != FACTOR]
        values = dict(zip(trials["id"], metrics[metric], strict=True))
        rates |= {trial: float(values[trial]) for trial in own_ids if values[trial] == values[trial]}
        spared = [point for point in points if point.levels.get(FACTOR) in (None, NONE)]
        combined += combined_effects(spared, values, workload, metric, options.confidence)
    faults = fault_effects(records, rates, headline, options.confidence)
    # What failed by a fault is what a finding rests on.
    told = {trial for effect in faults for trial in effect.trials}
    left_out = tuple(left for left in _left_out(records) if left.trial not in told)
    provenances = tuple(dict.fromkeys(each.provenance for each in (*points, *faults)))
    planned = len(records.plan.trials) if records.plan is not None else len(records)
    return Findings(
        title=records.header.title,
        provenance=provenances,
        curves=tuple(make_curves(points, headline, options.efficiency, _loading(trials))),
        effects=tuple(effects),
        combined=tuple(combined),
        left_out=left_out,
        trials_planned=planned,
        trials_done=len(records),
        environment=shared_environment(records.environments),
        warnings=(*records.warnings, *_warnings(records, trials)),
        extra_tables=_result_tables(trials),
        headline=headline,
        confidence=options.confidence,
        study_hash=records.header.study_hash,
        faults=faults,
    )


def _loading(trials: pd.DataFrame) -> frozenset[str]:
    """Workloads that load the storage."""
    return frozenset(trials["workload"][trials["loads_storage"].to_numpy()]) if len(trials) else frozenset()


def _left_out(records: Records) -> tuple[LeftOut, ...]:
    left: list[LeftOut] = []
    if not len(records):
        return ()
    trials: Any = records.trials[~records.trials["valid"].astype(bool)]
    for row in trials.to_dict("records"):
        reasons = tuple(text for _, text in row["reasons"])
        if row["status"] != "done":
            reasons = (row["cause"] or "no cause was recorded", *reasons)
        status = "invalid" if row["status"] == "done" else row["status"]
        left.append(LeftOut(row["id"], row["levels"], status, reasons))
    return tuple(left)


def _left_by_cell(records: Records) -> dict[str, Left]:
    if not len(records):
        return {}
    rows = list(zip(records.trials["cell"], records.trials["status"], records.trials["valid"], strict=True))
    invalid = Counter(cell for cell, status, valid in rows if status == "done" and not valid)
    failed = Counter(cell for cell, status, _ in rows if status == "failed")
    return {cell: Left(invalid[cell], failed[cell]) for cell in {*invalid, *failed}}


def _warnings(records: Records, valid: pd.DataFrame) -> list[str]:
    """What a reader must know before trusting the numbers."""
    warnings: list[str] = []
    if not len(records):
        return ["no trial has been recorded yet"]
    hashes = set(records.trials["study_hash"])
    if len(hashes) > 1:
        warnings.append(
            f"these records are of {len(hashes)} different studies; cells of the same name are taken together"
        )
    if len(set(valid["provenance"])) > 1:
        names = ", ".join(sorted(set(valid["provenance"])))
        warnings.append(
            f"provenances differ ({names}): points are kept apart, and an effect that spans them says so"
        )
    different = [name for name, values in values_by_name(records.environments).items() if len(values) > 1]
    if different:
        warnings.append(f"the environment was not the same for all trials: {', '.join(sorted(different))}")
    if not len(valid):
        warnings.append("no trial is valid: nothing can be said")
    return warnings


def _result_tables(trials: pd.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """What workloads themselves found (percentiles, peak masses): a row a valid trial, numbers and short texts only."""
    tables: dict[str, list[dict[str, Any]]] = {}
    if not len(trials):
        return tables
    columns = (trials[name] for name in ("id", "target", "workload", "slots", "levels", "results"))
    for trial, target, workload, slots, levels, results in zip(*columns, strict=True):
        values = {
            name: value
            for name, value in flat(results).items()
            if isinstance(value, (int, float, bool)) or (isinstance(value, str) and len(value) <= 80)
        }
        if values:
            others = {
                name: level for name, level in levels.items() if name not in ("target", "workload", "slots")
            }
            row = {"trial": trial, "target": target, "slots": slots, **others, **values}
            tables.setdefault(workload, []).append(row)
    return tables
