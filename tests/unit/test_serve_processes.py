"""Processes of `headrace serve` in a folder whose files have the names of libraries."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import msgspec
import pytest

from headrace.serving.folders import results_folders
from headrace.serving.runs import Runs, study_files
from headrace.serving.simulating import SimulatedPoint, SimulationRequest, main
from headrace.serving.what_if_site import offered_sites
from headrace.serving.what_if_study import Question, recorded_profiles, study_of
from headrace.serving.worker import WhatIfWorker
from headrace.system.own_programs import own_code
from headrace.system.waiting import wait_until
from synthetic_records import Truth, plan_of, write_results


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
        assert "allowed: replicas of 1 to 2, or more servers" in run.problem
        assert ".toml" not in run.problem
    finally:
        worker.close()


def test_a_study_is_started(folder: Path) -> None:
    (folder / "a study.toml").write_text(study_of(Question(most_slots=1), folder).text)
    run = Runs(folder).start("a study.toml", "simulate")
    assert wait_until(lambda: run.state != "running", 60, 0.05)
    assert run.state == "finished", run.said


def test_a_title_of_any_letters_is_in_the_study(tmp_path: Path) -> None:
    """TOML has no escapes for halves of a letter, as JSON has."""
    folder = write_results(
        tmp_path / "r", plan_of([{"target": "d", "workload": "scan", "slots": 1}], 1), Truth(),
        title="farm \U0001f680", study_text='[workload.scan]\nkind = "scan"\n', series=False,
    )  # fmt: skip
    text = study_of(Question(job=f"study/scan/{folder.name}"), tmp_path).text
    assert "farm \U0001f680" in tomllib.loads(text)["title"]


def test_names_that_no_page_can_show_are_left_out(tmp_path: Path) -> None:
    even, odd = tmp_path / "even", tmp_path / os.fsdecode(b"odd\xff")
    cells = [{"target": "d", "workload": "scan", "slots": 1}]
    write_results(even, plan_of(cells, 1), Truth(), series=False)
    shutil.copytree(even, odd)  # Arrow writes no file of such a name
    for place in (even, odd):
        place.with_suffix(".toml").write_text("headrace = 1\n[outline]\n[site]\nnode = 1\n")
    assert [each.name for each in results_folders(tmp_path)] == ["even"]
    assert [*study_files(tmp_path)] == ["even.toml"]
    assert recorded_profiles(tmp_path) == ["even.toml"]
    assert offered_sites(tmp_path)[2][1] == [("file/even.toml", "even.toml")]


_AS_ANOTHER_USER = """
import os, sys
from pathlib import Path
from headrace.errors import HeadraceError
from headrace.profiles.programs import find_program
from headrace.serving.folders import named_folder, results_folders
from headrace.serving.listening import ServeOptions, listen
if os.geteuid() == 0:
    os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
root = Path(sys.argv[1])
print([each.name for each in results_folders(root)])
within = root / "lost+found" / "x"
for refused in (
    lambda: named_folder(root, "lost+found"),
    lambda: listen(ServeOptions(within)),
    lambda: listen(ServeOptions(root, certificate=within, key=within)),
    lambda: find_program(str(within)),
):
    try:
        refused()
    except HeadraceError as error:
        print(error.message)
"""


def test_a_folder_that_may_not_be_searched_is_left_out() -> None:
    """A mounted file system has one, lost+found; colleagues have others."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        cells = [{"target": "d", "workload": "scan", "slots": 1}]
        write_results(root / "mine", plan_of(cells, 1), Truth(), series=False)
        (root / "lost+found").mkdir(0)
        said = subprocess.run(
            [sys.executable, "-c", _AS_ANOTHER_USER, folder],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    lines = said.stdout.splitlines()
    assert said.returncode == 0, said.stderr
    assert lines[0] == "['mine']" and len(lines) == 5, lines


def test_a_question_that_nobody_waits_for_is_not_begun() -> None:
    """After ten quick changes of the page, the eleventh answer waited for ten studies' files."""
    asked = [SimulationRequest(5), SimulationRequest(5, "no study")]
    made = subprocess.run(
        own_code(f"from {main.__module__} import main; main()"),
        input=b"".join(msgspec.json.encode(each) + b"\n" for each in asked),
        stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    answers = [msgspec.json.decode(line, type=SimulatedPoint) for line in made.stdout.splitlines()]
    assert answers == [SimulatedPoint(5, end=True)]
