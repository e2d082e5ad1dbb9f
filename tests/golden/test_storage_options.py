"""storage-options reproduced: the figures reached are held; they may get better, not worse."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from headrace.reproduce.cells import ObtainedCells
from headrace.reproduce.published import Finding, Number, published
from headrace.reproduce.storage_options import STUDY
from reproductions import cells as cells_of


@pytest.fixture
def cells(shared_folder: Path) -> ObtainedCells:
    return cells_of(STUDY.id, shared_folder)


@pytest.fixture
def numbers(cells: ObtainedCells) -> list[Number]:
    return STUDY.numbers(cells, published(STUDY.id))


@pytest.fixture
def findings(cells: ObtainedCells) -> list[Finding]:
    return STUDY.findings(cells, published(STUDY.id))


def test_every_job_ends(cells: ObtainedCells) -> None:
    for cell in cells:
        assert cell.per_job("wall_s") > 0, cell.levels
        assert all(record.verdict == "done" for record in cell.records), cell.levels


def test_calibrated_numbers_are_met(numbers: list[Number]) -> None:
    assert max(abs(each.error) for each in numbers if each.role == "calibrate") < 0.05


def test_predicted_rates(numbers: list[Number]) -> None:
    errors = [
        abs(each.error)
        for each in numbers
        if each.role == "predict" and each.error_in == "relative"
    ]
    assert len(errors) == 15
    assert median(errors) < 0.11
    assert sum(error <= 0.25 for error in errors) >= 13


def test_bytes_moved(numbers: list[Number]) -> None:
    assert max(abs(each.error) for each in numbers if each.table == "bytes-moved") < 0.08


def test_findings_that_hold(findings: list[Finding]) -> None:
    held = {finding.id for finding in findings if finding.holds}
    assert held >= {
        "lustre-best-skim",
        "lustre-reads-too-much",
        "lustre-vm-write",
        "hadoop-replicas",
        "orangefs-name-nodes",
        "hadoop-metadata",
    }
