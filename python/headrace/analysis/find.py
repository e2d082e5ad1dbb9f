"""Records -> Findings. Pure: equal records and options give equal findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from headrace.analysis.combined import MeasuredCombination, judge_combination, measure_combinations
from headrace.analysis.combined import p_value_of as combinations_p
from headrace.analysis.curves import CurveOptions, make_curves
from headrace.analysis.distrusted import (
    distrusted_points,
    failed_loads,
    invalid_trials,
    unanswered,
)
from headrace.analysis.effects import MeasuredEffect, judge_effect, measure_effects
from headrace.analysis.effects import p_value_of as effects_p
from headrace.analysis.environment import flat, shared_environment, values_by_name
from headrace.analysis.faults import FACTOR, fault_effects, is_spared
from headrace.analysis.findings import FaultEffect, Findings, LeftOut, Point
from headrace.analysis.interference import disturbances
from headrace.analysis.jointly import joint_confidence
from headrace.analysis.metrics import (
    headline_metric,
    metric_provenance,
    missing_text,
    secondary_metrics,
    trial_metrics,
    valid_trials,
)
from headrace.analysis.naming import Kinds, with_names
from headrace.analysis.nodes import nodes_of_cells
from headrace.analysis.points import Left, PointOptions, make_points
from headrace.analysis.prices import drives_of_one_price, storage_prices
from headrace.analysis.ranking import best_first
from headrace.analysis.ranking import p_values as ranking_p
from headrace.analysis.read import Records
from headrace.metrics import is_rate
from headrace.metrics.headline import candidates
from headrace.metrics.shown import show
from headrace.plan.coverage import least_coverage
from headrace.plan.intervals import Statistic
from headrace.records.trial_record import NO_ENERGY, NOT_MODELLED
from headrace.study.model import PlanOptions, Price, Repeats, ReportOptions


@dataclass(frozen=True)
class FindOptions:
    """Options of the analysis: which metric defines 'best', and the confidence of the intervals."""

    metric: str | None = None
    """As `[report] metric`; None: events/s, or bytes/s for a workload without events."""
    efficiency: float = 0.9
    confidence: float = 0.95
    statistic: Statistic = "mean"
    price: dict[str, Price] = field(default_factory=dict[str, Price])
    repeats: Repeats | None = None
    """The plan's repeats, and whether their number depended on results (sequential stopping)."""

    @classmethod
    def of_study(cls, report: ReportOptions, plan: PlanOptions) -> FindOptions:
        """Return the options of a study."""
        return cls(
            report.metric,
            report.efficiency,
            report.confidence,
            plan.repeats.statistic,
            report.price,
            plan.repeats,
        )

    @classmethod
    def of_records(cls, records: Records) -> FindOptions:
        """Return the options of the study file stored with the records; the defaults where it
        cannot be read."""
        try:
            return cls.of_study(
                ReportOptions.model_validate(records.study.get("report", {})),
                PlanOptions.model_validate(records.study.get("plan", {})),
            )
        except ValueError:
            return cls()


@dataclass(frozen=True)
class _Headlines:
    """The metric that defines 'best' for each workload, and its values."""

    metric: dict[str, str]
    values: dict[str, dict[str, float]]
    """By workload and trial; only valid trials that have a value."""
    secondary: dict[str, list[str]]
    """Further metrics whose factor effects are estimated, where they apply."""

    @property
    def by_trial(self) -> dict[str, float]:
        return {trial: value for values in self.values.values() for trial, value in values.items()}


