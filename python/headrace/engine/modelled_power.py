"""Power against time of parts whose energy is modelled, from what they did.

Idle power is drawn all the time; the energy above it is spread over the time in proportion to
activity, so that the series adds up to the energy of the record.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from headrace.engine.site_energy import of_part
from headrace.meters.sampling import PowerRow
from headrace.records.energy import Energy
from headrace.records.inventory import Inventory, idle_power_w
from headrace.records.rows import BlockRow, JobRow

METER = "model"
"""Name of the meter in the rows of these series."""
INTERVALS_AT_MOST = 1000


@dataclass(frozen=True)
class PartActivity:
    """What the parts of a site did, by interval."""

    ends_s: Sequence[float]
    """Ends of the intervals, rising; the first begins at 0."""
    of_nodes: Sequence[float]
    """Busy processors, in any unit."""
    of_drives: Sequence[float]
    """Busy drives, in any unit."""


def power_rows(
    energy: Energy, inventory: Inventory, activity: PartActivity, duration_s: float
) -> list[PowerRow]:
    """Return the watts of each kind of part whose energy is modelled; empty without intervals."""
    lengths = _lengths(activity.ends_s, duration_s)
    if not lengths:
        return []
    rows: list[PowerRow] = []
    parts = (
        ("nodes", activity.of_nodes),
        ("servers", activity.of_drives),
        ("drives", activity.of_drives),
        ("switch", ()),
    )
    for part, done in parts:
        energy_j = getattr(energy, f"{part}_j")
        source = energy.part_provenance.get(part, energy.provenance)
        if not energy_j or source != "modelled" or part in energy.contained:
            continue
        idle_w = idle_power_w(of_part(part, inventory))
        watts = spread(energy_j, idle_w, done, lengths)
        for end_s, power_w in zip(activity.ends_s, watts, strict=True):
            rows.append({"time_s": end_s, "meter": METER, "channel": part, "power_w": power_w})
    return rows


def _lengths(ends_s: Sequence[float], duration_s: float) -> list[float]:
    """Return the lengths of the intervals within the duration of the trial."""
    starts = [0.0, *ends_s[:-1]] if ends_s else []
    found = [min(end, duration_s) - start for start, end in zip(starts, ends_s, strict=True)]
    return found if found and all(length > 0 for length in found) else []


def spread(
    energy_j: float, idle_w: float | None, activity: Sequence[float], lengths_s: Sequence[float]
) -> list[float]:
    """Return the mean power of each interval. Its sum over the intervals is `energy_j`."""
    whole_s = sum(lengths_s)
    weights = [done * length for done, length in zip(activity, lengths_s, strict=False)]
    weights += [0.0] * (len(lengths_s) - len(weights))
    total = sum(weights)
    if total <= 0:
        return [energy_j / whole_s] * len(lengths_s)
    base_w = min(idle_w or 0.0, energy_j / whole_s)
    extra_j = energy_j - base_w * whole_s
    return [
        base_w + extra_j * (weight / total) / length
        for weight, length in zip(weights, lengths_s, strict=True)
    ]


def of_simulation(jobs: Iterable[JobRow], block: Sequence[BlockRow]) -> PartActivity:
    """Return the activity of a simulated trial: its jobs' CPU time is taken as even over a job."""
    found = dict.fromkeys(sorted({row["time_s"] for row in block}), 0.0)
    for row in block:
        found[row["time_s"]] += row["busy"]
    # A long trial has longer intervals, of several samples each.
    together = max(1, math.ceil(len(found) / INTERVALS_AT_MOST))
    times, busy = list(found), list(found.values())
    starts = range(0, len(times), together)
    ends_s = [times[start : start + together][-1] for start in starts]
    drives = [fmean(busy[start : start + together]) for start in starts]
    return PartActivity(ends_s, _mean_cpus(jobs, ends_s) if ends_s else [], drives)


def _mean_cpus(jobs: Iterable[JobRow], ends_s: Sequence[float]) -> list[float]:
    """Return the mean number of busy processors of each interval."""
    steps: list[tuple[float, float]] = [(0.0, 0.0)]
    for job in jobs:
        if job["wall_s"] > 0:
            share = job.get("on_cpu_s", 0.0) / job["wall_s"]
            steps += [(job["start_s"], share), (job["end_s"], -share)]
    times, changes = (np.array(column) for column in zip(*sorted(steps), strict=True))
    running = np.cumsum(changes)[:-1]
    used_s = np.concatenate([[0.0], np.cumsum(running * np.diff(times))])
    until = np.interp([0.0, *ends_s], times, used_s)
    return (np.diff(until) / np.diff([0.0, *ends_s])).clip(min=0.0).tolist()


def of_probes(series: Mapping[str, Sequence[Mapping[str, Any]]], duration_s: float) -> PartActivity:
    """Return the activity of a measured trial, from the samples of the probes `cpu` and `block`."""
    rows = series.get("cpu") or ()
    cpu: dict[float, float] = {}
    for row in rows:
        time_s = float(row["time_s"])
        busy = 1.0 - float(row["idle"]) - float(row["iowait"])
        cpu[time_s] = cpu.get(time_s, 0.0) + max(0.0, busy)
    inside = sorted(time_s for time_s in cpu if 0 < time_s <= duration_s)
    ends_s = [*inside, duration_s] if inside and inside[-1] < duration_s else inside
    busy_until = [(float(row["time_s"]), float(row["busy"])) for row in series.get("block") or ()]
    drives, begin_s = list[float](), 0.0
    for end_s in ends_s:
        here = [busy for time_s, busy in busy_until if begin_s < time_s <= end_s]
        drives.append(sum(here) / len(here) if here else 0.0)
        begin_s = end_s
    nodes = [cpu.get(end_s, cpu[inside[-1]]) for end_s in ends_s] if inside else []
    return PartActivity(ends_s, nodes, drives)
