"""Trials -> metrics: one number of each kind for every valid trial. First step of the analysis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from headrace.records.read import Records
from headrace.study.model import Price

LESS_IS_BETTER = frozenset(
    {"wall_s", "energy_j_per_job", "energy_j_per_event", "amplification", "network_amplification"}
)
"""Metrics of which less is better; of all others more is."""

LEDGER = ("on_cpu", "wait_cpu", "wait_block", "wait_network", "other")


def valid_trials(records: Records) -> pd.DataFrame:
    """Rows of `Records.trials` that findings may rest on, with `plot`: the whole plot, apart for each study and engine."""
    trials = records.trials
    if not len(trials):
        return trials.assign(plot=[])
    valid = trials[trials["valid"] & (trials["jobs"] > 0)].reset_index(drop=True)
    plot = valid.groupby(["study_hash", "provenance", "whole_plot"], sort=False).ngroup()
    return valid.assign(plot=plot)


def trial_metrics(frame: pd.DataFrame, prices: dict[str, Price] | None = None) -> pd.DataFrame:
    """A row a trial of `Records.trials`, a column a metric, NaN where a trial has none.

    Rates of a batch are over the time until the last job is done, those of a sustained load over the window in which no slot
    was idle; `events_per_s_stonewall` is over that window for both. Byte rates are of the four counts: uncompressed event
    data, asked by the jobs (read and written), served to them, moved by the device; beside them what the nodes that run jobs sent and
    received. `efficiency` is the sum of CPU time over the sum
    of wall time, `throughput_jobs` the sum of the slots' efficiencies, `wall_s` a job's mean wall time. Jobs that only load the storage
    have no efficiency: what little they compute is the price of their requests.
    """
    trials: Any = frame
    sustained = (trials["load"] == "sustained") & (trials["window_s"] > 0)
    time_s = trials["window_s"].where(sustained, trials["last_done_s"])
    time_s = time_s.where(time_s > 0)

    def done(name: str) -> Any:
        return trials[f"window_{name}"].where(sustained, trials[name])

    device_bytes = trials["device_bytes_read"] + trials["device_bytes_written"]
    requests = trials["device_requests_read"] + trials["device_requests_write"]
    whole_s = trials["last_done_s"].where(trials["last_done_s"] > 0)
    asked_all = trials["bytes_asked"] + trials["bytes_written"]
    window_s = trials["window_s"].where(trials["window_s"] > 0)
    wall_s = trials["wall_s"].where(trials["wall_s"] > 0)
    metrics: Any = pd.DataFrame(index=frame.index)
    metrics["events_per_s"] = (done("events") / time_s).where(trials["events"] > 0)
    metrics["events_per_s_stonewall"] = (trials["window_events"] / window_s).where(trials["events"] > 0)
    metrics["jobs_per_s"] = trials["jobs"] / whole_s
    computing = ~trials["loads_storage"].astype(bool)
    metrics["efficiency"] = ((trials["user_s"] + trials["system_s"]) / wall_s).where(computing)
    metrics["throughput_jobs"] = trials["throughput_jobs"].where(computing)
    metrics["uncompressed_bytes_per_s"] = (done("bytes_uncompressed") / time_s).where(
        trials["bytes_uncompressed"] > 0
    )
    metrics["asked_bytes_per_s"] = ((done("bytes_asked") + done("bytes_written")) / time_s).where(
        asked_all > 0
    )
    metrics["served_bytes_per_s"] = (done("bytes_served") / time_s).where(trials["bytes_served"] > 0)
    # Counters of the device see read-ahead and metadata too; without any, what the kernel charged to the jobs.
    moved = device_bytes.fillna(trials["bytes_device"])
    metrics["device_bytes_per_s"] = moved / whole_s
    metrics["amplification"] = moved / asked_all.where(asked_all > 0)
    over_network = trials["network_bytes"].astype("float64")
    metrics["network_bytes_per_s"] = over_network / whole_s
    metrics["network_amplification"] = over_network / asked_all.where(asked_all > 0)
    metrics["iops"] = requests / whole_s
    metrics["read_calls_per_s"] = (done("read_calls") / time_s).where(trials["read_calls"] > 0)
    metrics["wall_s"] = wall_s / trials["jobs"]
    metrics["stonewall_s"] = trials["stonewall_s"]
    metrics["last_done_s"] = trials["last_done_s"]
    # What a workload calls a rate of its own: operations of a metadata test a second, what IOzone's parent sees.
    for name in dict.fromkeys(name for rates in _own_rates(trials) for name in rates):
        metrics[name] = [rates.get(name) for rates in _own_rates(trials)]
    metrics["energy_j_per_job"] = trials["energy_j"] / trials["jobs"]
    metrics["energy_j_per_event"] = trials["energy_j"] / trials["events"].where(trials["events"] > 0)
    for target, price in (prices or {}).items():
        paid = price.price * price.drives
        if paid > 0:
            name = f"events_per_s_per_{price.currency.lower()}"
            value = (metrics["events_per_s"] / paid).where(trials["target"] == target)
            metrics[name] = metrics[name].fillna(value) if name in metrics else value
    return metrics.astype("float64").replace([np.inf, -np.inf], np.nan).dropna(axis="columns", how="all")


def _own_rates(trials: Any) -> list[dict[str, float | None]]:
    """`results.rates` of every trial: metric -> value."""
    if "results" not in trials:
        return [{} for _ in range(len(trials))]
    return [(results or {}).get("rates") or {} for results in trials["results"]]


def stated_metrics(prices: dict[str, Price]) -> frozenset[str]:
    """Metrics that rest on a price of the study file."""
    return frozenset(f"events_per_s_per_{price.currency.lower()}" for price in prices.values())


def ledger_shares(frame: pd.DataFrame) -> pd.DataFrame:
    """A row a trial: the share of its jobs' wall time that each entry of `LEDGER` took; rows sum to 1."""
    trials: Any = frame
    parts = trials[[f"{name}_s" for name in LEDGER]].fillna(0.0).clip(lower=0.0)
    parts.columns = list(LEDGER)
    total = parts.sum(axis="columns")
    return parts.div(total.where(total > 0), axis="index").fillna({"other": 1.0}).fillna(0.0)


def headline_metric(wanted: str | None, metrics: pd.DataFrame) -> str | None:
    """The metric that 'best' means for the trials of one workload: the wanted one as far as they have it.

    Without a wish: events/s, else files (directories) made a second, else bytes/s from first to last request or
    asked, else moved by the device, else job efficiency.
    """
    of_metadata = ["file_creations_per_s", "directory_creations_per_s"]
    # Programs take time to start that is not the storage's: a rate from first to last request comes before one over jobs.
    byte_rates = ["parent_sees_bytes_per_s", "asked_bytes_per_s", "device_bytes_per_s"]
    ways: dict[str | None, list[str]] = {
        # A metadata test moves bytes for its names alone.
        "bytes_per_s": [*of_metadata, "uncompressed_bytes_per_s", *byte_rates],
        "throughput": ["throughput_jobs"],
        "iops": ["iops", "read_calls_per_s"],
        "efficiency": ["efficiency"],
    }
    choice = [*ways.get(wanted, []), "events_per_s", *of_metadata, *byte_rates, "efficiency"]
    return next((name for name in choice if name in metrics and bool(metrics[name].notna().any())), None)
