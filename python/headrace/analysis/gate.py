"""Which cells of a result set got worse than in a baseline: the verdicts of `headrace gate`. Pure.

The statistics are those of `compare`: Welch's interval of the ratio in each common cell, so wide
that of all differences named at most 5 % are false on average (jointly.py). Only one metric of
each cell is compared, so that further metrics do not widen its interval.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from headrace.analysis.compare import cells_of, comparable_rows, compare
from headrace.analysis.find import FindOptions
from headrace.analysis.findings import Comparison, Difference
from headrace.analysis.metrics import trial_metrics, valid_trials
from headrace.analysis.read import Records
from headrace.errors import ExitCode, IncomparableError, NotJudgedError, UsageError
from headrace.metrics import less_is_better, metric_of, names_for
from headrace.metrics.printed import names_of_printed
from headrace.refusals import meant
from headrace.study.model import Repeats

GateVerdict = Literal["worse", "undecided", "better", "unchanged"]
"""In the order of the table."""


@dataclass(frozen=True)
class GatedCell:
    """One cell of both result sets with its verdict."""

    difference: Difference
    """A is the baseline, B the results that are judged."""
    verdict: GateVerdict

    @property
    def change(self) -> float:
        """The relative change from the baseline: -0.1 is 10 % less."""
        return self.difference.ratio.value - 1


@dataclass(frozen=True)
class Gate:
    """A result set judged against a baseline."""

    comparison: Comparison
    cells: tuple[GatedCell, ...]
    """Those that got worse first, then undecided, better and unchanged ones."""
    tolerance: float
    """The relative change that does not matter: 0.05 is 5 %."""
    unusable: tuple[str, ...] = ()
    """What is missing of the results that are judged, as clauses: `2 trials failed`."""
    without_value: int = 0
    """Common cells whose metric has no value in one of the result sets."""

    def count(self, verdict: GateVerdict) -> int:
        """Return the number of cells with this verdict."""
        return sum(1 for cell in self.cells if cell.verdict == verdict)

    @property
    def judged(self) -> bool:
        """Whether every cell is decided, and no part of the results is missing."""
        return not (self.count("undecided") or self.unusable or self.without_value)

    @property
    def exit_code(self) -> ExitCode:
        """REGRESSION when a cell got worse, INVALID_TRIALS when that cannot be judged, else OK."""
        if self.count("worse"):
            return ExitCode.REGRESSION
        return ExitCode.OK if self.judged else ExitCode.INVALID_TRIALS


def gate(
    baseline: Records,
    results: Records,
    *,
    metric: str | None = None,
    tolerance: float = 0.05,
    force: bool = False,
) -> Gate:
    """Judge every cell of the results that the baseline has, too.

    `metric`: as `[report] metric`, or its title or unit as printed; that of the baseline's study
    when None. Raises NotJudgedError when there is nothing to compare, UsageError for a metric that
    neither has, RefusedError when one is measured and the other simulated and `force` is not given.
    """
    options = FindOptions.of_records(baseline)
    if metric is not None:
        metric = _named_metric(metric, baseline, options)
        options = replace(options, metric=metric)
    try:
        comparison = compare(baseline, results, options, force=force, headline_only=True)
    except IncomparableError as error:
        raise NotJudgedError(f"nothing can be judged: {error.message}", hint=error.hint) from None
    if not comparison.differences:
        raise NotJudgedError(
            f"nothing can be judged: no common cell has {metric or options.metric or 'a metric'}",
            hint=f"the baseline has {', '.join(_metrics_of(baseline, options))}",
        )
    order = get_args(GateVerdict)
    cells = [GatedCell(each, verdict_of(each, tolerance)) for each in comparison.differences]
    cells.sort(key=lambda cell: (order.index(cell.verdict), -abs(cell.change)))
    common = len(cells_of(comparable_rows(baseline))) - len(comparison.only_a)
    return Gate(comparison, tuple(cells), tolerance, _unusable(results), common - len(cells))


def verdict_of(difference: Difference, tolerance: float) -> GateVerdict:
    """Return what the interval of the ratio says of a cell.

    `worse` and `better`: a difference is seen, and it is larger than the tolerance. `unchanged`:
    neither, and the worse end of the interval is within the tolerance. `undecided`: it is not.
    """
    ratio = difference.ratio
    if ratio.low is None or ratio.high is None:
        return "undecided"
    if difference.different and abs(ratio.value - 1) > tolerance:
        return "better" if difference.better == "b" else "worse"
    less = less_is_better(difference.metric)
    within = ratio.high <= 1 + tolerance if less else ratio.low >= 1 - tolerance
    return "unchanged" if within else "undecided"


def _named_metric(metric: str, baseline: Records, options: FindOptions) -> str:
    """Return the name of a metric. Raises UsageError for none, and for several."""
    # A workload may have rates of its own, without a definition.
    recorded = _metrics_of(baseline, options)
    known = [*names_for(options.price.values()), *recorded]
    found = names_of_printed(metric, recorded) or names_of_printed(metric, known)
    if len(found) == 1:
        return found[0]
    if found:
        problem, allowed = f"--metric {metric}: several metrics are called so", found
    else:
        problem = meant(f"--metric {metric}: unknown metric", metric, known)
        allowed = list(dict.fromkeys(known))
    shown = (f"{name} ({metric_of(name).unit})".removesuffix(" ()") for name in allowed)
    raise UsageError(problem, hint=f"allowed: {', '.join(shown)}")


def _metrics_of(records: Records, options: FindOptions) -> Sequence[str]:
    valid = valid_trials(records)
    return list(trial_metrics(valid, options.price).columns) if len(valid) else []


def _unusable(results: Records) -> tuple[str, ...]:
    """Return what is missing: damaged records, trials without a record, failed and invalid ones,
    and the plan, without which nobody knows how many trials have no record."""
    statuses: Counter[str] = Counter()
    trials: Any = results.trials
    for status, valid in zip(trials["status"], trials["valid"], strict=True):
        if status == "failed" or (status == "done" and not valid):
            statuses["failed" if status == "failed" else "invalid"] += 1
    without = max(0, _wanted(results) - len(results.trials) - len(results.damaged))
    found = [
        (statuses["failed"], "failed"),
        (statuses["invalid"], "invalid"),
        (without, "without a record"),
        (len(results.damaged), "damaged"),
    ]
    words = [f"{count} trial{'s' if count > 1 else ''} {what}" for count, what in found if count]
    return (*words, *(["no plan that can be read"] if results.plan is None else []))


def _wanted(results: Records) -> int:
    """Return how many trials the plan wants. Repeats beyond `repeats.min` of a study with
    `repeats.interval` are made only where they are needed."""
    if results.plan is None:
        return 0
    repeats = results.study.get("plan", {}).get("repeats", {})
    if "interval" not in repeats:
        return len(results.plan.trials)
    least = repeats.get("min", Repeats.model_fields["min"].default)
    recorded = set(results.trials["id"]) | set(results.damaged) if len(results) else set()
    return sum(each.repeat < least or each.id in recorded for each in results.plan.trials)


def as_json(found: Gate) -> str:
    """Return the verdicts as JSON text, for programs."""
    comparison = found.comparison
    return json.dumps(
        {
            "baseline": comparison.title_a,
            "results": comparison.title_b,
            "exit_code": int(found.exit_code),
            "regression": bool(found.count("worse")),
            "judged": found.judged,
            "tolerance": found.tolerance,
            "confidence": comparison.joint_confidence,
            "counts": {verdict: found.count(verdict) for verdict in get_args(GateVerdict)},
            "cells": [_cell_json(cell) for cell in found.cells],
            "only_in_baseline": comparison.only_a,
            "only_in_results": comparison.only_b,
            "without_value": found.without_value,
            "unusable": found.unusable,
            "warnings": comparison.warnings,
        },
        indent=1,
    )


def _cell_json(cell: GatedCell) -> dict[str, object]:
    each = cell.difference
    ratio = each.ratio
    return {
        "verdict": cell.verdict,
        "target": each.target,
        "workload": each.workload,
        "slots": each.slots,
        "levels": each.levels,
        "metric": each.metric,
        "baseline": each.a.value,
        "results": each.b.value,
        "trials": [each.a.n, each.b.n],
        "ratio": [ratio.value, ratio.low, ratio.high],
        "p_value": each.p_value,
    }
