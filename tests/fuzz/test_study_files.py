"""Damaged study files: a plan, or an error that names the file.

Never another exception, never without end.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from headrace.engine.estimate import estimate
from headrace.library import load_study
from mutations import damaged_text, fuzz, refused_by_name
from odd_studies import STUDIES, odd_study


def planned(file: Path) -> None:
    study = load_study(file)
    estimate(study.study, study.plan())


def check(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzzed study.toml"
    file.write_text(text)
    refused_by_name(lambda: planned(file), file)


@fuzz(300)
@given(text=damaged_text([file.read_text() for file in STUDIES]))
def test_a_damaged_study_is_planned_or_refused_by_name(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    check(text, tmp_path_factory)


@fuzz(150)
@given(text=odd_study())
def test_a_study_with_odd_fields_is_planned_or_refused_by_name(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    check(text, tmp_path_factory)


QUICK = """
headrace = 1
[target.nas]
kind = "nfs"
export = {{ size = "1 GiB"{export} }}
[workload.read]
kind = "sequential"
file_size = "4 MiB"
[run]
cache = "as-is"
{run}
"""


@pytest.mark.parametrize(
    ("export", "run", "told"),
    [
        (
            "",
            "nodes = 2147483648",
            "run.nodes: is too large (given: 2147483648); allowed: at most 10000",
        ),
        ("", "slots = 9_000_000_000", "run.slots: is too large"),
        ("", "nodes = 10_000\nslots = 10_000", "100000000 jobs at once; at most 1000000"),
        (', filesystem = "ext5"', "", 'export.filesystem: no such filesystem; did you mean "ext'),
    ],
)
def test_what_no_machine_or_model_has_is_refused_with_its_line(
    tmp_path: Path, export: str, run: str, told: str
) -> None:
    file = tmp_path / "study.toml"
    file.write_text(QUICK.format(export=export, run=run))
    error = refused_by_name(lambda: planned(file), file)
    assert error is not None
    assert told in str(error)
    assert f"{file}:" in str(error)


def test_levels_that_cannot_be_had_together_are_told_in_words_of_the_study(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    levels = "[factors]\nnodes = [1, 5000]\nslots = [1, 5000]\n"
    file.write_text(QUICK.format(export="", run="") + levels)
    error = refused_by_name(lambda: planned(file), file)
    assert error is not None
    assert "these levels cannot be combined: 5000 nodes with 5000 slots each" in str(error)
