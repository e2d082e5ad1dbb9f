"""A study on a machine that others keep busy.

It says so, names them, and answers nothing as if they were not there.
"""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from busy import SPIN, WRITE, programs
from headrace.datasets import DatasetSpec
from headrace.datasets.store import materialise
from workspace import Workspace, small_study

# Alone: they keep the machine busy, and judge whose load it is.
pytestmark = pytest.mark.machine

WARM = 'cache = "warm"'
HOGS = 6


def text_of(page: Path) -> str:
    return " ".join(page.read_text().split())


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """A storage without a device, on which nobody's I/O can compete."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def test_a_study_under_six_cpu_hogs_says_so(workspace: Workspace, in_memory: Path) -> None:
    study = workspace.study(small_study(in_memory, events=20_000, files=1, repeats=1, run=WARM))
    # Data and the libraries of commands are there before the CPUs are shared with six others.
    data = DatasetSpec.model_validate({"events": 20_000, "files": 1})
    materialise(data, workspace.cache / "datasets")
    workspace.run("validate", study)
    with programs(workspace.place, "busy_neighbour.py", SPIN, HOGS):
        ended = workspace.measure(study)
        examined = workspace.run("doctor")
    assert ended.returncode == 5, ended.stderr
    trials = workspace.trials()
    assert len(trials) == 2
    for trial in trials:
        assert trial["status"] == "done" and not trial["validity"]["valid"]
        (told,) = trial["validity"]["reasons"]
        assert told["code"] == "foreign-load"
        assert "busy_neighbour.py" in told["text"], told
        seen = trial["interference"]
        assert seen["lost_share"] > 0.1 and seen["foreign_s"] > seen["jobs_s"]
    said = " ".join(ended.stdout.split())
    assert "feeds" not in said and "No trial can be trusted" in said, said
    assert "2 trials are left out because other programs" in said and "busy_neighbour.py" in said
    assert "Interference" in said
    page = text_of(workspace.place / "results" / "report.html")
    assert 'id="interference"' in page and "busy_neighbour.py" in page
    workspace.run("report", "results", "--format", "csv")
    rows = list(csv.DictReader((workspace.place / "results" / "report.csv").open()))
    (lost,) = [
        row for row in rows if (row["about"], row["metric"]) == ("interference", "lost_share")
    ]
    assert float(lost["value"]) > 0.1 and "busy_neighbour.py" in lost["note"]
    assert "other programs use" in examined.stdout and "busy_neighbour.py" in examined.stdout, (
        examined.stdout
    )


def test_programs_that_write_to_the_same_device_are_told_of(workspace: Workspace) -> None:
    """Needs root, to know what programs of others write.

    Jobs here neither read nor write the device.
    """
    sustained = f'{WARM}\nload = "sustained"\nduration = "1 s"'
    text = small_study(events=20_000, files=1, repeats=1, run=sustained)
    study = workspace.study(text.replace("[1, 2]", "[1]"))
    with programs(workspace.place, "busy_writer.py", WRITE, 1, str(workspace.place / "written")):
        ended = workspace.measure(study)
    assert ended.returncode == 5, ended.stderr
    reasons = [reason for trial in workspace.trials() for reason in trial["validity"]["reasons"]]
    told = [reason["text"] for reason in reasons if reason["code"] == "competing-io"]
    assert any("busy_writer.py" in text for text in told), reasons
