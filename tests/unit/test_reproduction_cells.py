"""Unit: a cell of a reproduction whose jobs do not end is told, and is no number."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.reproduce.cells import run_cells

STUDY = """
headrace = 1
title = "Two slots"

[target.local]
kind = "block"
drive = "wd-wd3200bekt"

[workload.tau]
kind = "replay"
profile = "cms-tau-analysis-sample"

[run]
slots = 2
{load}

[plan]
repeats = { min = 1 }
"""


def written(tmp_path: Path, load: str) -> Path:
    path = tmp_path / "cells.toml"
    path.write_text(STUDY.replace("{load}", load))
    return path


def test_jobs_that_do_not_end_are_told(tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match=r"cells: local tau .* 2 jobs did not end"):
        run_cells([written(tmp_path, 'load = "sustained"\nduration = "3 s"')])


def test_jobs_that_end_are_counted(tmp_path: Path) -> None:
    cells = list(run_cells([written(tmp_path, 'load = "batch"')]))
    assert [len(cell.jobs) for cell in cells] == [2]
