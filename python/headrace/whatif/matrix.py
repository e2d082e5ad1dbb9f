"""Simulate every cell of a study's full matrix, in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from headrace.analysis.read import Records, trials_frame
from headrace.engine.simulate.simulator import Cores, ScenarioRefusal, Simulator
from headrace.engine.simulate.trials import PreparedTrial
from headrace.errors import HeadraceError, InterruptedRunError, StudyError, UsageError
from headrace.plan.trial import Plan
from headrace.records.store import ResultsHeader
from headrace.records.trial_record import TrialRecord
from headrace.study.model import Study


@dataclass(frozen=True)
class SimulatedMatrix:
    """The trials of a study's full matrix, simulated."""

    plan: Plan
    records: Records
    not_simulated: dict[str, str]
    """Cell (`Trial.cell`) -> why it has no valid trial."""


def full_matrix(study: Study) -> Study:
    """Return the study with every cell, whatever its design, and its fewest repeats."""
    planned = study.plan_options
    repeats = planned.repeats.model_copy(update={"max": None, "interval": None})
    options = planned.model_copy(update={"design": "full", "repeats": repeats, "budget": None})
    return replace(study, plan_options=options)


def simulated_matrix(
    study: Study,
    plan: Plan,
    *,
    simulator: Simulator | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> SimulatedMatrix:
    """Simulate every trial of a plan; the records stay in memory.

    `simulator`: where; None: on all cores.

    Raises StudyError for an entry that is not in the catalog, UsageError when nothing can be
    simulated, InterruptedRunError when stopped.
    """
    prepared: list[tuple[PreparedTrial, str]] = []
    why_not: dict[str, str] = {}
    for trial in plan.trials:
        try:
            made = PreparedTrial.of(study, trial)
            prepared.append((made, made.scenario(series=False)))
        except StudyError:
            raise
        except HeadraceError as error:
            why_not[trial.cell] = error.message
    found: list[TrialRecord] = []

    def finished(index: int, outcome: str | None, refusal: ScenarioRefusal | None) -> bool:
        made = prepared[index][0].simulated(outcome, refusal)
        found.append(made.record.with_jobs(made.jobs))
        progress(len(found), len(prepared))
        return not cancelled()

    scenarios = [scenario for _, scenario in prepared]
    (simulator or Cores()).run(scenarios, finished, cancelled)
    if cancelled():
        raise InterruptedRunError("stopped")
    for record in found:
        if not record.validity.valid:
            why_not.setdefault(record.cell, "; ".join(record.why) or "no valid trial")
    if not any(record.validity.valid for record in found):
        reasons = "; ".join(dict.fromkeys(why_not.values()))
        raise UsageError(f"{study.file}: nothing of this study can be simulated: {reasons}")
    found.sort(key=lambda record: record.index)
    return SimulatedMatrix(plan, records_in_memory(study, plan, found), why_not)


def records_in_memory(study: Study, plan: Plan, found: Sequence[TrialRecord]) -> Records:
    """Return simulated trials as a results folder would be read."""
    header = ResultsHeader(study.hash, study.title, "simulate", str(study.base), "", "")
    return Records(study.file, header, plan, trials_frame(found), (), ())
