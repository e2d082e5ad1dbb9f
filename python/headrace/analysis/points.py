"""Metrics of trials -> points: the valid repeats of a cell, with intervals and bottleneck."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd

from headrace.analysis.findings import Estimate, Point
from headrace.analysis.limit import DeviceLoad, limit_of
from headrace.analysis.metrics import LEDGER, ledger_shares
from headrace.analysis.scatter import ALONE, POOLED, half_widths, pooled_spreads
from headrace.analysis.trial_row import TrialRow
from headrace.metrics import metric_of
from headrace.plan.intervals import Statistic, interval
from headrace.special_functions import ndtri


class PointOptions(NamedTuple):
    """How points are computed."""

    confidence: float
    statistic: Statistic
    efficiency: float
    """Job efficiency at or above which jobs count as fed."""
    provenance: Mapping[str, str]
    """Provenance of metrics where it differs from that of their trials
    (`metrics.metric_provenance`)."""


class Left(NamedTuple):
    """Numbers of trials of a cell that are left out."""

    invalid: int
    failed: int


_COLUMNS = (
    "id",
    "target",
    "workload",
    "slots",
    "levels",
    "provenance",
    "cell",
    "cpu_cores",
    "jobs",
    "load",
    "nodes",
    "results",
    "energy_basis",
)
"""Columns of the trials that a point is made of."""


def make_points(
    trials: pd.DataFrame, metrics: pd.DataFrame, left: dict[str, Left], options: PointOptions
) -> list[Point]:
    """Return one point for each cell and provenance, in plan order. Provenances are never averaged.

    `trials` and `metrics` hold the valid trials, row by row; `left` counts the others by cell.
    """
    if not len(trials):
        return []
    number = trials.groupby(["cell", "provenance"], sort=False).ngroup().to_numpy()
    order = np.argsort(number, kind="stable")
    starts = np.flatnonzero(np.diff(number[order], prepend=-1))
    groups = np.split(order, starts[1:])
    estimates = _estimates(trials, metrics, number, groups, options)
    shares_of_trials: Any = ledger_shares(trials)
    ledger = shares_of_trials.groupby(number).mean().to_dict("records")
    loads = _device_loads(trials, number)
    columns: dict[str, list[Any]] = {name: list(trials[name]) for name in _COLUMNS}
    points: list[Point] = []
    for index, rows in enumerate(groups):
        first = cast("TrialRow", {name: values[rows[0]] for name, values in columns.items()})
        shares = {str(name): float(share) for name, share in ledger[index].items()}
        load, moved, per_s = loads[index]
        lost = left.get(first["cell"], Left(0, 0))
        running = _running(first)
        points.append(
            Point(
                target=first["target"],
                workload=first["workload"],
                levels=_levels(first),
                slots=int(first["slots"]),
                metrics=estimates[index],
                ledger=shares,
                limit=limit_of(
                    shares,
                    options.efficiency,
                    load,
                    moved,
                    running,
                    _cores(first["cpu_cores"]),
                    named=_named([columns["results"][row] for row in rows]),
                    requested_bytes_per_s=per_s,
                ),
                provenance=first["provenance"],
                invalid=lost.invalid,
                failed=lost.failed,
                cell=first["cell"],
                trials=tuple(columns["id"][row] for row in rows),
                # A job of some workloads has several clients; its result gives their number.
                clients=int((first["results"] or {}).get("clients") or running),
                energy_basis=first["energy_basis"],
            )
        )
    return points


def _named(results: Iterable[Mapping[str, Any] | None]) -> dict[str, float]:
    """Return what records of a watch say of `other`, as shares of the wall time of all jobs."""
    wall_s, named_s = 0.0, dict[str, float]()
    for each in results:
        told = (each or {}).get("watched")
        if told is not None:
            wall_s += told["wall_s"]
            for name, spent_s in told["other_s"].items():
                named_s[name] = named_s.get(name, 0.0) + spent_s
    return {name: spent_s / wall_s for name, spent_s in named_s.items()} if wall_s else {}


def _running(first: TrialRow) -> int:
    """Return the number of concurrent jobs, over all nodes: fewer than slots where the study has
    fewer `jobs`."""
    jobs = int(first["jobs"])
    return jobs if first["load"] == "batch" else min(jobs, int(first["slots"] * first["nodes"]))


def _levels(first: TrialRow) -> dict[str, object]:
    """Return the levels of a cell, with its slots."""
    levels = {
        name: level for name, level in first["levels"].items() if name not in ("target", "workload")
    }
    levels.setdefault("slots", int(first["slots"]))
    return levels


def _cores(value: Any) -> int | None:
    return None if value is None or np.isnan(value) else int(value)


def _estimates(
    trials: pd.DataFrame,
    metrics: Any,
    number: np.ndarray,
    groups: list[np.ndarray],
    options: PointOptions,
) -> list[dict[str, Estimate]]:
    """Return for each group of trials every metric that it has, with its interval."""
    ids: list[str] = list(trials["id"])
    whole = [tuple(ids[row] for row in rows) for rows in groups]
    found: list[dict[str, Estimate]] = [{} for _ in groups]
    uncertainties: list[Mapping[str, float]] = list(trials["metric_uncertainties"])
    uncertain = set[str]().union(*uncertainties)
    grouped = metrics.groupby(number)
    counts, means, deviations = (
        each.to_numpy().T for each in (grouped.count(), grouped.mean(), grouped.std())
    )
    spreads = pooled_spreads(trials, metrics, number).T
    for name, count, mean, deviation, spread in zip(
        metrics.columns, counts, means, deviations, spreads, strict=True
    ):
        values: np.ndarray = metrics[name].to_numpy()
        half = half_widths(count, mean, deviation, spread, options.confidence)
        provenance = options.provenance.get(name, "")
        for index in np.flatnonzero(count > 0):
            rows = groups[index]
            complete = count[index] == len(rows)
            used = (
                whole[index]
                if complete
                else tuple(ids[row] for row in rows if not np.isnan(values[row]))
            )
            n = int(count[index])
            if options.statistic == "median":
                got = interval(
                    values[rows][~np.isnan(values[rows])].tolist(), options.confidence, "median"
                )
                bounds, value, method = (got.low, got.high), got.value, got.method
            elif n < 2:
                bounds, value, method = (None, None), float(mean[index]), "one trial"
            else:
                value = float(mean[index])
                # No metric is negative and no efficiency exceeds 1. Clipping the interval to this
                # range removes no possible true value.
                most = metric_of(name).highest
                bounds = (
                    max(0.0, value - float(half[index])),
                    max(value, min(most, value + float(half[index]))),
                )
                method = ALONE if np.isnan(spread[index]) else POOLED
            common = _common_uncertainty(uncertainties, name, rows) if name in uncertain else 0.0
            if common > 0:
                bounds = _widened(value, bounds, common, options.confidence)
                method += ", with the meters' uncertainty"
            found[index][name] = Estimate(value, *bounds, n, method, used, provenance)
    return found


def _common_uncertainty(
    uncertainties: Sequence[Mapping[str, float]], name: str, rows: Iterable[int]
) -> float:
    """Return the mean relative uncertainty that all trials of a group share; 0 without any."""
    known = [uncertainties[row].get(name, 0.0) for row in rows]
    return sum(known) / len(known) if known else 0.0


def _widened(
    value: float,
    bounds: tuple[float | None, float | None],
    common: float,
    confidence: float,
) -> tuple[float, float]:
    """Return the interval with a relative standard uncertainty that repeats do not reduce.

    Its half width, that of a normal distribution, is added in squares.
    """
    half = float(ndtri(0.5 + confidence / 2)) * common * value
    low, high = (value if bound is None else bound for bound in bounds)
    return max(0.0, value - math.hypot(value - low, half)), value + math.hypot(high - value, half)


def _device_loads(
    trials: Any, number: np.ndarray
) -> list[tuple[DeviceLoad | None, float | None, float]]:
    """Return for each group the load of its devices, the share of the requested bytes that they
    moved, and the bytes requested per second of the jobs' wall time."""
    columns = {
        "time_s": trials["last_done_s"],
        "bytes": trials["device_bytes_read"] + trials["device_bytes_written"],
        "requests": trials["device_requests_read"] + trials["device_requests_write"],
        "busy_s": trials["device_busy_s"],
        "latency_s": trials["device_read_latency_s"].fillna(0)
        + trials["device_write_latency_s"].fillna(0),
        "asked": trials["bytes_asked"] + trials["bytes_written"],
        "charged": trials["bytes_device"],
        "jobs_s": trials[[f"{name}_s" for name in LEDGER]].clip(lower=0.0).sum(axis="columns"),
        "devices": pd.Series(
            [max(1, len(place.get("devices") or ())) for place in trials["location"]],
            index=trials.index,
        ),
    }
    grouped: Any = pd.DataFrame(columns).groupby(number)
    sums: Any = grouped.sum(min_count=1).assign(devices=grouped["devices"].max())
    target = trials.groupby(number)["target"].first()
    rate = sums["bytes"] / sums["time_s"]
    highest = rate.groupby(target).transform("max")
    loads: list[tuple[DeviceLoad | None, float | None, float]] = []
    for row, bytes_per_s, most in zip(sums.itertuples(), rate, highest, strict=True):
        values: Any = row
        moved = values.charged if np.isnan(values.bytes) else values.bytes
        share = moved / values.asked if values.asked > 0 and not np.isnan(moved) else None
        per_s = float(values.asked) / float(values.jobs_s) if values.jobs_s > 0 else math.inf
        if np.isnan(values.bytes) or not values.time_s > 0:
            loads.append((None, share, per_s))
            continue
        requests = values.requests if values.requests > 0 else 1.0
        load = DeviceLoad(
            rate_bytes_per_s=float(bytes_per_s),
            highest_bytes_per_s=float(most),
            busy=min(1.0, float(values.busy_s) / float(values.time_s) / float(values.devices)),
            request_bytes=float(values.bytes) / requests,
            in_flight=float(values.latency_s) / float(values.time_s),
            latency_s=float(values.latency_s) / requests,
        )
        loads.append((load, share, per_s))
    return loads
