"""Headrace in a notebook: what-if with a table and a figure, and the notebook of examples/."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import headrace
from headrace.catalog.load import ROOT as CATALOG
from headrace.errors import StudyError, UsageError
from headrace.profiles.importing import read
from headrace.profiles.steps import save
from workspace import ROOT

NOTEBOOK = ROOT / "examples" / "notebook" / "what_if.ipynb"


def test_the_notebook_runs_cell_by_cell(capsys: pytest.CaptureFixture[str]) -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    namespace: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), namespace)
    assert "[workload.job]" in capsys.readouterr().out
    found = namespace["found"]
    table = found.table
    assert len(table) == 6 and set(table["slots"]) == {1, 2, 4}
    assert set(table["efficiency"].between(0, 1)) == {True}
    shown = found._repr_html_()
    assert "<table" in shown and "simulated" in shown
    picture = ElementTree.fromstring(found.figure)
    assert picture.tag.endswith("svg")
    shows_results(namespace)


def shows_results(namespace: dict[str, Any]) -> None:
    """Findings, records and verdicts show themselves, as IPython asks them to."""
    findings, results = namespace["findings"], namespace["results"]
    shown = findings._repr_html_()
    assert findings.title in shown and "<svg" in shown
    assert shown.count("<tr") == 1 + len(findings.table) == 7
    assert "efficiency" in findings.table.columns
    records = headrace.records(results)
    assert "<table" in records._repr_mimebundle_()["text/html"]
    for made in (headrace.gate(results, results), headrace.compare(results, results)):
        shown = made._repr_html_()  # pyright: ignore[reportPrivateUsage]
        assert shown.count("<tr") == 1 + len(made.table) >= 7
    for value, name in ((findings, "figure"), (findings, "curves"), (namespace["found"], "table")):
        assert name in dir(value), "tab completion"
    assert repr(findings).startswith("ShownFindings(")


def test_what_if_with_a_recorded_job(tmp_path: Path) -> None:
    """A profile by its path, with or without its suffix, gives what a study of it gives."""
    save(read(ROOT / "tests" / "golden" / "imports" / "strace-y.txt", "job", None),
         tmp_path / "job.toml")  # fmt: skip
    found = headrace.what_if(tmp_path / "job.toml", drives=["wd-wd3200bekt"], slots=[1, 2])
    assert list(found.table["slots"]) == [1, 2]
    assert found.metric == "asked_bytes_per_s", "it counts no events"
    again = headrace.what_if(tmp_path / "job", drives=["wd-wd3200bekt"], slots=[1, 2])
    assert again.table.equals(found.table)
    (tmp_path / "study.toml").write_text(found.study)
    results = headrace.simulate(tmp_path / "study.toml", tmp_path / "results")
    assert headrace.report(results, ())[0].table.equals(found.table)
    with pytest.raises(StudyError):
        headrace.what_if(tmp_path / "none.toml", slots=[1])


def test_one_drive_and_one_number_need_no_list() -> None:
    one = headrace.what_if("cms-tau-analysis", drives="wd-wd3200bekt", slots=1)
    assert (
        one.study == headrace.what_if("cms-tau-analysis", drives=["wd-wd3200bekt"], slots=[1]).study
    )
    with pytest.raises(UsageError, match="drives: at least one"):
        headrace.what_if("cms-tau-analysis", drives=[], slots=[1])
    with pytest.raises(UsageError, match="slots: at least one"):
        headrace.what_if("cms-tau-analysis", slots=[])


def test_numbers_of_numpy_and_a_single_path_are_taken(tmp_path: Path) -> None:
    job, disk = "cms-tau-analysis-sample", CATALOG / "drives" / "wd-wd3200bekt.toml"
    text = headrace.what_if(job, drives="wd-wd3200bekt", slots=[1, 2], nodes=2).study
    for slots in (np.array([1, 2]), 2 ** np.arange(2), range(1, 3), (each for each in (1, 2))):
        found = headrace.what_if(job, drives="wd-wd3200bekt", slots=slots, nodes=np.int64(2))
        assert found.study == text
    assert list(headrace.what_if(job, drives=disk, slots=np.int64(2)).table["slots"]) == [2]


@pytest.mark.parametrize("wrong", ["16", 2.0, [1, 2.5], ["4"], True, [True], None, np.float64(2)])
def test_what_is_no_whole_number_is_refused(wrong: Any) -> None:
    """The text "16" is not the two numbers 1 and 6."""
    with pytest.raises(UsageError, match=r"slots: must be a whole number \(given: "):
        headrace.what_if("cms-tau-analysis-sample", slots=wrong)
    if not isinstance(wrong, list):
        with pytest.raises(UsageError, match=r"nodes: must be a whole number \(given: "):
            headrace.what_if("cms-tau-analysis-sample", slots=1, nodes=wrong)


def test_jobs_that_share_files_are_told(tmp_path: Path) -> None:
    """As on the what-if page: those that read the same file get it from memory."""
    found = headrace.what_if("proof-bench-scan", drives="wd-wd3200bekt", slots=[1, 2])
    assert found.note.startswith("This profile has the same files for up to 2 jobs at once: ")
    assert found.note.replace("'", "&#x27;") in getattr(found, "_repr_html_")()  # noqa: B009
    alone = headrace.what_if("proof-bench-scan", drives="wd-wd3200bekt", slots=1)
    assert alone.note == ""
    # A profile of one's own may say that its files are shared, too.
    shared = (CATALOG / "profiles" / "proof-bench-scan.toml").read_text()
    (tmp_path / "mine.toml").write_text(shared)
    own = headrace.what_if(tmp_path / "mine.toml", drives="wd-wd3200bekt", slots=[1, 2])
    assert own.note == found.note


def test_what_cannot_be_simulated_is_said() -> None:
    for job, drives in (("no-such-job", ["wd-wd3200bekt"]), ("cms-tau-analysis", ["no-drive"])):
        with pytest.raises(StudyError):
            headrace.what_if(job, drives=drives, slots=[1])


def test_tab_completion_has_what_if_and_importing_stays_cheap() -> None:
    assert {"what_if", "gate", "compare"} <= set(dir(headrace))
    script = "import sys, headrace; print([n for n in ('pandas', 'numpy') if n in sys.modules])"
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "[]"


def test_files_of_drives_are_relative_to_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive = (CATALOG / "drives" / "wd-wd3200bekt.toml").read_text()
    (tmp_path / "mine.toml").write_text(drive)
    monkeypatch.chdir(tmp_path)
    for given in ("mine.toml", [Path("mine.toml")]):
        found = headrace.what_if("cms-tau-analysis-sample", drives=given, slots=1)
        assert list(found.table["slots"]) == [1]


def test_problems_name_no_file_that_nobody_wrote() -> None:
    with pytest.raises(headrace.HeadraceError, match=r"^what_if: drives: there is no drive"):
        headrace.what_if("cms-tau-analysis-sample", drives="nope", slots=1)
    with pytest.raises(headrace.HeadraceError, match="job: '' is not a profile"):
        headrace.what_if("")


def test_a_problem_of_one_argument_is_said_once_and_names_it() -> None:
    with pytest.raises(StudyError) as error:
        headrace.what_if("cms-tau-analysis", drives="corsair-f40", slots=1, shared_link="wrong")
    (problem,) = error.value.problems
    assert problem.field == "shared_link" and "no link of this name" in problem.problem
    with pytest.raises(StudyError) as error:
        headrace.what_if("no-such-job", drives=["no-drive"], slots=[0], nodes=0)
    assert [each.field for each in error.value.problems] == ["nodes", "drives", "job", "slots"]


def test_a_drive_that_is_named_twice_is_refused_whatever_the_link_is() -> None:
    twice = ["corsair-f40", "corsair-f40"]
    for link in (None, "10 GbE"):
        with pytest.raises(UsageError, match="drives: duplicate corsair-f40"):
            headrace.what_if("cms-tau-analysis", drives=twice, slots=1, shared_link=link)