def find(records: Records, options: FindOptions | None = None) -> Findings:
    """Return all findings that the records support.

    Failed, invalid and unsupported trials enter no number; they are listed with their reasons.
    """
    options = options or FindOptions.of_records(records)
    trials = valid_trials(records)
    metrics = trial_metrics(trials, options.price) if len(trials) else pd.DataFrame()
    points = make_points(trials, metrics, _left_by_cell(records), _point_options(trials, options))
    distrusted, invalid, invalid_metrics = distrusted_points(
        records, _point_options(invalid_trials(records), options), options.price
    )
    headlines = _headlines(trials, metrics, options.metric)
    effects, combinations = _measured(trials, metrics, points, headlines)
    headline = _with_distrusted(headlines.metric, invalid, invalid_metrics, options.metric)
    of_curves = _curve_options(records, trials, options, headlines)
    curves = make_curves(points, replace(of_curves, headline=headline), distrusted)
    # All comparisons that may name a difference are judged together (multiple comparisons).
    p_values = [
        *(effects_p(each) for each in effects),
        *(combinations_p(each) for each in combinations),
        *ranking_p(curves, headlines.metric, headlines.values),
    ]
    joint = joint_confidence(p_values, options.confidence)
    kinds = _kinds(records)
    curves = best_first(with_names(curves, kinds), headlines.metric, headlines.values, joint)
    rates = _rates(trials, metrics, headlines)
    faults = fault_effects(records, rates.by_trial, rates.metric, options.confidence)
    # Trials that failed because of an injected fault are evidence of a fault effect, so they are
    # not listed as left out.
    told = {trial for effect in faults for trial in effect.trials}
    return Findings(
        title=records.header.title,
        provenance=_provenances(points, faults, distrusted),
        curves=tuple(curves),
        effects=tuple(judge_effect(each, options.confidence, joint) for each in effects),
        combined=tuple(judge_combination(each, joint, kinds) for each in combinations),
        left_out=tuple(left for left in _left_out(records) if left.trial not in told),
        trials_planned=records.planned,
        trials_done=len(records),
        plan_known=records.plan is not None,
        environment=shared_environment(records.environments),
        warnings=_all_warnings(records, trials, options, headlines),
        extra_tables=_result_tables(trials),
        headline=headline,
        confidence=options.confidence,
        study_hash=records.header.study_hash,
        faults=faults,
        nodes=nodes_of_cells(records, options.confidence),
        interference=disturbances(records),
        retried=len(records.retried),
        unanswered=unanswered(records, kinds),
        comparisons=len(p_values),
        joint_confidence=joint,
        prices=storage_prices(curves, records, options.price),
    )


def _point_options(trials: pd.DataFrame, options: FindOptions) -> PointOptions:
    return PointOptions(
        options.confidence,
        options.statistic,
        options.efficiency,
        metric_provenance(trials, options.price) if len(trials) else {},
    )


def _headlines(trials: pd.DataFrame, metrics: pd.DataFrame, wanted: str | None) -> _Headlines:
    found = _Headlines({}, {}, {})
    for workload in dict.fromkeys(trials["workload"]) if len(trials) else ():
        mine = (trials["workload"] == workload).to_numpy()
        own: Any = metrics[mine]
        metric = headline_metric(wanted, own)
        if metric is None:
            continue
        found.metric[workload] = metric
        ids: Any = trials["id"][mine]
        values = zip(ids, own[metric], strict=True)
        found.values[workload] = {trial: float(value) for trial, value in values if value == value}
        found.secondary[workload] = secondary_metrics(metric, own)
    return found


def _rates(trials: pd.DataFrame, metrics: pd.DataFrame, headlines: _Headlines) -> _Headlines:
    """Return the headline metrics, or the usual ones where a headline is no rate: a fault leaves a
    share of a rate, not of an energy, an efficiency or a size."""
    if all(is_rate(metric) for metric in headlines.metric.values()):
        return headlines
    return _headlines(trials, metrics, None)


def _of_metric(wanted: str | None, found: dict[str, str]) -> list[str]:
    """Return a warning for each workload whose trials lack the metric that the study wants."""
    return [
        f"{workload} has no {missing_text(wanted)}; best is by {show(metric).within}"
        for workload, metric in found.items()
        if wanted is not None and metric not in candidates(wanted)
    ]


def _measured(
    trials: pd.DataFrame, metrics: pd.DataFrame, points: Sequence[Point], headlines: _Headlines
) -> tuple[list[MeasuredEffect], list[MeasuredCombination]]:
    """Return the factor effects and combinations of choices to be judged, workload by workload."""
    effects: list[MeasuredEffect] = []
    combinations: list[MeasuredCombination] = []
    # A fault is not a choice; fault effects have their own table.
    spared = [point for point in points if is_spared(point.levels)]
    for workload, metric in headlines.metric.items():
        names = [metric, *headlines.secondary[workload]]
        effects += measure_effects(trials, metrics, workload, names, (FACTOR,))
        combinations += measure_combinations(spared, headlines.values[workload], workload, metric)
    return effects, combinations


