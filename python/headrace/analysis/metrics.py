"""Metrics of trials as frames (`headrace.metrics` defines them): the first step of the analysis."""

from __future__ import annotations

from typing import Any

import pandas as pd

from headrace.analysis.read import Records
from headrace.metrics import metric_of, priced_name, priced_values, registered
from headrace.metrics.headline import WANTED, headline
from headrace.study.model import Price

LEDGER = ("on_cpu", "wait_cpu", "wait_block", "wait_network", "other")


def valid_trials(records: Records) -> pd.DataFrame:
    """Return the rows of `Records.trials` that findings may use, with `plot`: the whole plot,
    numbered separately for each study and provenance."""
    trials = records.trials
    if not len(trials):
        return trials.assign(plot=[])
    valid = trials[trials["valid"] & (trials["jobs"] > 0)].reset_index(drop=True)
    plot = valid.groupby(["study_hash", "provenance", "whole_plot"], sort=False).ngroup()
    return valid.assign(plot=plot)


def trial_metrics(frame: pd.DataFrame, prices: dict[str, Price] | None = None) -> pd.DataFrame:
    """Return one row per trial and one column per metric; NaN where a trial has no value.

    `prices` are by target name. Columns are ordered by the metrics' rank.
    """
    rows: list[dict[str, float]] = [
        values | priced_values(values, prices[target]) if prices and target in prices else values
        for target, values in zip(frame["target"], frame["metrics"], strict=True)
    ]
    names = dict.fromkeys(name for row in rows for name in row)
    columns = sorted(names, key=lambda name: metric_of(name).rank)
    return pd.DataFrame(rows, index=frame.index, columns=columns, dtype="float64")


def secondary_metrics(main: str, metrics: pd.DataFrame) -> list[str]:
    """Return the metrics whose effects and differences are estimated in addition to the main
    one."""
    having = set(metrics.columns[metrics.notna().any()])
    return [
        metric.name
        for metric in registered().values()
        if metric.secondary
        and metric.name != main
        # The main metric in another unit says the same.
        and metric.title != metric_of(main).title
        and metric.name in having
        and (not metric.only_with or metric.only_with in having)
    ]


def metric_provenance(trials: pd.DataFrame, prices: dict[str, Price]) -> dict[str, str]:
    """Return the provenance of metrics where it differs from that of the trials.

    A price is stated in the study file; energy is computed from modelled power, also for measured
    trials.
    """
    of_money = [
        metric.name for metric in registered().values() if metric.value_for_price is not None
    ]
    stated = {priced_name(name, price): "stated" for price in prices.values() for name in of_money}
    found: dict[str, set[str]] = {}
    for each in trials["metric_provenances"]:
        for name, provenance in each.items():
            found.setdefault(name, set()).add(provenance)
    return {**stated, **{name: " + ".join(sorted(each)) for name, each in found.items()}}


def ledger_shares(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per trial: the share of its jobs' wall time for each entry of `LEDGER`;
    rows sum to 1."""
    trials: Any = frame
    parts = trials[[f"{name}_s" for name in LEDGER]].fillna(0.0).clip(lower=0.0)
    parts.columns = list(LEDGER)
    total = parts.sum(axis="columns")
    return parts.div(total.where(total > 0), axis="index").fillna({"other": 1.0}).fillna(0.0)


def missing_text(wanted: str) -> str:
    """Return a wanted metric that trials lack, with what it needs."""
    needs = "" if wanted in WANTED else f", which needs {metric_of(wanted).needs}"
    return f"{wanted} ([report] metric){needs}"


def headline_metric(wanted: str | None, metrics: pd.DataFrame) -> str | None:
    """Return the metric that defines 'best' for these trials of one workload
    (`headrace.metrics.headline`).

    A metric that is 0 in every trial is skipped: it allows no comparison.
    """
    return headline(wanted, set(metrics.columns[(metrics > 0).any()]))
