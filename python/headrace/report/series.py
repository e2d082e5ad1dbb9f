"""The probe series of single trials, summed over devices and thinned, for the page.

Reads RESULTS/trials/<id>/series/*.parquet (docs/records.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas

from headrace.records.tables import read_table

# Any: the annotations of pandas are incomplete for frames.
pd: Any = pandas

SAMPLES_AT_MOST = 400

COLUMNS: dict[str, tuple[str, ...]] = {
    "block": (
        "read_bytes_per_s",
        "write_bytes_per_s",
        "read_iops",
        "write_iops",
        "in_flight",
        "read_latency_ms",
        "write_latency_ms",
        "busy",
    ),
    "cpu": ("user", "system", "iowait"),
    "memory": ("cached_bytes", "dirty_bytes"),
    "pressure": ("cpu_some", "io_some", "io_full", "memory_some"),
}
"""Columns of each probe's series that the page shows."""

SERVICES = "services"
"""First word of the tables of what monitoring services said; their unit follows."""
POWER = "power"
"""Probe whose columns are the channels of meters, and the parts that are modelled."""
CHANNELS_AT_MOST = 4

_BY_REQUESTS = {"read_latency_ms": "read_iops", "write_latency_ms": "write_iops"}


def _over_devices(frame: Any) -> Any:
    """Return rates and requests summed over the devices of a target, latency weighted by
    requests, and the busy share of the busiest device."""
    if "device" not in frame.columns or frame["device"].nunique() <= 1:
        return frame
    frame = frame.copy()
    for latency, weight in _BY_REQUESTS.items():
        if latency in frame.columns and weight in frame.columns:
            frame[latency] = frame[latency].fillna(0) * frame[weight]
    grouped = frame.drop(columns="device").groupby("time_s", as_index=False)
    total = grouped.sum(numeric_only=True)
    for latency, weight in _BY_REQUESTS.items():
        if latency in total.columns and weight in total.columns:
            total[latency] = total[latency] / total[weight].where(total[weight] > 0)
    if "busy" in total.columns:
        total["busy"] = grouped["busy"].max()["busy"]
    return total


def thin(frame: Any, most: int = SAMPLES_AT_MOST) -> Any:
    """Return at most `most` samples: means of neighbours, so that rates still add up to the
    bytes moved."""
    if len(frame) <= most:
        return frame
    bins = np.arange(len(frame)) * most // len(frame)
    return frame.groupby(bins).mean(numeric_only=True)


def _rounded(values: Any) -> list[float | None]:
    return [
        None if not np.isfinite(value) else float(f"{value:.4g}")
        for value in values.to_numpy(dtype=float)
    ]


TrialSeries = dict[str, dict[str, list[float | None]]]
"""Values by probe and column."""


def trial_series(results: Path, trial: str) -> TrialSeries:
    """Return the series of one trial by probe, then by column (`time_s` first); probes without a
    series are left out."""
    found: TrialSeries = {}
    for probe, columns in COLUMNS.items():
        path = results / "trials" / trial / "series" / f"{probe}.parquet"
        if not path.is_file():
            continue
        frame = read_table(path).to_pandas(use_threads=False)
        if frame.empty or "time_s" not in frame.columns:
            continue
        frame = thin(_over_devices(frame))
        if len(frame) < 2:
            # One sample draws no line.
            continue
        found[probe] = {
            name: _rounded(frame[name]) for name in ("time_s", *columns) if name in frame.columns
        }
    if power := _power(results / "trials" / trial):
        found[POWER] = power
    found.update(_services(results / "trials" / trial))
    if found and (running := _jobs(results / "trials" / trial)):
        found["jobs"] = running
    return found


def _power(trial: Path) -> dict[str, list[float | None]]:
    """Return the watts of each channel, those with the most energy first; empty without any."""
    path = trial / "series" / "power.parquet"
    if not path.is_file():
        return {}
    frame = read_table(path).to_pandas(use_threads=False)
    if frame.empty:
        return {}
    names = frame["meter"] + " " + frame["channel"]
    names = names.where(frame["meter"] != "model", frame["channel"] + " (modelled)")
    largest = frame.groupby(names)["power_w"].mean().nlargest(CHANNELS_AT_MOST)
    wide = frame.assign(name=names).pivot_table("power_w", "time_s", "name").reset_index()
    # Meters are read at different times: lines join what each of them says.
    wide = thin(wide.interpolate(limit_area="inside"))
    if len(wide) < 2:
        return {}
    return {name: _rounded(wide[name]) for name in ("time_s", *largest.index)}


def _services(trial: Path) -> TrialSeries:
    """Return what monitoring services said, a table for each unit: `services UNIT`."""
    found: TrialSeries = {}
    frames = [
        read_table(path).to_pandas(use_threads=False)
        for path in sorted((trial / "series").glob("*-*.parquet"))
    ]
    frames = [frame for frame in frames if {"host", "metric", "unit"} <= {*frame.columns}]
    if not frames:
        return found
    for unit, frame in pd.concat(frames).groupby("unit"):
        named = frame.assign(name=frame["host"] + " " + frame["metric"])
        largest = named.groupby("name")["value"].mean().nlargest(CHANNELS_AT_MOST)
        wide = named.pivot_table("value", "time_s", "name").reset_index()
        wide = thin(wide.interpolate(limit_area="inside"))
        if len(wide) >= 2:
            found[f"{SERVICES} {unit}"] = {
                name: _rounded(wide[name]) for name in ("time_s", *largest.index)
            }
    return found


def _jobs(trial: Path) -> dict[str, list[float | None]]:
    """Return the number of running jobs at each start and end of one."""
    path = trial / "jobs.parquet"
    if not path.is_file():
        return {}
    frame = read_table(path, ["start_s", "end_s"]).to_pandas(use_threads=False).dropna()
    steps = pd.concat(
        [
            pd.DataFrame({"time_s": frame["start_s"], "change": 1}),
            pd.DataFrame({"time_s": frame["end_s"], "change": -1}),
        ]
    )
    steps = steps.groupby("time_s", as_index=False).sum().sort_values("time_s")
    if len(steps) < 2:
        return {}
    after = steps["change"].cumsum()
    before = after - steps["change"]
    times = np.repeat(steps["time_s"].to_numpy(dtype=float), 2)
    running = np.column_stack([before, after]).ravel()
    if len(times) > 2 * SAMPLES_AT_MOST:
        # Rows before and after a change stay together.
        changes = np.linspace(0, len(times) // 2 - 1, SAMPLES_AT_MOST).astype(int)
        kept = np.column_stack([2 * changes, 2 * changes + 1]).ravel()
        times, running = times[kept], running[kept]
    return {"time_s": _rounded(pd.Series(times)), "running": _rounded(pd.Series(running))}


def embedded_series(results: Path, trials: list[str]) -> dict[str, TrialSeries]:
    """Return the series of these trials; trials without any are left out."""
    return {trial: series for trial in trials if (series := trial_series(results, trial))}
