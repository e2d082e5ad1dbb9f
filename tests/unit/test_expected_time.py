"""What a plan is expected to take, by what its trials took here before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.engine.estimate import estimate, expect
from headrace.engine.timing import FILE, TimedObserver, read_timings
from headrace.library import Silent, load_study
from headrace.plan.expected import Timings

STUDY = """headrace = 1
title = "t"
[target.here]
kind = "path"
path = "{folder}"
[workload.write]
kind = "command"
command = ["true"]
[factors]
slots = {slots}
"""


def study_of(folder: Path, slots: str = "[1, 2]") -> Path:
    path = folder / "study.toml"
    path.write_text(STUDY.format(folder=folder, slots=slots))
    return path


def test_trials_that_were_timed_take_what_they_took_and_others_as_many_times_the_model(
    tmp_path: Path,
) -> None:
    loaded = load_study(study_of(tmp_path))
    plan = loaded.plan()
    expectation = expect(loaded.study, plan)
    before = expectation.left_s(Timings())
    modelled = {each.key: each.modelled_s for each in expectation.trials.values()}
    assert before == pytest.approx(sum(each.modelled_s for each in expectation.trials.values()))
    first, second = modelled
    timings = Timings({first: [3 * modelled[first]] * 3})
    assert expectation.left_s(timings) == pytest.approx(3 * before)
    timings.add(second, 7.0)
    at_second = sum(each.key == second for each in expectation.trials.values())
    left = (len(plan.trials) - at_second) * 3 * modelled[first] + at_second * 7.0
    assert expectation.left_s(timings) == pytest.approx(left)
    done = [index for index, each in expectation.trials.items() if each.key == first]
    assert expectation.left_s(timings, done) == pytest.approx(at_second * 7.0)
    assert "took here before" in estimate(loaded.study, plan, timings).basis


@pytest.mark.slow
def test_a_run_teaches_the_next_plan(tmp_path: Path) -> None:
    study, cache = study_of(tmp_path), tmp_path / "cache"
    loaded = load_study(study)
    loaded.run(tmp_path / "results", cache_dir=cache)
    timings = read_timings(cache)
    plan = loaded.plan()
    guess = estimate(loaded.study, plan, timings)
    assert guess.basis == "what such trials took here before"
    recorded = [
        json.loads(path.read_text())["duration_s"]
        for path in (tmp_path / "results").glob("trials/*/trial.json")
    ]
    assert len(recorded) == len(plan.trials)
    assert len(recorded) * min(recorded) <= guess.seconds <= len(recorded) * 10 * max(recorded)
    more = load_study(study_of(tmp_path, "[1, 2, 4]"))
    assert "for 6 of 9" in estimate(more.study, more.plan(), timings).basis


def test_the_time_left_is_told_and_comes_to_nothing(tmp_path: Path) -> None:
    class Told(Silent):
        left_s: list[float]

        def __init__(self) -> None:
            self.left_s = []

        def time_left(self, seconds: float) -> None:
            self.left_s.append(seconds)

    told = Told()
    loaded = load_study(study_of(tmp_path))
    loaded.run(tmp_path / "results", observer=told, cache_dir=tmp_path / "cache")
    assert len(told.left_s) == 1 + len(loaded.plan().trials)
    assert told.left_s[0] > 0 and told.left_s[-1] == 0


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"version": 1}', '{"version": 1, "seconds": {"a": ["b"]}}']
)
def test_a_damaged_file_is_as_none(tmp_path: Path, damage: str) -> None:
    (tmp_path / FILE).write_text(damage)
    assert read_timings(tmp_path).seconds == {}


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    loaded = load_study(study_of(tmp_path))
    (tmp_path / "file").write_text("")
    plan = loaded.plan()
    observer = TimedObserver(Silent(), expect(loaded.study, plan), tmp_path / "file" / "cache", ())
    observer.started(len(plan.trials), 0)
    for trial in plan.trials:
        observer.trial_started(trial, 1)
        observer.trial_finished(trial, "done", [], "")
    observer.keep()
    assert (tmp_path / "file").read_text() == ""
