"""Untrusted results with reasons: invalid trials, and targets without a valid trial. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from headrace.analysis.curves import Family, family_key
from headrace.analysis.findings import Estimate, Point, Unanswered
from headrace.analysis.metrics import trial_metrics
from headrace.analysis.naming import Kinds
from headrace.analysis.points import PointOptions, make_points
from headrace.analysis.read import Records
from headrace.analysis.trial_row import TrialRow
from headrace.study.model import Price


def invalid_trials(records: Records) -> pd.DataFrame:
    """Return the trials that finished, have jobs, and cannot be trusted."""
    trials = records.trials
    if not len(trials):
        return trials
    left = (trials["status"] == "done") & ~trials["valid"].astype(bool) & (trials["jobs"] > 0)
    found: Any = trials[left]
    return found.reset_index(drop=True)


def distrusted_points(
    records: Records, options: PointOptions, prices: dict[str, Price]
) -> tuple[list[Point], pd.DataFrame, pd.DataFrame]:
    """Return a point for each cell with invalid trials, the trials and their metrics.

    Values are means without intervals: the errors of invalid trials have no known distribution.
    """
    trials = invalid_trials(records)
    if not len(trials):
        return [], trials, pd.DataFrame()
    metrics = trial_metrics(trials, prices)
    reasons: dict[str, list[tuple[tuple[str, str], ...]]] = {}
    for cell, each in zip(trials["cell"], trials["reasons"], strict=True):
        reasons.setdefault(cell, []).append(each)
    points = [
        replace(
            point,
            metrics={name: _without_interval(found) for name, found in point.metrics.items()},
            reasons=counted(reasons[point.cell]) or ("no reason was recorded",),
        )
        for point in make_points(trials, metrics, {}, options)
    ]
    return points, trials, metrics


def failed_loads(records: Records) -> dict[Family, set[int]]:
    """Return the loads of the trials that failed or are invalid, by storage with its choices."""
    found: dict[Family, set[int]] = {}
    for row in records.rows:
        if row["valid"] or row["status"] == "unsupported":
            continue
        levels = {
            name: level
            for name, level in row["levels"].items()
            if name not in ("target", "workload")
        }
        key = family_key(row["workload"], row["target"], row["provenance"], levels)
        # A trial that failed has no jobs that say how many clients each of them has.
        clients = (row["results"] or {}).get("clients")
        found.setdefault(key, set()).add(int(clients or row["slots"] * row["nodes"]))
    return found


def _without_interval(estimate: Estimate) -> Estimate:
    return replace(estimate, low=None, high=None, method="mean of invalid trials")


def counted(reasons: Iterable[Sequence[tuple[str, str]]]) -> tuple[str, ...]:
    """Return each kind of reason once, as its first text, with the number of further trials that
    have it."""
    texts: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for each in reasons:
        for code, text in each:
            texts.setdefault(code, text)
        counts.update({code for code, _ in each})
    return tuple(
        texts[code] + (f" (and alike in {count - 1} more)" if count > 1 else "")
        for code, count in counts.most_common()
    )


def unanswered(records: Records, kinds: Kinds) -> tuple[Unanswered, ...]:
    """Return every planned workload and target without a valid trial, with the outcome of its
    trials."""
    rows = records.rows
    planned: Counter[tuple[str, str]] = Counter()
    if records.plan is not None:
        planned.update((trial.workload, trial.target) for trial in records.plan.trials)
    by_pair: dict[tuple[str, str], list[TrialRow]] = {pair: [] for pair in planned}
    for row in rows:
        by_pair.setdefault((row["workload"], row["target"]), []).append(row)
    return tuple(
        _unanswered(pair, mine, max(planned[pair], len(mine)), kinds)
        for pair, mine in by_pair.items()
        if not any(row["valid"] for row in mine)
    )


def _unanswered(
    pair: tuple[str, str], rows: list[TrialRow], planned: int, kinds: Kinds
) -> Unanswered:
    workload, target = pair
    status = Counter("invalid" if row["status"] == "done" else row["status"] for row in rows)
    texts: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for row in rows:
        causes = list(row["reasons"]) if row["status"] == "done" else [(row["cause"], row["cause"])]
        for code, text in causes:
            texts.setdefault(str(code), text or "no cause was recorded")
        counts.update(dict.fromkeys((str(code) for code, _ in causes), 1))
    return Unanswered(
        workload=workload,
        target=target,
        storage=kinds.storage(target),
        planned=planned,
        invalid=status["invalid"],
        failed=status["failed"],
        unsupported=status["unsupported"],
        reasons=tuple((texts[code], count) for code, count in counts.most_common()),
    )
