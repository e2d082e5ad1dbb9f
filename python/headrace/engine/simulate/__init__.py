"""The engine `simulate`: the study in virtual time, on a site described by the catalog.

Trials are independent, so the Rust core simulates many at once, on all cores or on the workers of a
Dask cluster (`simulator.py`); records are written here as outcomes arrive. A record contains
nothing of this machine or its clock: equal seeds give equal bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.engine import Engine, Run
from headrace.engine.repeating import Repeating
from headrace.engine.simulate.checking import cells, problem_of, refusal_of
from headrace.engine.simulate.effects import unknown_factors
from headrace.engine.simulate.simulator import Cores, ScenarioRefusal, Simulator
from headrace.engine.simulate.trials import PreparedTrial
from headrace.errors import (
    FileProblem,
    HeadraceError,
    InterruptedRunError,
    NoSpaceError,
    Problem,
    StudyError,
)
from headrace.plan.trial import Plan, Trial
from headrace.study.model import Study
from headrace.units import format_seconds


class Simulate(Engine):
    """Modelled jobs on modelled storage, in virtual time."""

    kind = "simulate"

    def check(self, study: Study, plan: Plan, forced_devices: frozenset[str]) -> list[Problem]:
        """Return what the study contains that has no model.

        Raises StudyError for an entry that is not in the catalog, and for values that do not go
        together.
        """
        problems: dict[str, Problem] = {}
        refused: dict[str, FileProblem] = {}
        for trial in cells(plan.trials):
            try:
                scenario = PreparedTrial.of(study, trial).scenario(series=False)
            except (StudyError, NoSpaceError):
                raise
            except HeadraceError as error:
                problems[error.message] = Problem(
                    error.message,
                    "headrace simulate",
                    error.hint or "see docs/models.md for what can be simulated",
                    of_study=problem_of(study, trial, error, "it cannot be simulated: "),
                )
            else:
                if found := refusal_of(study, trial, scenario):
                    refused[str(found)] = found
        if refused:
            raise StudyError(list(refused.values()))
        return list(problems.values())

    def run(self, run: Run) -> None:
        """Write every missing record of the plan."""
        simulator = run.simulator or Cores()
        left = [trial for trial in run.plan.trials if not run.store.has(trial.id)]
        run.observer.started(len(run.plan.trials), len(run.plan.trials) - len(left))
        repeating = Repeating(run.study, run.plan, run.store.root, side_by_side=True)
        simulated_s = 0.0
        unknown = unknown_factors(run.study, cells(run.plan.trials))
        for wave in waves(left, run.study.plan_options.repeats.min):
            needed = [trial for trial in wave if _needed(run, repeating, trial)]
            for at in range(0, len(needed), simulator.at_once):
                batch = needed[at : at + simulator.at_once]
                simulated_s += _batch(run, simulator, batch, repeating, simulated_s, unknown)


def waves(trials: Sequence[Trial], least: int) -> list[list[Trial]]:
    """Split trials into consecutive groups. No trial needs the result of another in its group.

    The first `least` repeats of every cell always run and form the first group; whether a later
    repeat runs depends on earlier ones.
    """
    found: dict[int, list[Trial]] = {}
    for trial in trials:
        found.setdefault(max(trial.repeat, least - 1), []).append(trial)
    return [found[repeat] for repeat in sorted(found)]


def _needed(run: Run, repeating: Repeating, trial: Trial) -> bool:
    """Return whether a repeat must run. Nothing is recorded for one that is not needed."""
    enough = repeating.enough_because(trial)
    if enough is not None:
        run.observer.trial_finished(trial, "skipped", [], enough)
    return enough is None


def _batch(
    run: Run,
    simulator: Simulator,
    trials: list[Trial],
    repeating: Repeating,
    before_s: float,
    unknown: tuple[str, ...],
) -> float:
    """Simulate trials in parallel, record each when it finishes, and return their virtual time.

    `before_s` is the virtual time of the batches before, `unknown` names factors without a model.
    """
    virtual_s = 0.0
    prepared = [PreparedTrial.of(run.study, trial, unknown) for trial in trials]
    scenarios = [each.scenario(series=True) for each in prepared]
    for trial in trials[:1]:
        run.observer.trial_started(trial, 0)

    def progress(simulated_ns: int) -> None:
        nonlocal virtual_s
        virtual_s = simulated_ns * 1e-9
        run.observer.simulated(before_s + virtual_s)

    def finished(index: int, outcome: str | None, refusal: ScenarioRefusal | None) -> bool:
        _record(run, prepared[index], outcome, refusal, repeating)
        return not run.stop.is_set()

    simulator.run(scenarios, finished, run.stop.is_set, progress)
    if run.stop.is_set():
        raise InterruptedRunError("stopped")
    return virtual_s


def _record(
    run: Run,
    prepared: PreparedTrial,
    outcome: str | None,
    refusal: ScenarioRefusal | None,
    repeating: Repeating,
) -> None:
    made = prepared.simulated(outcome, refusal)
    trial = prepared.trial
    with run.store.record(trial.id) as partial:
        partial.jobs(made.jobs)
        partial.series("block", made.block)
        partial.series("power", made.power)
        record = partial.commit(made.record)
    said = f"{format_seconds(record.last_done_s or 0.0)} of virtual time"
    run.observer.trial_finished(trial, record.verdict, record.why, said)
    repeating.recorded(trial, record)
