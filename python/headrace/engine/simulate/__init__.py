"""The engine `simulate`: the same study in virtual time, on a site that exists only in the catalog.

Trials share nothing, so they are simulated on all cores at once by the Rust core; records are written here, as outcomes come in.
Nothing of this machine or of the clock goes into a record: equal seed, equal bytes.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

from headrace import _core
from headrace.engine import Engine, Run, base_record
from headrace.engine.repeating import Repeating
from headrace.engine.simulate.recording import block_series, job_rows, record_values
from headrace.engine.simulate.scenario import scenario_of
from headrace.errors import HeadraceError, InterruptedRunError, Problem, StudyError
from headrace.plan.trial import Plan, Trial
from headrace.study.model import Study
from headrace.study.resolve import Resolved, resolve
from headrace.units import format_seconds

BATCH = 64
"""Trials handed to the core at once: enough to keep all cores busy, few enough that a stop loses little."""


class Simulate(Engine):
    """Modelled jobs on modelled storage, in virtual time."""

    kind = "simulate"

    def check(self, study: Study, plan: Plan, forced_devices: frozenset[str]) -> list[Problem]:
        """What of the study has no model. Raises StudyError for an entry that the catalog does not have."""
        problems: dict[str, Problem] = {}
        seen: set[str] = set()
        for trial in plan.trials:
            if trial.cell in seen:
                continue
            seen.add(trial.cell)
            try:
                resolved = resolve(study, trial.target, trial.workload, trial.levels)
                scenario_of(resolved, trial.target, trial.workload, trial.seed)
            except StudyError:
                raise
            except HeadraceError as error:
                problems[error.message] = Problem(
                    error.message,
                    "headrace simulate",
                    error.hint or "see docs/models.md for what can be simulated",
                )
        return list(problems.values())

    def run(self, run: Run) -> None:
        """Makes every missing record of the plan."""
        left = [trial for trial in run.plan.trials if not run.store.has(trial.id)]
        run.observer.started(len(run.plan.trials), len(run.plan.trials) - len(left))
        repeating = Repeating(run.study, run.plan, run.store.root)
        environment = {"engine": "simulate", "headrace_version": version("headrace")}
        simulated_s = 0.0
        for at in range(0, len(left), BATCH):
            trials: list[Trial] = []
            for trial in left[at : at + BATCH]:
                if repeating.needs(trial):
                    trials.append(trial)
                else:
                    run.observer.trial_finished(trial, "skipped", [], "interval narrow enough")
            simulated_s += _batch(run, trials, repeating, environment, simulated_s)


def _batch(
    run: Run, trials: list[Trial], repeating: Repeating, environment: dict[str, Any], before_s: float
) -> float:
    """Simulates trials side by side and records each as it comes in. `before_s` and what is returned: virtual time, before and in it."""
    virtual_s = 0.0
    resolved = [resolve(run.study, trial.target, trial.workload, trial.levels) for trial in trials]
    scenarios = [
        json.dumps(
            scenario_of(
                each,
                trial.target,
                trial.workload,
                trial.seed,
                series_interval_ns=round(each.run.series_interval * 1e9),
            )
        )
        for each, trial in zip(resolved, trials, strict=True)
    ]
    for trial in trials[:1]:
        run.observer.trial_started(trial, 0)

    def watching(simulated_ns: int) -> None:
        nonlocal virtual_s
        virtual_s = simulated_ns * 1e-9
        run.observer.simulated(before_s + virtual_s)

    def finished(index: int, outcome: str | None, error: tuple[str, str, str] | None) -> bool:
        _record(run, trials[index], resolved[index], outcome, error, repeating, environment)
        return not run.stop.is_set()

    _core.simulate_many(scenarios, 0, finished, run.stop.is_set, watching)
    if run.stop.is_set():
        raise InterruptedRunError("stopped")
    return virtual_s


def _record(
    run: Run,
    trial: Trial,
    resolved: Resolved,
    outcome_json: str | None,
    error: tuple[str, str, str] | None,
    repeating: Repeating,
    environment: dict[str, Any],
) -> None:
    with run.store.record(trial.id) as record:
        if outcome_json is None:
            path, given, allowed = error or ("(outcome)", "", "")
            cause = f"{path}: given {given}" + (f", allowed: {allowed}" if allowed else "")
            record.jobs([])
            values = _failed(run, trial, resolved, cause, environment)
        else:
            outcome = json.loads(outcome_json)
            local = not outcome["services"]
            rows = job_rows(trial, outcome, local)
            record.jobs(rows)
            record.series("block", block_series(outcome))
            values = record_values(run, trial, resolved, outcome, rows, environment)
        record.commit(values)
    reasons = [found["text"] for found in values["validity"]["reasons"]]
    status = values["status"] if values["status"] != "done" or not reasons else "invalid"
    said = f"{format_seconds(values.get('last_done_s') or 0.0)} of virtual time"
    run.observer.trial_finished(trial, status, [values["cause"]] if values["cause"] else reasons, said)
    repeating.recorded(trial, values, record.sums)


def _failed(
    run: Run, trial: Trial, resolved: Resolved, cause: str, environment: dict[str, Any]
) -> dict[str, Any]:
    return {
        **base_record(run, trial, "simulate", environment),
        "provenance": "simulated",
        "status": "failed",
        "cause": cause,
        "target": {"name": trial.target, "kind": resolved.target_kind},
        "workload": {"name": trial.workload, "kind": resolved.workload_kind},
        "run": resolved.run.model_dump(mode="json"),
        "started_utc": None,
        "duration_s": 0.0,
        "last_done_s": 0.0,
        "validity": {"valid": False, "reasons": [{"code": "failed", "text": cause}]},
    }
