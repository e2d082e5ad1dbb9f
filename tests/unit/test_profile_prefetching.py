"""Profiles of jobs that read ahead in a thread: the depth, and simulations that overlap as they
did."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from headrace import _core
from headrace.profiles.prefetching import prefetch
from headrace.profiles.scenario import scenario_steps
from headrace.profiles.steps import Op, RecordedFile, Recording, columns
from headrace.profiles.timeline import timeline

MS = 1_000_000
COUNT = 40
READ_BYTES = 1_000_000
FIELDS = ("start_ns", "end_ns", "thread", "op", "file", "offset", "length", "cpu_ns")
FILES = (RecordedFile("/data/events.root", COUNT * READ_BYTES),)


def recorded(
    ahead: int | None,
    read_ms: float,
    work_ms: float,
    *,
    begin_ms: float = 0,
    sleep_ms: float = 0,
    naps: int = COUNT,
) -> Recording:
    """A job whose thread 1 reads at most `ahead` reads before the work of thread 0 on them. None:
    thread 0 hands each read to thread 1 and waits for it. Both sleep before the first read; thread
    0 sleeps after the work on the first `naps` reads."""
    rows = [(0, MS, 0, Op.OPEN, 0, 0, 0, 0)]
    end = done = round((1 + begin_ms) * MS)
    finished: list[int] = []
    for number in range(COUNT):
        # Not even, as in a real job.
        read, work = (round(each * (0.9 + 0.2 * (number % 2)) * MS) for each in (read_ms, work_ms))
        depth = 0 if ahead is None else ahead
        begin = max(end, finished[number - depth - 1]) if number > depth else end
        end = begin + read
        rows.append((begin, end, 1, Op.READ, 0, number * READ_BYTES, READ_BYTES, MS // 100))
        done = max(done, end) + work + round(sleep_ms * MS) * (number < naps)
        finished.append(done)
    cpu_ns = round(COUNT * work_ms * MS)
    rows.append((done, done + MS, 0, Op.CLOSE, 0, 0, 0, cpu_ns))
    return Recording("job", "test", FILES, columns(rows), done + MS, cpu_ns=cpu_ns)


def depth_of(job: Recording) -> int:
    line = timeline(job.steps, job.files, job.duration_ns, cpu_ns=job.cpu_ns)
    found = prefetch(line, job)
    return 0 if found is None else found.ahead


@pytest.mark.parametrize("ahead", [1, 2, 4])
@pytest.mark.parametrize("read_ms", [0.1, 2.0])
def test_the_depth_of_a_prefetching_thread_is_found(ahead: int, read_ms: float) -> None:
    assert depth_of(recorded(ahead, read_ms, 5.0)) == ahead


@pytest.mark.parametrize(("read_ms", "work_ms"), [(0.1, 5.0), (5.0, 5.0), (9.0, 1.0)])
def test_reads_that_another_thread_does_in_turn_do_not_run_ahead(
    read_ms: float, work_ms: float
) -> None:
    assert depth_of(recorded(None, read_ms, work_ms)) == 0


def test_threads_that_read_and_work_themselves_do_not_run_ahead() -> None:
    job = recorded(2, 1.0, 5.0)
    job.steps.cpu_ns[job.steps.op == Op.READ] = 4 * MS
    assert depth_of(job) == 0


def seconds(job: Recording, drive_bytes_per_s: float, *, ahead: bool) -> float:
    steps = scenario_steps(job, ["f0"], ahead=ahead)
    assert sum(len(step.get("ranges_bytes", ())) for step in steps) == COUNT
    rates = {"read_bytes_per_s": drive_bytes_per_s, "write_bytes_per_s": drive_bytes_per_s}
    ideal = {"capacity_bytes": 1 << 36, "read_ns": 0, "write_ns": 0, **rates}
    disk = {"name": "disk", "filesystem": {"kind": "ext4"}, "ideal": ideal, "read_ahead_bytes": 0}
    host: dict[str, Any] = {
        "name": "node",
        "count": 1,
        "cores": 2,
        "memory_bytes": 4 << 30,
        "network": {"rate_bytes_per_s": 125e6, "latency_ns": 50_000},
        "volumes": [disk],
    }
    scenario = {
        "nodes": [host],
        "files": [{"name": "f0", "on": {"volume": "disk"}, "bytes": FILES[0].bytes}],
        "profiles": [{"name": "job", "steps": steps}],
        "run": {"profile": "job", "slots_per_node": 1, "load": {"kind": "batch", "jobs": 1}},
    }
    outcome = json.loads(_core.simulate_json(json.dumps(scenario)))
    assert not outcome["broken_off"]
    return outcome["jobs"][0]["end_ns"] * 1e-9


def test_a_simulation_overlaps_as_the_job_did() -> None:
    job = recorded(2, 4.0, 5.0)
    # Storage of the recording's speed: 4 ms of 9 are hidden behind the work, as they were.
    assert seconds(job, 250e6, ahead=True) == pytest.approx(job.duration_ns * 1e-9, rel=0.05)
    # Ten times slower: the reads alone; and one after the other, reads and work.
    slow = COUNT * 0.040
    assert seconds(job, 25e6, ahead=True) == pytest.approx(slow + 0.005, rel=0.05)
    assert seconds(job, 25e6, ahead=False) > slow + 0.8 * 0.04


@pytest.mark.parametrize("ahead", [1, 2, 4])
@pytest.mark.parametrize(
    ("begin_ms", "sleep_ms", "naps"), [(200, 0, 0), (0, 10, COUNT), (0, 3, COUNT), (50, 40, 12)]
)
def test_a_job_that_sleeps_takes_as_long_as_it_did(
    ahead: int, begin_ms: float, sleep_ms: float, naps: int
) -> None:
    job = recorded(ahead, 4.0, 5.0, begin_ms=begin_ms, sleep_ms=sleep_ms, naps=naps)
    if naps in (0, COUNT):  # with irregular sleep the depth is not certain
        assert depth_of(job) == ahead
    assert seconds(job, 250e6, ahead=True) == pytest.approx(job.duration_ns * 1e-9, rel=0.05)


def test_waiting_for_reads_is_no_sleep() -> None:
    job = recorded(2, 9.0, 2.0)
    steps = scenario_steps(job, ["f0"], ahead=True)
    slept_ns = sum(sum(step.get("wait_ns", ())) for step in steps if step["do"] == "sequence")
    assert slept_ns < 0.01 * job.duration_ns


def test_a_step_of_the_reading_thread_after_its_last_read_adds_no_work() -> None:
    job = recorded(2, 4.0, 5.0)
    last = job.steps.take(np.flatnonzero(job.steps.op == Op.READ)[-1:])
    at_ns = int(last.end_ns[0]) + MS // 100
    rows = [
        tuple(int(getattr(job.steps, name)[row]) for name in FIELDS)
        for row in range(len(job.steps))
    ]
    rows.insert(-1, (at_ns, at_ns + 1000, 1, Op.STAT, 0, 0, 0, 0))
    again = Recording("job", "test", FILES, columns(rows), job.duration_ns, cpu_ns=job.cpu_ns)
    assert seconds(again, 250e6, ahead=True) == pytest.approx(
        seconds(job, 250e6, ahead=True), rel=0.01
    )
