"""Unit: `headrace.sweep`, many studies simulated without records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import headrace
from headrace.analysis.read import read
from headrace.engine.simulate.simulator import Cores
from headrace.whatif.sweep import sweep

STUDY = """
headrace = 1
[target.local]
kind = "block"
drive = "sata-7200-500gb"
[workload.read]
kind = "replay"
profile = "iozone-read"
data = { files = 2, file_size = "4 MB" }
[factors]
drive = ["sata-7200-500gb", "wd-wd3200bekt"]
[plan]
repeats = { min = 2 }
"""
SLOWER = STUDY.replace("4 MB", "8 MB")
UNKNOWN_DRIVE = STUDY.replace('"sata-7200-500gb"\n', '"sata-7201"\n')


def test_a_sweep_has_the_metrics_that_the_records_have(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    results = headrace.simulate(tmp_path / "study.toml", tmp_path / "results")
    recorded = {
        (row["index"], name): value
        for row in read(results).trials.to_dict("records")
        for name, value in row["metrics"].items()
    }
    (found,) = headrace.sweep([STUDY], base=tmp_path)
    swept = {
        (each.trial.index, name): value
        for each in found.trials
        for name, value in each.metrics.items()
    }
    assert len(found.trials) == 4
    assert swept == recorded
    assert not any(each.problem for each in found.trials)


def test_a_study_that_is_not_valid_ends_nothing(tmp_path: Path) -> None:
    found = list(headrace.sweep([STUDY, UNKNOWN_DRIVE, SLOWER], base=tmp_path))
    assert [each.number for each in found] == [0, 1, 2]
    assert [len(each.trials) for each in found] == [4, 0, 4]
    assert "sata-7201" in found[1].problem
    first, last = found[0].trials[0].metrics, found[2].trials[0].metrics
    assert last["wall_s"] > first["wall_s"]


def test_results_come_while_other_studies_are_to_come(tmp_path: Path) -> None:
    taken: list[int] = []

    def texts() -> Iterator[str]:
        for number in range(5):
            taken.append(number)
            yield STUDY

    simulator = Cores()
    simulator.at_once = 1
    next(sweep(texts(), tmp_path, simulator))
    assert taken == [0]
    assert list(sweep(texts(), tmp_path, simulator, lambda: True)) == []
