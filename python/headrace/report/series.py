"""The probe series of single trials, summed over devices and thinned, for the page.

Reads RESULTS/trials/<id>/series/*.parquet (docs/records.md) where they lie.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas

# The annotations of pandas know too little of frames; they are Any here.
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
"""What the page shows of each probe's series."""

_BY_REQUESTS = {"read_latency_ms": "read_iops", "write_latency_ms": "write_iops"}


def _over_devices(frame: Any) -> Any:
    """Rates and requests summed over the devices of a target, latency weighted by requests, the busiest device's busy share."""
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
    """At most so many samples: means of neighbours, so that rates still add up to what was moved."""
    if len(frame) <= most:
        return frame
    bins = np.arange(len(frame)) * most // len(frame)
    return frame.groupby(bins).mean(numeric_only=True)


def _rounded(values: Any) -> list[float | None]:
    return [
        None if not np.isfinite(value) else float(f"{value:.4g}") for value in values.to_numpy(dtype=float)
    ]


def trial_series(results: Path, trial: str) -> dict[str, dict[str, list[float | None]]]:
    """Series of one trial by probe, then by column (`time_s` first); probes without a series are left away."""
    found: dict[str, dict[str, list[float | None]]] = {}
    for probe, columns in COLUMNS.items():
        path = results / "trials" / trial / "series" / f"{probe}.parquet"
        if not path.is_file():
            continue
        frame = pd.read_parquet(path)
        if frame.empty or "time_s" not in frame.columns:
            continue
        frame = thin(_over_devices(frame))
        found[probe] = {name: _rounded(frame[name]) for name in ("time_s", *columns) if name in frame.columns}
    return found


def embedded_series(results: Path, trials: list[str]) -> dict[str, Any]:
    """Series of these trials; those without any are left away."""
    return {trial: series for trial in trials if (series := trial_series(results, trial))}
