"""Effects of faults on jobs, from the records: failed, stalled, slowed, recovered, lost. Pure.

The reference of a fault is the same cell without it where the study has one (level `none` of the
factor `fault`), otherwise the time before the injection. Stall and recovery come from the series of
the device or the network, unless the fault injector observed them itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from headrace.analysis.findings import Estimate, FaultEffect
from headrace.analysis.ratio import ratio_of_means
from headrace.analysis.read import Records
from headrace.analysis.trial_row import TrialRow
from headrace.errors import HeadraceError
from headrace.records.rows import LOAD_OVER
from headrace.records.trial_record import FaultRecord, JsonObject

FACTOR = "fault"
NONE = "none"
RECOVERED_SHARE = 0.8
"""Share of the rate before the fault: the storage counts as recovered from the first interval
that reaches it."""
IDLE_SHARE = 0.01
"""Share of the rate before the fault: an interval below it counts as idle."""


def is_spared(levels: Mapping[str, object]) -> bool:
    """Return whether a cell has no fault by its level of the factor `fault`. A fault is no choice:
    nothing is recommended by it."""
    return levels.get(FACTOR) in (None, NONE)


def without_faults(records: Records) -> Records:
    """Return the records without the cells that have a fault; all where every cell has one."""
    if not len(records):
        return records
    kept = [is_spared(levels) for levels in records.trials["levels"]]
    return replace(records, trials=records.trials[kept]) if any(kept) else records


@dataclass(frozen=True)
class _Seen:
    """One fault in one trial."""

    stall_s: float | None
    recovered_s: float | None
    during: float | None
    """Rate while the fault lasted over the rate before it."""


def fault_effects(
    records: Records, rates: dict[str, float], metric: dict[str, str], confidence: float
) -> tuple[FaultEffect, ...]:
    """Return one effect for each fault of each cell. `rates` holds the headline metric of valid
    trials by id, `metric` its name by workload.

    Trials that failed because of the fault count for failed jobs, stall and loss; invalid trials
    count for nothing.
    """
    if not len(records) or "faults" not in records.trials:
        return ()
    if not any(records.trials["faults"]):
        return ()
    rows = records.rows
    groups: dict[tuple[str, str, str], list[tuple[TrialRow, FaultRecord]]] = {}
    for row in rows:
        for fault in row["faults"]:
            usable = row["valid"] or (row["status"] == "failed" and fault.fired)
            if usable and fault.fired:
                key = (row["cell"], row["provenance"], fault.name or fault.what)
                groups.setdefault(key, []).append((row, fault))
    plain = _without_fault(rows)
    return tuple(
        _effect(records, name, members, plain, rates, metric, confidence)
        for (_, _, name), members in groups.items()
    )


def _without_fault(rows: Sequence[TrialRow]) -> dict[str, list[str]]:
    """Return the ids of the valid trials without any fault, by what their cells share with cells
    that have one."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row["valid"] and not row["faults"]:
            found.setdefault(_cell(row), []).append(row["id"])
    return found


def _cell(row: TrialRow) -> str:
    levels = sorted((name, str(level)) for name, level in row["levels"].items() if name != FACTOR)
    return str((row["provenance"], row["target"], row["workload"], row["slots"], levels))


def _effect(
    records: Records,
    name: str,
    members: list[tuple[TrialRow, FaultRecord]],
    plain: dict[str, list[str]],
    rates: dict[str, float],
    metric: dict[str, str],
    confidence: float,
) -> FaultEffect:
    first, fault = members[0]
    ids = tuple(row["id"] for row, _ in members)
    jobs, failed, error = _jobs(records, ids)
    seen = [_seen(records, row, each) for row, each in members]
    own = [each.seen for _, each in members]
    with_it = [rates[each] for each in ids if rates.get(each, 0.0) > 0]
    without = [rates[each] for each in plain.get(_cell(first), []) if rates.get(each, 0.0) > 0]
    before = [each.during for each in seen if each.during is not None]
    rate: Estimate | None = None
    against = ""
    if with_it and without:
        trials = (*plain[_cell(first)], *ids)
        rate, _ = ratio_of_means(np.array(without), np.array(with_it), trials, confidence)
        against = "the same without it"
    elif before and not without:
        rate = Estimate(
            fmean(before), None, None, len(before), "mean of the ratios, one a trial", ids
        )
        against = "before the fault"
    recovered = [each.recovered_s for each in seen if each.recovered_s is not None]
    stalls = [each.stall_s for each in seen if each.stall_s is not None]
    return FaultEffect(
        fault=name,
        what=fault.what,
        target=first["target"],
        workload=first["workload"],
        slots=int(first["slots"]),
        levels={
            key: level
            for key, level in first["levels"].items()
            if key not in ("target", "workload", "slots", FACTOR)
        },
        fired=sum(each.fired for _, each in members),
        jobs=jobs,
        failed_jobs=failed,
        error=error,
        stall_s=max(stalls) if stalls else None,
        recovered_s=fmean(recovered) if recovered else None,
        rate=rate,
        rate_metric=metric.get(first["workload"], "") if against == "the same without it" else "",
        against=against,
        acknowledged_writes=_sum(own, "acknowledged_writes"),
        lost_writes=_sum(own, "lost_writes"),
        lost_bytes=_sum(own, "lost_bytes"),
        note="; ".join(
            dict.fromkeys(str(each["file_system"]) for each in own if "file_system" in each)
        ),
        provenance=first["provenance"],
        trials=ids,
    )


