"""A sweep: many studies simulated one after the other, the results of each as soon as it is done.

One process stays for all of them: it has imported everything, and the threads of the core (or the
workers of a Dask cluster) simulate while it prepares and evaluates. No records are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.engine.simulate.simulator import ScenarioRefusal, Simulator
from headrace.engine.simulate.trials import PreparedTrial
from headrace.errors import HeadraceError, NoSpaceError
from headrace.metrics import values_of
from headrace.plan.order import make_plan
from headrace.plan.trial import Trial
from headrace.study.load import load_study_text


@dataclass(frozen=True)
class SweptTrial:
    """A simulated trial."""

    trial: Trial
    metrics: Mapping[str, float]
    """Values by name (docs/findings.md)."""
    problem: str = ""
    """Why it has none; empty for a valid trial."""


@dataclass(frozen=True)
class SweptStudy:
    """The simulated trials of one study of a sweep, in the order of its plan."""

    number: int
    """Its place among the studies that were given, from 0."""
    trials: tuple[SweptTrial, ...]
    problem: str = ""
    """Why there are none: what the study has that is not valid or has no model."""


@dataclass
class _Pending:
    """A study whose trials are about to be simulated."""

    number: int
    prepared: list[PreparedTrial] = field(default_factory=list[PreparedTrial])
    scenarios: list[str] = field(default_factory=list[str])
    done: dict[int, SweptTrial] = field(default_factory=dict[int, SweptTrial])
    """By index in `prepared`."""
    problem: str = ""

    @classmethod
    def of(cls, number: int, text: str, base: Path) -> _Pending:
        made = cls(number)
        try:
            study = load_study_text(text, file=base / "sweep.toml", base=base)
            for trial in make_plan(study).trials:
                if trial.repeat < study.plan_options.repeats.min:
                    made.prepared.append(PreparedTrial.of(study, trial))
                    made.scenarios.append(made.prepared[-1].scenario(series=False))
        except NoSpaceError:
            raise
        except HeadraceError as error:
            return cls(number, problem=str(error))
        return made

    def swept(self) -> SweptStudy:
        trials = tuple(self.done[index] for index in range(len(self.prepared)))
        return SweptStudy(self.number, trials, self.problem)


def sweep(
    texts: Iterable[str],
    base: Path,
    simulator: Simulator,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[SweptStudy]:
    """Yield the results of each study of these texts, in their order, while others are to come.

    The fewest repeats of each cell are simulated. Relative paths refer to `base`. Ends early once
    `cancelled` returns true.
    """
    waiting: list[_Pending] = []
    for number, text in enumerate(texts):
        waiting.append(_Pending.of(number, text, base))
        if sum(len(each.scenarios) for each in waiting) >= 4 * simulator.at_once:
            yield from _simulated(waiting, simulator, cancelled)
            waiting = []
        if cancelled():
            return
    yield from _simulated(waiting, simulator, cancelled)


def _simulated(
    studies: list[_Pending], simulator: Simulator, cancelled: Callable[[], bool]
) -> list[SweptStudy]:
    """Return the results of these studies; none once cancelled."""
    owners = [(study, index) for study in studies for index in range(len(study.scenarios))]

    def finished(index: int, outcome: str | None, refusal: ScenarioRefusal | None) -> bool:
        study, place = owners[index]
        study.done[place] = _trial(study.prepared[place], outcome, refusal)
        return not cancelled()

    scenarios = [study.scenarios[index] for study, index in owners]
    simulator.run(scenarios, finished, cancelled)
    return [] if cancelled() else [study.swept() for study in studies]


def _trial(
    prepared: PreparedTrial, outcome: str | None, refusal: ScenarioRefusal | None
) -> SweptTrial:
    made = prepared.simulated(outcome, refusal)
    record = made.record.with_jobs(made.jobs)
    if not record.validity.valid:
        return SweptTrial(prepared.trial, {}, "; ".join(record.why) or "no valid trial")
    return SweptTrial(prepared.trial, values_of(record))
