"""Golden: how well three of the four studies are reproduced (cluster-energy has a file of its own).
A ratchet: these figures were reached, and may only get better. They began anew, lower, when
values picked with predicted rows in sight were set again from sources (docs/reproduce.md).
storage-options began anew when its servers were described once, not by a rate for each storage.
worker-node-ssd lost `remote-helps-only-the-cheap-ssd`, which had held by one point, to a better
fit of its calibrate rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.cli.reproduce import publish
from headrace.reproduce import MODULES, summary
from headrace.reproduce.origins import KINDS, ORIGINS
from headrace.reproduce.published import published
from reproductions import reproduced

# Median error, share within 25 %, median in points, share within 3 points: at most, at least, at
# most, at least.
REACHED: dict[str, tuple[float, float, float | None, float | None]] = {
    "proof-ssd": (0.10, 0.8, None, None),
    "worker-node-ssd": (0.05, 1.0, 0.045, 0.35),
    "storage-options": (0.5, 0.4, 0.02, 0.75),
}
HOLD: dict[str, set[str]] = {
    "proof-ssd": {
        "scan-ssd-order-of-magnitude",
        "scan-hdd-ceiling",
        "scan-ssd-levels-at-cores",
        "analysis-hdd-peaks-at-2",
        "analysis-ssd-up-to-10x",
        "scan-ssd-raid-no-gain",
        "scan-hdd-raid-doubles",
        "analysis-raid-levels-at-10",
        "analysis-hdd-raid-peaks-at-3",
        "hdd-raid-no-help-beyond-4",
        "ssd-raid-10-to-20",
        "farm-sums",
    },
    "worker-node-ssd": {
        "raid0-best",
        "cheap-ssd-worse-than-hdd",
        "ssd-falls-with-slots",
        "mixed-writes-hurt-ssd",
        "remote-below-single-job",
        "reordering-cuts-seeks",
        "price-factor",
    },
    "storage-options": {
        "lustre-reads-too-much",
        "hadoop-replicas",
        "orangefs-name-nodes",
        "hadoop-metadata",
    },
}


def at_most(value: float | None, bound: float) -> bool:
    return value is not None and value <= bound


def at_least(value: float | None, bound: float) -> bool:
    return value is not None and value >= bound


@pytest.mark.parametrize("study", REACHED)
def test_predicted_numbers_meet_what_was_reached(study: str, shared_folder: Path) -> None:
    reached = summary(reproduced(study, shared_folder))
    median, within, points, within_points = REACHED[study]
    assert at_most(reached["median_error"], median)
    assert at_least(reached["within_25_percent"], within)
    if points is not None and within_points is not None:
        assert at_most(reached["median_points"], points)
        assert at_least(reached["within_3_points"], within_points)


@pytest.mark.parametrize("study", HOLD)
def test_findings_hold(study: str, shared_folder: Path) -> None:
    findings = reproduced(study, shared_folder).findings
    assert {finding.id for finding in findings} == set(published(study).findings)
    assert {finding.id for finding in findings if finding.holds} >= HOLD[study]
    assert all(finding.why for finding in findings)


@pytest.mark.parametrize("study", MODULES)
def test_every_finding_says_what_it_rests_on(study: str) -> None:
    assert set(ORIGINS[study]) == set(published(study).findings)
    assert all(origin.kind in KINDS and origin.why for origin in ORIGINS[study].values())


@pytest.mark.parametrize("study", REACHED)
def test_predicted_numbers_have_a_null_model(study: str, shared_folder: Path) -> None:
    result = reproduced(study, shared_folder)
    without = {each.column for each in result.predicted if each.null_error is None}
    assert without <= {"price_per_gb_gbp"}  # price over capacity: both are inputs
    assert all(each.null_error is None for each in result.numbers if each.role == "calibrate")
    # The error of the obtained value is what the null model's is computed as.
    for number in result.predicted:
        assert number.error_of(number.obtained) == pytest.approx(number.error, abs=1e-9)


@pytest.mark.parametrize("study", REACHED)
def test_nothing_is_fitted_to_a_predict_row(study: str) -> None:
    source = published(study)
    for parameter in MODULES[study].parameters:
        table, *rows = parameter.rows.replace(",", " ").split()
        assert table in source.tables, parameter.rows
        numbers = [int(word) for word in rows if word.isdigit()]
        columns = [*source.tables[table].columns]
        for row in numbers or range(len(source.tables[table].rows)):
            roles = {source.tables[table].role_of(row, column) for column in columns}
            assert "calibrate" in roles, f"{parameter.name}: {table} row {row}"


@pytest.mark.parametrize("study", REACHED)
def test_every_published_value_is_there(study: str, shared_folder: Path) -> None:
    """Each row of each table that holds rates, efficiencies or prices has a number beside it."""
    source = published(study)
    there = {(number.table, number.row) for number in reproduced(study, shared_folder).numbers}
    for table in source.tables.values():
        for row in range(len(table.rows)):
            assert (table.id, row) in there, f"{table.id} row {row}"


def test_the_command_prints_the_promised_json_and_writes_a_page(
    shared_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    publish([reproduced("proof-ssd", shared_folder)], page, as_json=True, numbers=False)
    printed = capsys.readouterr().out
    (study,) = json.loads(printed)["studies"]
    assert study["id"] == "proof-ssd"
    assert {"parameter", "value", "unit", "rows"} <= set(study["fitted"][0])
    assert {"table", "row", "column", "unit", "published", "obtained", "error", "role"} <= set(
        study["numbers"][0]
    )
    wanted = {"id", "holds", "why", "origin", "origin_why"}
    assert all(wanted <= set(finding) for finding in study["findings"])
    assert {finding["origin"] for finding in study["findings"]} == {
        "predicted",
        "built in",
        "chosen",
    }
    assert study["summary"]["null_median_error"] == pytest.approx(0.25)
    assert "Infinity" not in printed
    assert len(study["findings"]) == 13
    text = page.read_text()
    assert text.count("<svg") == 2
    assert "does not hold" in text
    assert "Null model: as many workers" in text
    assert "matplotlib.org" not in text


def test_the_command_prints_findings_in_words(
    shared_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = reproduced("proof-ssd", shared_folder)
    publish([result], tmp_path / "page.html", as_json=False, numbers=True)
    printed = " ".join(capsys.readouterr().out.split())
    assert all(finding.id in printed for finding in result.findings)
    assert f"of {len(result.findings)} findings hold" in printed