def _with_distrusted(
    headline: dict[str, str], invalid: pd.DataFrame, metrics: pd.DataFrame, wanted: str | None
) -> dict[str, str]:
    """Return the headline metrics, including those of workloads that have only invalid trials
    (shown, never compared)."""
    found = dict(headline)
    for workload in dict.fromkeys(invalid["workload"]) if len(invalid) else ():
        own: Any = metrics[(invalid["workload"] == workload).to_numpy()]
        metric = headline_metric(wanted, own)
        if metric is not None:
            found.setdefault(workload, metric)
    return found


def _kinds(records: Records) -> Kinds:
    """Return the kinds of targets and workloads from the records, ordered as in the study file
    where it can be read."""
    written = [name for name in records.study.get("workload", {}) if isinstance(name, str)]
    factors = (
        [name for trial in records.plan.trials[:1] for name in trial.levels] if records.plan else []
    )
    if not len(records):
        return Kinds({}, dict.fromkeys(written, ""), factors)
    trials = records.trials
    workloads = dict(zip(trials["workload"], trials["workload_kind"], strict=True))
    return Kinds(
        dict(zip(trials["target"], trials["target_kind"], strict=True)),
        {name: workloads[name] for name in [*written, *workloads] if name in workloads},
        factors,
    )


def _provenances(
    points: Sequence[Point], faults: Sequence[FaultEffect], distrusted: Sequence[Point]
) -> tuple[str, ...]:
    found = dict.fromkeys(each.provenance for each in (*points, *faults, *distrusted))
    if any(each.provenance == "modelled" for point in points for each in point.metrics.values()):
        found["modelled"] = None
    return tuple(found)


def _curve_options(
    records: Records, trials: pd.DataFrame, options: FindOptions, headlines: _Headlines
) -> CurveOptions:
    return CurveOptions(
        headline=headlines.metric,
        efficiency=options.efficiency,
        confidence=options.confidence,
        loading=_loading(trials),
        values=headlines.values,
        failed=failed_loads(records),
    )


def _loading(trials: pd.DataFrame) -> frozenset[str]:
    """Return the workloads that load the storage."""
    return (
        frozenset(trials["workload"][trials["loads_storage"].to_numpy()])
        if len(trials)
        else frozenset()
    )


def _left_out(records: Records) -> tuple[LeftOut, ...]:
    left = _damaged(records)
    if not len(records) or bool(records.trials["valid"].all()):
        return tuple(left)
    trials: Any = records.trials[~records.trials["valid"].astype(bool)]
    for row in trials.to_dict("records"):
        reasons = tuple(text for _, text in row["reasons"])
        if row["status"] != "done":
            # Where a node was lost, the reason repeats the cause.
            reasons = tuple(dict.fromkeys((row["cause"] or "no cause was recorded", *reasons)))
        status = "invalid" if row["status"] == "done" else row["status"]
        left.append(LeftOut(row["id"], row["levels"], status, reasons))
    return tuple(left)


def _damaged(records: Records) -> list[LeftOut]:
    """Return the trials whose records cannot be read; the warnings say why."""
    trials = () if records.plan is None else records.plan.trials
    levels = {trial.id: dict(trial.levels) for trial in trials}
    return [
        LeftOut(name, levels.get(name, {}), "damaged", ("its record cannot be read",))
        for name in records.damaged
    ]


def _left_by_cell(records: Records) -> dict[str, Left]:
    if not len(records):
        return {}
    rows = list(
        zip(records.trials["cell"], records.trials["status"], records.trials["valid"], strict=True)
    )
    invalid = Counter(cell for cell, status, valid in rows if status == "done" and not valid)
    failed = Counter(cell for cell, status, _ in rows if status == "failed")
    return {cell: Left(invalid[cell], failed[cell]) for cell in {*invalid, *failed}}


def _all_warnings(
    records: Records, trials: pd.DataFrame, options: FindOptions, headlines: _Headlines
) -> tuple[str, ...]:
    return (
        *records.warnings,
        *_warnings(records, trials),
        *_of_metric(options.metric, headlines.metric),
        *drives_of_one_price(trials, options.price),
        *_of_stopping(trials, options),
    )


