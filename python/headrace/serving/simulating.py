"""The process that simulates what-if studies: one study at a time, each point sent as it is done.

`main`, in a process of its own, reads requests from its input, one JSON object a line, and
writes answers to its output; it ends with its input, and so with the server. A process of its own
keeps the server's answers quick; its imports are done once.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
from pathlib import Path

import msgspec

from headrace.engine.simulate.checking import refusal_of
from headrace.engine.simulate.simulator import Cores, ScenarioRefusal
from headrace.engine.simulate.trials import PreparedTrial
from headrace.errors import HeadraceError, StudyError, describe
from headrace.metrics import values_of
from headrace.plan.order import make_plan
from headrace.study.load import load_study_text


class SimulationRequest(msgspec.Struct):
    """A study to simulate; with an empty text: stop the one of this number."""

    number: int
    text: str = ""
    base: str = "."


class SimulatedPoint(msgspec.Struct):
    """An answer: one point, an error, or the end."""

    number: int
    slots: int = 0
    events_per_s: float | None = None
    efficiency: float | None = None
    wh_per_job: float | None = None
    problem: str = ""
    """Why there is no point; without slots: why there is none at all."""
    hint: str = ""
    end: bool = False


class _Stopped:
    """Numbers of the requests that nobody waits for any more."""

    def __init__(self) -> None:
        self.numbers: set[int] = set()


def main() -> None:
    """Answer requests until the input ends."""
    wanted: queue.Queue[SimulationRequest | None] = queue.Queue()
    stopped = _Stopped()
    threading.Thread(target=_read, args=(wanted, stopped), daemon=True).start()
    while (request := wanted.get()) is not None:
        try:
            if request.number not in stopped.numbers:
                _simulate(request, stopped)
        except StudyError as error:
            # The file is not the user's: the page has a form.
            problem = "; ".join(each.words for each in error.problems)
            _say(SimulatedPoint(request.number, problem=problem))
        except HeadraceError as error:
            _say(SimulatedPoint(request.number, problem=error.message, hint=error.hint or ""))
        except Exception as error:  # the next request may be simulated
            _say(SimulatedPoint(request.number, problem=f"a defect: {describe(error)}"))
        _say(SimulatedPoint(request.number, end=True))


def _read(wanted: queue.Queue[SimulationRequest | None], stopped: _Stopped) -> None:
    for line in sys.stdin.buffer:
        request = msgspec.json.decode(line, type=SimulationRequest)
        if request.text:
            wanted.put(request)
        else:
            stopped.numbers.add(request.number)
    wanted.put(None)


def _simulate(request: SimulationRequest, stopped: _Stopped) -> None:
    base = Path(request.base)
    study = load_study_text(request.text, file=base / "what-if.toml", base=base)
    # The fewest slots first: their points are there soonest.
    trials = sorted(make_plan(study).trials, key=lambda trial: int(str(trial.levels["slots"])))
    prepared: list[PreparedTrial] = []
    scenarios: list[str] = []
    for trial in trials:
        if request.number in stopped.numbers:
            return
        prepared.append(PreparedTrial.of(study, trial))
        scenarios.append(prepared[-1].scenario(series=False))
    refused = {
        found.words: found
        for trial, scenario in zip(trials, scenarios, strict=True)
        if (found := refusal_of(study, trial, scenario)) is not None
    }
    if refused:
        raise StudyError(list(refused.values()))

    def finished(index: int, outcome: str | None, refusal: ScenarioRefusal | None) -> bool:
        _say(_point(request.number, prepared[index], outcome, refusal))
        return request.number not in stopped.numbers

    Cores().run(scenarios, finished, lambda: request.number in stopped.numbers)


def _point(
    number: int, prepared: PreparedTrial, outcome: str | None, refusal: ScenarioRefusal | None
) -> SimulatedPoint:
    made = prepared.simulated(outcome, refusal)
    record = made.record.with_jobs(made.jobs)
    slots = int(str(prepared.trial.levels["slots"]))
    if not record.validity.valid:
        return SimulatedPoint(number, slots, problem="; ".join(record.why))
    values = values_of(record)
    return SimulatedPoint(
        number, slots, values.get("events_per_s"), values.get("efficiency"),
        values.get("energy_wh_per_job"),
    )  # fmt: skip


def _say(point: SimulatedPoint) -> None:
    sys.stdout.write(json.dumps(msgspec.to_builtins(point)) + "\n")
    sys.stdout.flush()
