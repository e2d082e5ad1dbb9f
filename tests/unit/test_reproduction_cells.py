"""Unit: cells of a reproduction. Jobs that do not end are told and are no number; repeats are one run behind the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.reproduce.cells import Cell, run_cells

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


def test_repeats_are_other_runs_and_count_together(tmp_path: Path) -> None:
    path = written(tmp_path, 'load = "batch"')

    def cell(plan: str) -> Cell:
        path.write_text(path.read_text().split("[plan]")[0] + f"[plan]\n{plan}\n")
        (found,) = run_cells([path])
        return found

    both = cell("repeats = { min = 2 }")
    first, second = cell("repeats = { min = 1 }"), cell("repeats = { min = 1 }\nseed = 2")
    assert first.jobs != second.jobs
    assert both.jobs == first.jobs + second.jobs
    assert both.drives == first.drives + second.drives
    for field in ("end_s", "busy_core_s", "nodes_j", "servers_j", "total_j", "requests"):
        assert getattr(both, field) == pytest.approx(getattr(first, field) + getattr(second, field))
    assert min(first.cpu_use, second.cpu_use) <= both.cpu_use <= max(first.cpu_use, second.cpu_use)