def _warnings(records: Records, valid: pd.DataFrame) -> list[str]:
    """Return what a reader must know before trusting the numbers."""
    warnings: list[str] = []
    if not len(records):
        return ["no trial has been recorded yet"]
    hashes = set(records.trials["study_hash"])
    if len(hashes) > 1:
        warnings.append(
            f"these records are of {len(hashes)} different studies; cells of the same name are "
            "taken together"
        )
    if len(set(valid["provenance"])) > 1:
        names = ", ".join(sorted(set(valid["provenance"])))
        warnings.append(
            f"provenances differ ({names}): points are kept apart, and an effect that spans "
            "them says so"
        )
    different = [
        name for name, values in values_by_name(records.environments).items() if len(values) > 1
    ]
    if different:
        warnings.append(
            f"the environment was not the same for all trials: {', '.join(sorted(different))}"
        )
    told = [
        text
        for of_trial in records.trials["warnings"]
        for code, text in of_trial
        if code == NOT_MODELLED
    ]
    warnings += [*dict.fromkeys(told), *_without_energy(records), *_empty_slots(valid)]
    if not len(valid):
        warnings.append("no trial is valid: nothing can be said")
    return warnings


def _empty_slots(valid: pd.DataFrame) -> list[str]:
    """Return a warning where a study's `jobs` are fewer than the slots of a trial."""
    slots = valid["slots"] * valid["nodes"]
    idle = valid[(valid["load"] != "batch") & (valid["jobs"] < slots)]
    few = sorted({int(jobs) for jobs in idle["jobs"]})
    if not few:
        return []
    return [
        f"slots stayed empty in trials with {' or '.join(map(str, few))} jobs and more slots: "
        "their points are those of as many jobs at once, not of all slots"
    ]


def _without_energy(records: Records) -> list[str]:
    """Return for each meter or channel why it gave no energy, by its first trial without."""
    told: dict[str, list[str]] = {}
    for of_trial in records.trials["warnings"]:
        for code, text in of_trial:
            if code == NO_ENERGY:
                told.setdefault(text.partition(":")[0], []).append(text)
    return [
        texts[0] + (f" (and alike in {len(texts) - 1} more)" if len(texts) > 1 else "")
        for texts in told.values()
    ]


def _of_stopping(valid: pd.DataFrame, options: FindOptions) -> list[str]:
    """Return a warning where cells were repeated until their interval was narrow enough: such
    intervals cover the mean less often than their nominal confidence."""
    repeats = options.repeats
    if repeats is None or repeats.interval is None or repeats.most <= repeats.min or not len(valid):
        return []
    text = (
        f"cells were repeated until their interval was within {100 * repeats.interval:.3g} % "
        "of the rate: such"
        " intervals are narrow partly by chance"
    )
    if repeats.statistic == "median":
        return [f"{text}, and hold the true value less often than {100 * options.confidence:.3g} %"]
    least = least_coverage(repeats.min, repeats.most, options.confidence)
    return [
        f"{text}; of those called {100 * options.confidence:.3g} %, about {100 * least:.0f} % "
        "or more hold the true"
        f" mean (simulated for {repeats.min} to {repeats.most} repeats)"
    ]


def _result_tables(trials: pd.DataFrame) -> dict[str, list[dict[str, object]]]:
    """Return the workloads' own results (percentiles, peak masses): one row per valid trial,
    only numbers and short texts."""
    tables: dict[str, list[dict[str, object]]] = {}
    if not len(trials):
        return tables
    columns = (trials[name] for name in ("id", "target", "workload", "slots", "levels", "results"))
    for trial, target, workload, slots, levels, results in zip(*columns, strict=True):
        values = {
            name: value
            for name, value in flat(results).items()
            if isinstance(value, (int, float, bool))
            or (isinstance(value, str) and len(value) <= 80)
        }
        if values:
            others = {
                name: level
                for name, level in levels.items()
                if name not in ("target", "workload", "slots")
            }
            row: dict[str, object] = {
                "trial": trial,
                "target": target,
                "slots": slots,
                **others,
                **values,
            }
            tables.setdefault(workload, []).append(row)
    return tables