def _sum(seen: list[JsonObject], name: str) -> int | None:
    given = [int(each[name]) for each in seen if each.get(name) is not None]
    return sum(given) if given else None


def _jobs(records: Records, trials: Sequence[str]) -> tuple[int, int, str]:
    """Return the number of jobs, the number of failed ones, and the most common cause."""
    frames: list[pd.DataFrame] = []
    for trial in trials:
        try:
            frames.append(records.trial_jobs(trial, ["exit", "cause"]))
        except HeadraceError:
            continue
    if not frames:
        return 0, 0, ""
    jobs: Any = pd.concat(frames)
    jobs = jobs[jobs["cause"] != LOAD_OVER]
    failed = jobs[~jobs["exit"].isin(["ok", "done"])]
    causes = failed["cause"].dropna().value_counts()
    return len(jobs), len(failed), str(causes.index[0]) if len(causes) else ""


def _seen(records: Records, row: TrialRow, fault: FaultRecord) -> _Seen:
    """Return the observations of a fault; those of the fault injector take precedence over the
    series."""
    own = fault.seen
    stall_s, recovered_s, during = _from_series(records, row, fault)
    return _Seen(own.get("stall_s", stall_s), own.get("recovered_s", recovered_s), during)


def _from_series(
    records: Records, row: TrialRow, fault: FaultRecord
) -> tuple[float | None, float | None, float | None]:
    moved = _moved(records, row)
    injected, lifted = fault.struck_s, fault.lifted_s
    last_done_s = row["last_done_s"]
    if moved is None or injected is None or not last_done_s:
        return None, None, None
    ends, rates = moved
    starts = np.concatenate([[0.0], ends[:-1]])
    gone_until_s = _gone_until_s(row, fault)
    if gone_until_s is not None:
        rates = np.where((starts >= injected) & (ends <= gone_until_s), 0.0, rates)
    # Only whole intervals count: the end of the jobs may have truncated the last one.
    before = rates[ends <= injected]
    running = (starts >= injected) & (ends <= last_done_s + 1e-9)
    if not len(before) or before.mean() <= 0 or not running.any():
        return None, None, None
    usual = float(before.mean())
    idle = rates < IDLE_SHARE * usual
    stall_s = _longest(starts[running], ends[running], idle[running])
    end = float(lifted) if lifted is not None else float("inf")
    lasting = (starts >= injected) & (ends <= end)
    during = float(rates[lasting].mean()) / usual if lasting.any() else None
    recovered_s: float | None = None
    again = (starts >= end - 1e-9) & (rates >= RECOVERED_SHARE * usual)
    if again.any():
        recovered_s = max(0.0, float(starts[again][0]) - end)
    return stall_s, recovered_s, during


def _gone_until_s(row: TrialRow, fault: FaultRecord) -> float | None:
    """Return until when no byte moves because every drive is gone; None if one is there.

    The kernel counts the bytes of failed requests, too (`blk_account_io_completion`). The simulator
    does not, and its series also have drives that the fault leaves alone.
    """
    lifted_s = float("inf") if fault.lifted_s is None else fault.lifted_s
    if fault.what == "power-loss":
        return None if row["provenance"] == "simulated" else lifted_s
    if fault.what != "drop-off":
        return None
    drives = [item for item in row.get("inventory") or () if item.part == "drive"]
    holding = [item for item in drives if item.usable_bytes is not None]
    if fault.seen.get("every_drive"):
        # A RAID does not take back the drives that it lost.
        return float("inf") if any(item.raid_level is not None for item in holding) else lifted_s
    return lifted_s if sum(item.count for item in holding) == 1 else None


def _longest(starts: np.ndarray, ends: np.ndarray, idle: np.ndarray) -> float:
    """Return the longest time without progress."""
    longest = current = 0.0
    for start, end, nothing in zip(starts, ends, idle, strict=True):
        current = current + float(end - start) if nothing else 0.0
        longest = max(longest, current)
    return longest


def _moved(records: Records, row: TrialRow) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the ends of a trial's intervals in s, and the bytes per second that its storage
    moved in each."""
    for kind, columns in (
        ("block", ["read_bytes_per_s", "write_bytes_per_s"]),
        ("network", ["received_bytes_per_s", "sent_bytes_per_s"]),
    ):
        try:
            series: Any = records.series(row["id"], kind)
        except HeadraceError:
            continue
        if len(series) and set(columns) <= set(series.columns):
            whole = (
                series.assign(moved=series[columns].sum(axis="columns"))
                .groupby("time_s")["moved"]
                .sum()
            )
            return whole.index.to_numpy(float), whole.to_numpy(float)
    return None
