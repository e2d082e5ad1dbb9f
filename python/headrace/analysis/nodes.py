"""Nodes of a cell compared with each other, from the records: which was slow, and why. Pure.

A node's time per event is compared with the median of the other nodes in the same trial, so that
what all nodes share, such as a server, cancels out. It is the time per job where jobs have no
events, and where one job has those of all, as with the workload `dask`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any

import numpy as np

from headrace.analysis.findings import Estimate, NodeLoad, NodesOfCell
from headrace.analysis.metrics import LEDGER
from headrace.analysis.read import Records
from headrace.analysis.trial_row import TrialRow
from headrace.plan.intervals import interval
from headrace.records.nodes import NodeEvent, NodeFacts
from headrace.units import format_seconds

_SECONDS = [f"{part}_s" for part in LEDGER]
_SUMMED = ["wall_s", "user_s", "system_s", "events", "bytes_served", *_SECONDS]
_COLUMNS = ["node", "slot", "exit", "start_s", *_SUMMED]


@dataclass(frozen=True)
class _Trial:
    """The nodes of one trial; arrays have one value a node. Sums are over jobs that ended well."""

    id: str
    numbers: np.ndarray
    jobs: np.ndarray
    good: np.ndarray
    sums: dict[str, np.ndarray]
    start_s: np.ndarray
    """The latest start of the first jobs of a node's slots."""
    facts: dict[int, NodeFacts]
    metered_w: dict[str, float]
    """Mean power by name of the node, of those with meters of their own."""
    jobs_with_events: int
    per_job: bool = False
    """Whether work is counted in jobs; in events otherwise."""

    @property
    def events_by_job(self) -> bool:
        """Whether events say what each job did: one job of several may have those of all."""
        return self.jobs_with_events > 1 or 0 < self.jobs_with_events == int(self.good.sum())

    @cached_property
    def work(self) -> np.ndarray:
        """Events or jobs that each node did."""
        return self.good.astype(np.float64) if self.per_job else self.sums["events"]

    def per_work(self, name: str) -> np.ndarray:
        """Return a sum per event or job; NaN for nodes that did nothing."""
        return self.sums[name] / np.where(self.work > 0, self.work, np.nan)

    @cached_property
    def relative(self) -> np.ndarray:
        """Time per event or job over the median of the other nodes; NaN without others."""
        own_s = self.per_work("wall_s")
        return own_s / medians_of_others(own_s)

    @cached_property
    def excess_s(self) -> dict[str, np.ndarray]:
        """Seconds per event or job more than the median of the other nodes, by part."""
        found = {part: self.per_work(f"{part}_s") for part in LEDGER}
        return {part: own_s - medians_of_others(own_s) for part, own_s in found.items()}


def nodes_of_cells(records: Records, confidence: float) -> tuple[NodesOfCell, ...]:
    """Return the nodes of each cell whose jobs ran on several. Only valid trials count.

    `confidence`: that the intervals of all nodes of a cell hold at once.
    """
    if not len(records):
        return ()
    cells: dict[tuple[str, str], list[TrialRow]] = defaultdict(list)
    for row in records.rows:
        if row["valid"] and row["nodes"] > 1 and row["jobs"] > 0:
            cells[row["cell"], row["provenance"]].append(row)
    return tuple(_cell(records, rows, confidence) for rows in cells.values())


def _cell(records: Records, rows: Sequence[TrialRow], confidence: float) -> NodesOfCell:
    first = rows[0]
    trials = [_trial(records, row["id"]) for row in rows]
    per_job = not any(trial.events_by_job for trial in trials)
    trials = [replace(trial, per_job=per_job) for trial in trials]
    numbers = sorted({int(number) for trial in trials for number in trial.numbers})
    # The slowest of all is looked for: all intervals hold at once (Bonferroni).
    each_confidence = 1 - (1 - confidence) / len(numbers)
    return NodesOfCell(
        target=first["target"],
        workload=first["workload"],
        slots=first["slots"],
        levels=first["levels"],
        nodes=tuple(_load(number, trials, first["slots"], each_confidence) for number in numbers),
        per="job" if per_job else "event",
        provenance=first["provenance"],
        trials=tuple(trial.id for trial in trials),
    )


