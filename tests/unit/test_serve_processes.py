"""Processes of `headrace serve` in a folder whose files have the names of libraries."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.serving.runs import Runs
from headrace.serving.what_if_study import Question, study_of
from headrace.serving.worker import WhatIfWorker
from headrace.system.waiting import wait_until


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("msgspec", "typer", "json"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a file of the user')\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_if_is_simulated(folder: Path) -> None:
    worker = WhatIfWorker()
    try:
        study = study_of(Question(most_slots=1), folder)
        run = worker.ask(study.text, str(study.base))
        assert wait_until(lambda: run.ended, 60, 0.05)
        assert run.problem == "" and run.points[0].events_per_s
    finally:
        worker.close()


def test_what_cannot_be_simulated_is_said_in_the_words_of_the_form(folder: Path) -> None:
    """CephFS keeps three copies, for which two servers are too few."""
    worker = WhatIfWorker()
    try:
        study = study_of(Question(most_slots=2, where="cephfs", servers=2), folder)
        run = worker.ask(study.text, str(study.base))
        assert wait_until(lambda: run.ended, 60, 0.05)
        assert not run.points and "replicas" in run.problem
        assert "allowed: at most one a target (2)" in run.problem
        assert ".toml" not in run.problem
    finally:
        worker.close()


def test_a_study_is_started(folder: Path) -> None:
    (folder / "a study.toml").write_text(study_of(Question(most_slots=1), folder).text)
    run = Runs(folder).start("a study.toml", "simulate")
    assert wait_until(lambda: run.state != "running", 60, 0.05)
    assert run.state == "finished", run.said
