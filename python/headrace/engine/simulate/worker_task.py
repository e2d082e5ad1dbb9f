"""Simulate one scenario in a task of a Dask worker. The worker imports this module."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, NamedTuple

from headrace import _core

_REPORT_S = 0.5
"""Time between two reports of a long simulation."""


class TaskAnswer(NamedTuple):
    """The result of one scenario."""

    version: str
    """Version of Headrace on the worker."""
    worker: str
    """Address of the worker."""
    outcome: str | None
    refusal: tuple[str, str, str] | None
    simulated_ns: int
    """Virtual time of the scenario."""


def simulate_one(scenario: str, index: int, topic: str, wanted: str) -> TaskAnswer:
    """Return the outcome of a scenario, unless this worker has another Headrace than `wanted`.

    Virtual time is reported as events of `topic`. Ends early when nobody waits for it any more.
    """
    from distributed import get_worker

    worker: Any = get_worker()
    if version("headrace") != wanted:
        return TaskAnswer(version("headrace"), worker.address, None, None, 0)
    answers: list[tuple[str | None, tuple[str, str, str] | None]] = []

    def finished(_: int, outcome: str | None, refusal: tuple[str, str, str] | None) -> bool:
        answers.append((outcome, refusal))
        return True

    reporting = _reporting(lambda simulated_ns: worker.log_event(topic, [index, simulated_ns]))
    _core.simulate_many([scenario], 1, finished, _released(worker), reporting)
    outcome, refusal = answers[0] if answers else (None, ("(simulation)", "stopped", ""))
    simulated_ns = json.loads(outcome)["end_ns"] if outcome is not None else 0
    return TaskAnswer(wanted, worker.address, outcome, refusal, simulated_ns)


def _reporting(report: Callable[[int], object]) -> Callable[[int], None]:
    """Return a function that reports a value, unless it did so a moment ago."""
    last_s = time.monotonic()

    def often(simulated_ns: int) -> None:
        nonlocal last_s
        if time.monotonic() - last_s >= _REPORT_S:
            last_s = time.monotonic()
            report(simulated_ns)

    return often


def _released(worker: Any) -> Callable[[], bool]:
    """Return a function that tells whether the present task was cancelled, or its client is gone.

    Dask cannot interrupt a task: the simulation asks for itself.
    """
    key = worker.get_current_task()

    def is_released() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state in ("cancelled", "released", "forgotten")

    return is_released
