"""The history of a study: what changed between its runs, and what got worse or better then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.analysis.history import StudyHistory, history
from headrace.analysis.read import read
from synthetic_records import ENVIRONMENT, Truth, plan_of, write_results

CELLS: list[dict[str, Any]] = [
    {"target": "disk", "workload": "higgs", "slots": slots} for slots in (1, 4)
]
STUDY = 'headrace = 1\ntitle = "Farm"\n[run]\ncache = "cold"\n'


def month(folder: Path, number: int, *, study: str = STUDY, **truth: Any) -> Path:
    """Results of one month, with five repeats and a scatter of 1 %."""
    return write_results(
        folder / f"m{number}", plan_of(CELLS, 5), Truth(trial_sigma=0.01, **truth),
        seed=number, study_text=study, series=False, title="Farm",
        created_utc=f"2026-0{number}-01T00:00:00+00:00",
    )  # fmt: skip


def verdicts(found: StudyHistory, run: int) -> set[str | None]:
    return {each.points[run].verdict for each in found.cells}


def test_changes_stand_beside_what_got_worse_or_better(tmp_path: Path) -> None:
    newer = {**ENVIRONMENT, "kernel": "6.12.0"}
    runs = [
        month(tmp_path, 1),
        month(tmp_path, 2),
        month(tmp_path, 3, environment=newer, device_bytes_per_s=50e6, cpu_s=8.0),
        month(tmp_path, 4, environment=newer, study=STUDY.replace("cold", "warm")),
    ]
    found = history([read(each) for each in reversed(runs)])
    assert [run.records.root for run in found.runs] == runs, "by the time of their creation"
    named = [[(d.name, d.a, d.b) for d in run.changes] for run in found.runs]
    assert named[:2] == [[], []]
    assert named[2] == [("kernel", ("6.1.0-18-amd64",), ("6.12.0",))]
    assert named[3] == [("study.run.cache", ("cold",), ("warm",))]
    assert verdicts(found, 0) == {None}
    assert verdicts(found, 1) == {"unchanged"}
    assert verdicts(found, 2) == {"worse"}
    assert verdicts(found, 3) == {"better"}
    assert all(each.marked == 2 and each.metric == "events_per_s" for each in found.cells)


def test_a_metric_may_be_chosen(tmp_path: Path) -> None:
    records = [read(month(tmp_path, 1)), read(month(tmp_path, 2, device_bytes_per_s=10e6))]
    found = history(records, metric="efficiency")
    assert "efficiency" in found.metrics and "events_per_s" in found.metrics
    assert {each.metric for each in found.cells} == {"efficiency"}
    assert verdicts(found, 1) == {"worse"}, "the jobs wait longer"


def test_a_run_that_cannot_be_judged_says_why(tmp_path: Path) -> None:
    first = month(tmp_path, 1)
    other = [{"target": "ssd", "workload": "higgs", "slots": 1}]
    second = write_results(
        tmp_path / "other", plan_of(other, 2), Truth(), created_utc="2026-05-01T00:00:00+00:00"
    )
    found = history([read(first), read(second)])
    assert found.runs[1].gate is None
    assert "no cell in common" in found.runs[1].not_judged
    assert {each.points[0].verdict for each in found.cells} == {None}


def test_runs_without_any_record_that_can_be_read(tmp_path: Path) -> None:
    runs = [month(tmp_path, number) for number in (1, 2)]
    for run in runs:
        for record in run.glob("trials/*/trial.json"):
            record.write_text("{")
    found = history([read(each) for each in runs])
    assert found.cells == () and found.runs[1].gate is None and found.runs[1].not_judged