def _trial(records: Records, trial: str) -> _Trial:
    jobs: Any = records.trial_jobs(trial, _COLUMNS)
    counted: Any = jobs.groupby("node").size()
    ended_well: Any = jobs[jobs["exit"] == "ok"]
    good: Any = ended_well.groupby("node")
    sums: Any = good[_SUMMED].sum().reindex(counted.index, fill_value=0)
    first_start: Any = jobs.groupby(["node", "slot"])["start_s"].min().groupby("node").max()
    record = records.trial_record(trial)
    metered_j = record.energy.metered_nodes_j()
    return _Trial(
        id=trial,
        numbers=counted.index.to_numpy(),
        jobs=counted.to_numpy(),
        good=good.size().reindex(counted.index, fill_value=0).to_numpy(),
        sums={name: sums[name].to_numpy(dtype=np.float64) for name in _SUMMED},
        start_s=first_start.to_numpy(),
        facts={each.number: each for each in record.node_facts},
        metered_w={name: _over(joules, record.last_done_s) for name, joules in metered_j.items()},
        jobs_with_events=int((ended_well["events"] > 0).sum()),
    )


def medians_of_others(values: np.ndarray) -> np.ndarray:
    """Return for each value the median of the others, NaN left out; NaN where there is none."""
    known = np.flatnonzero(~np.isnan(values))
    found = np.full(len(values), np.nan)
    others = len(known) - 1
    if others < 1:
        return found
    order = known[np.argsort(values[known], kind="stable")]
    ranks = np.arange(len(order))
    lower, upper = (others - 1) // 2, others // 2
    ordered = values[order]
    found[order] = (
        ordered[lower + (lower >= ranks)] + ordered[upper + (upper >= ranks)]
    ) / 2  # a value's own place is passed over
    return found


def _load(number: int, trials: Sequence[_Trial], slots: int, confidence: float) -> NodeLoad:
    """Return what one node did in the trials that it took part in."""
    own = [
        (trial, int(place)) for trial in trials for place in np.flatnonzero(trial.numbers == number)
    ]
    sums = {name: sum(float(trial.sums[name][at]) for trial, at in own) for name in _SUMMED}
    wall_s = sums["wall_s"]
    relative, excess_s = _against_others(own, confidence)
    facts = [trial.facts[number] for trial, _ in own if number in trial.facts]
    name = facts[0].name if facts else f"node-{number}"
    power_w = [trial.metered_w[name] for trial, _ in own if name in trial.metered_w]
    foreign = [each.foreign_cpus for each in facts if each.foreign_cpus is not None]
    return NodeLoad(
        name=name,
        jobs=sum(int(trial.jobs[at]) for trial, at in own),
        failed_jobs=sum(int(trial.jobs[at] - trial.good[at]) for trial, at in own),
        per_s=_over(slots * sum(float(trial.work[at]) for trial, at in own), wall_s),
        bytes_per_s=_over(slots * sums["bytes_served"], wall_s),
        efficiency=_over(sums["user_s"] + sums["system_s"], wall_s),
        ledger={part: _over(sums[f"{part}_s"], wall_s) for part in LEDGER},
        relative=relative,
        excess_s=excess_s,
        start_s=fmean(float(trial.start_s[at]) for trial, at in own),
        other_cpus=fmean(foreign) if foreign else None,
        metered_w=fmean(power_w) if power_w else None,
        host=facts[0].host if facts else "",
        cpu_model=facts[0].cpu_model if facts else "",
        events=tuple(_event(event) for each in facts for event in each.events),
    )


def _over(amount: float, seconds: float | None) -> float:
    return amount / seconds if seconds else 0.0


def _event(event: NodeEvent) -> str:
    when = "before the jobs" if event.at_s < 0 else f"at {format_seconds(event.at_s)}"
    said = f"{event.what} {when}"
    return f"{said} ({event.cause})" if event.cause else said


def _against_others(
    own: Sequence[tuple[_Trial, int]], confidence: float
) -> tuple[Estimate | None, dict[str, float]]:
    """Return the mean ratio to the other nodes, one a trial, and the mean excess by part."""
    able = [(trial, at) for trial, at in own if trial.relative[at] > 0]
    if not able:
        return None, {}
    found = interval([math.log(trial.relative[at]) for trial, at in able], confidence)
    estimate = Estimate(
        math.exp(found.value),
        None if found.low is None else math.exp(found.low),
        None if found.high is None else math.exp(found.high),
        len(able),
        "geometric mean of the ratios, one a trial; t interval of its logarithm",
        tuple(trial.id for trial, _ in able),
    )
    return estimate, {
        part: fmean(float(trial.excess_s[part][at]) for trial, at in able) for part in LEDGER
    }
