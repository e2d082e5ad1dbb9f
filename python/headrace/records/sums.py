"""Sums over the jobs of one trial, kept in its trial.json.

Findings use them instead of opening ten thousand Parquet files. The store computes them when it
receives the jobs; `read.py` reads them back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.records.rows import LOAD_OVER

SUMMED = (
    "wall_s",
    "user_s",
    "system_s",
    "on_cpu_s",
    "wait_cpu_s",
    "wait_block_s",
    "wait_network_s",
    "other_s",
    "events",
    "bytes_uncompressed",
    "bytes_asked",
    "bytes_served",
    "bytes_device",
    "bytes_written",
    "read_calls",
)
WINDOWED = (
    "events",
    "bytes_uncompressed",
    "bytes_asked",
    "bytes_served",
    "bytes_device",
    "bytes_written",
    "read_calls",
)


def job_sums(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return sums of the job columns `SUMMED`, and:

    - `jobs`: number of jobs. A job that the end of a sustained load cut off counts by its wall time
      over the mean of those that ended, so that time and energy per job are those of whole jobs;
    - `open_s`: time until files were open, if it is known of every job;
    - `request_repeats`: requests by URL that were sent again, if there are any;
    - `efficiencies`: sum over the jobs of CPU / wall;
    - `throughput_jobs`: sum over the slots of CPU / wall: the equivalent number of jobs computing
      all the time;
    - `window_s`: time from the release until the first slot has nothing more to do, so that no slot
      is idle (for a batch the stonewall, for a sustained load the whole load);
    - `window_X` for `WINDOWED`: the sum within that window, where a job counts by the share of its
      time in the window.
    """
    parts = _parts(rows)
    sums: dict[str, float] = {"jobs": sum(parts)}
    for name in SUMMED:
        sums[name] = sum(row.get(name) or 0 for row in rows)
    opened = [row.get("open_s") for row in rows]
    if rows and None not in opened:
        sums["open_s"] = sum(seconds or 0.0 for seconds in opened)
    if repeats := sum(row.get("request_repeats") or 0 for row in rows):
        sums["request_repeats"] = repeats
    sums["efficiencies"] = sum(
        part * _cpu_s(row) / row["wall_s"]
        for row, part in zip(rows, parts, strict=True)
        if row.get("wall_s")
    )
    last_s: dict[tuple[Any, Any], float] = defaultdict(float)
    cpu_s: dict[tuple[Any, Any], float] = defaultdict(float)
    wall_s: dict[tuple[Any, Any], float] = defaultdict(float)
    for row in rows:
        slot = (row.get("node"), row.get("slot"))
        last_s[slot] = max(last_s[slot], row.get("end_s") or 0.0)
        cpu_s[slot] += _cpu_s(row)
        wall_s[slot] += row.get("wall_s") or 0.0
    sums["throughput_jobs"] = sum(cpu_s[slot] / wall_s[slot] for slot in wall_s if wall_s[slot] > 0)
    window_s = min(last_s.values(), default=0.0)
    sums["window_s"] = window_s
    shares = [_share(row.get("start_s") or 0.0, row.get("end_s") or 0.0, window_s) for row in rows]
    for name in WINDOWED:
        sums[f"window_{name}"] = sum(
            (row.get(name) or 0) * share for row, share in zip(rows, shares, strict=True)
        )
    return sums


def _parts(rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return which part of a whole job each row is."""
    cut = [row.get("cause") == LOAD_OVER for row in rows]
    wall_s: list[float] = [row.get("wall_s") or 0.0 for row in rows]
    ended_s = [seconds for seconds, off in zip(wall_s, cut, strict=True) if not off]
    if len(ended_s) == len(rows) or not sum(ended_s) > 0:
        return [1] * len(rows)
    mean_s = sum(ended_s) / len(ended_s)
    return [seconds / mean_s if off else 1 for seconds, off in zip(wall_s, cut, strict=True)]


def _cpu_s(row: Mapping[str, Any]) -> float:
    return (row.get("user_s") or 0.0) + (row.get("system_s") or 0.0)


def _share(start_s: float, end_s: float, window_s: float) -> float:
    if end_s <= start_s:
        return 0.0
    return max(0.0, min(end_s, window_s) - start_s) / (end_s - start_s)
