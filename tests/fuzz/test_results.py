"""Damaged results folders: a report, or an error that names the folder.

A damaged record is left out and named.
"""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from headrace import library
from headrace.analysis.find import find
from headrace.analysis.read import read
from headrace.report.terminal import print_report
from headrace.workloads.mdtest.imported import read_results
from mutations import FOREIGN, damaged_bytes, damaged_json, fuzz, refused_by_name

OF_0_1 = Path(__file__).parents[1] / "golden" / "results-0.1"
STUDY = """
headrace = 1
[target.disk]
kind = "block"
drive = "samsung-870-evo-1tb"
[workload.read]
kind = "sequential"
file_size = "1 MiB"
[workload.files]
kind = "metadata"
items = 10
[factors]
slots = [1, 2]
[plan]
repeats = { min = 1 }
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Results of this version, and of 0.1."""
    study = tmp_path_factory.mktemp("simulated") / "study.toml"
    study.write_text(STUDY)
    return [library.simulate(study, study.parent / "results"), OF_0_1]


def reported(folder: Path) -> None:
    """All that reads a results folder and writes nothing."""
    text = io.StringIO()
    records = read(folder)
    print_report(find(records), Console(file=text, width=80))
    foreign = [words for words in FOREIGN if words in text.getvalue()]
    assert not foreign, f"{foreign} in the report"


@fuzz(40)
@given(data=st.data())
def test_damaged_results_are_reported_or_refused_by_name(
    data: st.DataObject, folders: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    original = data.draw(st.sampled_from(folders))
    files = sorted(file.relative_to(original) for file in original.rglob("*") if file.is_file())
    parts = [file for file in files if file.suffix in (".json", ".parquet", ".toml")]
    file = data.draw(st.sampled_from([*parts, *(part for part in parts if part.suffix == ".json")]))
    raw = (original / file).read_bytes()
    folder = tmp_path_factory.getbasetemp() / "damaged results"
    shutil.copytree(original, folder)
    try:
        if file.suffix == ".json" and data.draw(st.booleans()):
            (folder / file).write_text(json.dumps(data.draw(damaged_json(json.loads(raw)))))
        elif data.draw(st.integers(0, 9)):
            (folder / file).write_bytes(data.draw(damaged_bytes([raw])))
        else:
            (folder / file).unlink()
        refused_by_name(lambda: reported(folder), folder)
        refused_by_name(lambda: read(folder).jobs, folder)
        refused_by_name(lambda: read_results(folder), folder)
    finally:
        shutil.rmtree(folder)


def test_a_damaged_table_of_jobs_is_named(folders: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "results"
    shutil.copytree(folders[0], folder)
    jobs = sorted(folder.glob("trials/*/jobs.parquet"))[0]
    jobs.write_bytes(b"PAR1" + bytes(100) + b"\x10\0\0\0PAR1")
    error = refused_by_name(lambda: read(folder).jobs, jobs)
    assert error is not None
    assert "cannot read the jobs" in str(error)


@pytest.mark.parametrize("header", [[], {"title": None}, {"base": 3}, {"schema": {}}], ids=str)
def test_a_damaged_header_is_named(folders: list[Path], tmp_path: Path, header: object) -> None:
    folder = tmp_path / "results"
    shutil.copytree(folders[0], folder)
    file = folder / "results.json"
    whole = json.loads(file.read_text())
    file.write_text(json.dumps({**whole, **header} if isinstance(header, dict) else header))
    assert refused_by_name(lambda: reported(folder), folder) is not None
