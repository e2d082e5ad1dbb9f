"""Sustained load: a trial whose rate changes is invalid, one that drains at its end is not."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import pytest

from headrace.engine.measure import validity
from headrace.engine.measure.job_pool import JobEnd
from headrace.jobs import JobOutput
from headrace.study.model import RunOptions


def load(slots: int, jobs: int, length_s: Callable[[float], float]) -> tuple[list[JobEnd], float]:
    """Return jobs that start as slots become free, and when the first slot stays free.

    `length_s`: of a job, by its start.
    """
    free = [(0.0, slot) for slot in range(slots)]
    ends: list[JobEnd] = []
    for number in range(jobs):
        start_s, slot = heapq.heappop(free)
        end_s = start_s + length_s(start_s)
        heapq.heappush(free, (end_s, slot))
        output = JobOutput(events=10)
        ends.append(JobEnd(number, slot, None, "ok", None, start_s, end_s, output, None, start_s))
    return ends, free[0][0]


def codes(slots: int, jobs: int, length_s: Callable[[float], float]) -> list[str]:
    run = RunOptions.model_validate({"jobs": jobs, "slots": slots})
    return [reason.code for reason in validity.steady(run, *load(slots, jobs, length_s))]


@pytest.mark.parametrize(("slots", "jobs"), [(1, 20), (8, 20), (2, 5), (8, 9), (16, 20)])
def test_slots_that_run_out_of_jobs_at_the_end_are_steady(slots: int, jobs: int) -> None:
    assert codes(slots, jobs, lambda start_s: 0.5) == []


def test_jobs_that_become_slower_are_not_steady() -> None:
    assert codes(2, 40, lambda start_s: 0.5 if start_s < 6 else 1.0) == ["not-steady"]
    assert codes(2, 40, lambda start_s: 1.0 if start_s < 6 else 0.5) == ["not-steady"]
