"""Engine `simulate`: convert trials to scenarios for the Rust core, and its outcomes to records."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import version

from headrace import workloads as workload_package
from headrace.engine.inventory import modelled_inventory, volumes_of
from headrace.engine.modelled_power import of_simulation, power_rows
from headrace.engine.simulate.outcome import SimulatedOutcome
from headrace.engine.simulate.recording import (
    block_series,
    cpu_of,
    ending_of,
    failed_record,
    job_rows,
    record_of,
)
from headrace.engine.simulate.scenario import scenario_of
from headrace.engine.simulate.simulator import ScenarioRefusal
from headrace.errors import HeadraceError
from headrace.meters.sampling import PowerRow
from headrace.plan.trial import Trial
from headrace.records.inventory import Inventory
from headrace.records.rows import BlockRow, JobRow
from headrace.records.sums import job_sums
from headrace.records.trial_record import JsonObject, TrialRecord
from headrace.study.model import Study
from headrace.study.resolve import Resolved, resolve
from headrace.units import format_amount, format_seconds

_MOST_SAMPLES = 1_000_000
"""Samples of a drive in one trial; records of more do not fit into memory."""


@cache
def _environment() -> JsonObject:
    """Return the environment of a record.

    It contains no facts of this machine: equal seeds give equal bytes.
    """
    return {"engine": "simulate", "headrace_version": version("headrace")}


def _cause_of(refusal: ScenarioRefusal, target: str) -> str:
    """Return why a trial failed, from the core's refusal of its scenario."""
    field, given, allowed = refusal
    files = re.fullmatch(r"(\d+) files of (\d+) bytes", given)
    if files is not None:
        number, size = int(files[1]), format_amount(int(files[2]))
        files_of = "a file" if number == 1 else f"{number} files"
        return f"target {target} has no room for {files_of} of {size}"
    return f"{field}: given {given}" + (f", allowed: {allowed}" if allowed else "")


@dataclass(frozen=True)
class SimulatedTrial:
    """The results of one trial."""

    record: TrialRecord
    """Without the sums over its jobs."""
    jobs: list[JobRow]
    """Rows of jobs.parquet."""
    block: list[BlockRow]
    """Rows of series/block.parquet."""
    power: list[PowerRow]
    """Rows of series/power.parquet: modelled."""


@dataclass(frozen=True)
class PreparedTrial:
    """A trial with its options resolved, ready to simulate."""

    study: Study
    trial: Trial
    resolved: Resolved
    unknown: tuple[str, ...] = ()
    """Factors of the study that no model knows."""
    _inventories: dict[int, Inventory] = field(default_factory=dict, compare=False, repr=False)
    """By the number of nodes: a trial that is simulated many times has one inventory."""

    @classmethod
    def of(cls, study: Study, trial: Trial, unknown: tuple[str, ...] = ()) -> PreparedTrial:
        """Resolve the trial's levels. Raises StudyError for levels that are not valid together."""
        resolved = resolve(study, trial.target, trial.workload, trial.levels)
        return cls(study, trial, resolved, unknown)

    def scenario(self, *, series: bool, of_nodes: int | None = None) -> str:
        """Return the scenario for the core as JSON.

        With `series`, its drives are sampled over time. With `of_nodes`, the study's data and jobs
        are those of so many nodes, and grow with the number of nodes. Raises HeadraceError or
        StudyError if a part has no model.
        """
        trial, run = self.trial, self.resolved.run
        interval_s = run.series_interval if series else 0.0
        if run.duration is not None and run.duration > _MOST_SAMPLES * run.series_interval:
            raise HeadraceError(
                f"duration ({format_seconds(run.duration)}) with series_interval "
                f"({format_seconds(run.series_interval)}) makes more than {_MOST_SAMPLES:,} "
                "samples of each drive",
                hint="give a longer series_interval",
            )
        made = scenario_of(
            self.resolved,
            trial.target,
            trial.workload,
            trial.seed,
            series_interval_ns=round(interval_s * 1e9),
            of_nodes=of_nodes,
        )
        return json.dumps(made)

    def simulated(self, outcome: str | None, refusal: ScenarioRefusal | None) -> SimulatedTrial:
        """Return the results for an outcome of the core; without an outcome the trial failed."""
        if outcome is None:
            cause = _cause_of(refusal or ("(outcome)", "", ""), self.trial.target)
            failed = failed_record(self.study, self.trial, self.resolved, cause, _environment())
            return SimulatedTrial(failed, [], [], [])
        values, rows = self._rows(outcome)
        record = record_of(
            self.study,
            self.trial,
            self.resolved,
            values,
            rows,
            _environment(),
            self._inventory,
            self._holding,
            [*self._not_modelled(), *self._longer_than_timeout(rows)],
        )
        block = block_series(values)
        activity = of_simulation(rows, block)
        power = power_rows(record.energy, record.inventory, activity, record.duration_s)
        return SimulatedTrial(record, rows, block, power)

    def sums(self, outcome: str | None) -> dict[str, float] | None:
        """Return the sums over the jobs of a valid trial with its `last_done_s` and `cpu_busy_s`
        of its nodes; else None.

        They are those of its record, of which a fit of hundreds of trials needs no more.
        """
        if outcome is None:
            return None
        values, rows = self._rows(outcome)
        ending = ending_of(self.resolved, values, rows)
        if not ending.valid:
            return None
        busy_s = cpu_of([host for host in values["hosts"] if host["slots"] > 0], 0.0).busy_s
        return {**job_sums(rows), "last_done_s": ending.last_done_s, "cpu_busy_s": busy_s}

    def _rows(self, outcome: str) -> tuple[SimulatedOutcome, list[JobRow]]:
        values: SimulatedOutcome = json.loads(outcome)
        return values, job_rows(self.trial, values, local=not values["services"])

    @cached_property
    def _holding(self) -> frozenset[tuple[str, str]]:
        # A fit simulates each trial hundreds of times, and looks up its drives in the catalog once.
        return volumes_of(self.trial.target, self.resolved)

    def _not_modelled(self) -> list[str]:
        workload = workload_package.kinds()[self.resolved.workload_kind]
        said = workload(self.trial.workload, self.resolved.workload_options).not_modelled()
        alike = [
            f"no model knows {factor}: its levels are simulated alike"
            for factor in self.unknown
            if self.trial.levels.get(factor) is not None
        ]
        return alike if said is None else [said, *alike]

    def _longer_than_timeout(self, rows: list[JobRow]) -> list[str]:
        """Return what to say of jobs that take longer than the `timeout` that the study gives."""
        run = self.resolved.run
        longer = sum(row["wall_s"] > run.timeout for row in rows)
        if not longer or "timeout" not in run.model_fields_set:
            return []
        took = "1 job takes" if longer == 1 else f"{longer} jobs take"
        return [
            f"{took} longer than timeout ({format_seconds(run.timeout)}): a simulation ends no "
            "job, and a measured one would be recorded as hung"
        ]

    def _inventory(self, nodes: int) -> Inventory:
        if nodes not in self._inventories:
            self._inventories[nodes] = modelled_inventory(self.trial.target, self.resolved, nodes)
        return self._inventories[nodes]
