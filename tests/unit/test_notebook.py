"""Headrace in a notebook: what-if with a table and a figure, and the notebook of examples/."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any
from xml.etree import ElementTree

import pytest

import headrace
from headrace.errors import StudyError
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
