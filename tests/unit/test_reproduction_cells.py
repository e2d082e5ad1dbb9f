"""Unit: cells of a reproduction are what any simulation of the study records and its analysis
finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import typer
from typing_extensions import override

from headrace.analysis.find import find
from headrace.analysis.read import read
from headrace.catalog import entry
from headrace.catalog.load import attempt
from headrace.cli.reproduce import publish_emulated, show_alternatives, simulate
from headrace.engine.simulate.simulator import Cores, Finished
from headrace.errors import HeadraceError
from headrace.library import load_study
from headrace.reproduce import MODULES
from headrace.reproduce.assumption_tables import ASSUMPTIONS
from headrace.reproduce.assumptions import edited
from headrace.reproduce.cells import ObtainedCells, run_cells
from headrace.reproduce.emulated import Emulated
from headrace.reproduce.published import FittedParameter, Number, Published, Reproduced

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


def written(
    tmp_path: Path, load: str = 'load = "batch"', plan: str = "repeats = { min = 1 }"
) -> Path:
    path = tmp_path / "cells.toml"
    path.write_text(STUDY.replace("{load}", load).replace("repeats = { min = 1 }", plan))
    return path


@pytest.mark.parametrize("study", ASSUMPTIONS)
def test_alternatives_of_assumptions_are_studies(study: str, tmp_path: Path) -> None:
    for assumption in ASSUMPTIONS[study]:
        for alternative in assumption.alternatives:
            folder = tmp_path / alternative.label
            paths, texts = edited(MODULES[study], alternative, folder)
            assert texts or any(
                path.read_text() != original.read_text()
                for path, original in zip(paths, MODULES[study].paths, strict=True)
            )
            attempt(texts)
            try:
                assert all(load_study(path).plan().trials for path in paths)
                assert all(entry(file.parent.name, file.stem) for file in texts)
            finally:
                attempt({})


def test_jobs_that_do_not_end_are_told(tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match=r"cells: local tau .* 2 jobs did not end"):
        run_cells([written(tmp_path, 'load = "sustained"\nduration = "3 s"')])


def test_a_simulation_of_the_study_gives_the_same_records_and_numbers(tmp_path: Path) -> None:
    """Through a results folder, and through memory."""
    study = load_study(written(tmp_path))
    study.run(tmp_path / "results", engine="simulate")
    records = read(tmp_path / "results")
    (trial,) = study.plan().trials
    # A reproduction's first repeat takes the seed of the plan, that of a study follows from it.
    (cell,) = run_cells([written(tmp_path, plan=f"repeats = {{ min = 1 }}\nseed = {trial.seed}")])
    (curve,) = find(records).curves
    (point,) = curve.points
    found = {name: estimate.value for name, estimate in point.metrics.items()}
    assert {"efficiency", "mean_job_efficiency", "wall_s", "energy_wh_per_job"} <= set(found)
    for name, value in found.items():
        assert cell.metric(name) == pytest.approx(value, rel=1e-12), name
    recorded = records.trial_record(trial.id)
    assert cell.records[0].seed == recorded.seed
    assert cell.records[0].sums == recorded.sums
    assert cell.records[0].drives == recorded.drives


def test_repeats_are_other_runs_and_count_alike(tmp_path: Path) -> None:
    both = next(iter(run_cells([written(tmp_path, plan="repeats = { min = 2 }")])))
    first = next(iter(run_cells([written(tmp_path)])))
    second = next(iter(run_cells([written(tmp_path, plan="repeats = { min = 1 }\nseed = 2")])))
    assert [record.sums for record in both.records] == [
        first.records[0].sums,
        second.records[0].sums,
    ]
    for name in (
        "wall_s",
        "efficiency",
        "mean_job_efficiency",
        "energy_wh_per_job",
        "device_bytes_per_s",
    ):
        assert first.metric(name) != second.metric(name), name
        assert both.metric(name) == pytest.approx(
            fmean([first.metric(name), second.metric(name)])
        ), name
    assert both.per_job("bytes_asked") == pytest.approx(
        fmean([first.per_job("bytes_asked"), second.per_job("bytes_asked")])
    )


def test_the_efficiency_of_all_jobs_and_the_mean_of_theirs_are_two_metrics(tmp_path: Path) -> None:
    (cell,) = run_cells([written(tmp_path)])
    (record,) = cell.records
    assert record.sums is not None
    assert cell.metric("efficiency") == pytest.approx(record.sums["user_s"] / record.sums["wall_s"])
    assert cell.metric("mean_job_efficiency") == pytest.approx(record.sums["efficiencies"] / 2)
    assert cell.metric("efficiency") != cell.metric("mean_job_efficiency")


class CountingCores(Cores):
    """The cores of this machine; `simulated` is how many scenarios they were given."""

    simulated = 0

    @override
    def run(
        self,
        scenarios: Sequence[str],
        finished: Finished,
        cancelled: Callable[[], bool] = lambda: False,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.simulated += len(scenarios)
        super().run(scenarios, finished, cancelled, progress)


def test_equal_cells_of_two_files_are_simulated_once(tmp_path: Path) -> None:
    text = written(tmp_path).read_text()
    files = [tmp_path / f"{name}.toml" for name in ("schemes", "slots", "seeds")]
    for file in files:
        file.write_text(text)
    files[2].write_text(text.replace("[plan]", "[plan]\nseed = 2"))
    cores = CountingCores()
    told: list[tuple[int, int]] = []
    schemes, slots, seeds = run_cells(
        files, simulator=cores, progress=lambda done, total: told.append((done, total))
    )
    assert cores.simulated == 2
    assert sorted(told) == [(1, 3), (2, 3), (3, 3)]
    assert (schemes.file, slots.file, seeds.file) == ("schemes", "slots", "seeds")
    assert schemes.records[0].sums == slots.records[0].sums != seeds.records[0].sums


def test_the_command_simulates_every_cell_of_a_study(tmp_path: Path) -> None:
    """With its progress display, on two threads: one study file and one number of its cells."""
    files = (str(written(tmp_path, plan="repeats = { min = 2 }")),)
    repeats: list[int] = []

    def numbers(cells: ObtainedCells, source: Published) -> list[Number]:
        assert source.id == "proof-ssd"
        repeats.extend(len(cell.records) for cell in cells)
        return []

    def nothing(_cells: ObtainedCells, _source: Published) -> list[Any]:
        return []

    small = replace(
        MODULES["proof-ssd"], files=files, numbers=numbers, findings=nothing, figures=nothing
    )
    (result,) = simulate([small], 2, "")
    assert result.id == "proof-ssd"
    assert repeats == [2]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.175e9, "bytes", "1.18 GB"),
        (1.038e6, "ns", "1.04 ms"),
        (25_000_000.0, "bytes/s", "25.0 MB/s"),
        (38.5, "W", "38.5 W"),
    ],
)
def test_a_fitted_value_has_a_unit_that_suits_its_size(value: float, unit: str, text: str) -> None:
    assert FittedParameter("node: memory of a job", value, unit, "rows").text == text


@pytest.mark.parametrize("as_json", [False, True])
def test_emulated_studies_whose_trials_are_left_out_do_not_end_well(
    as_json: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """With all 32 trials invalid the exit code was 0, and a second run kept them."""
    study = Emulated("proof-ssd", "drives", (), (), (), (), (Path("small"),))
    publish_emulated([study], as_json, False)
    capfd.readouterr()
    left = replace(study, left_out=("0000-a-r0: other programs used 1.4 of 2 CPUs",))
    with pytest.raises(typer.Exit) as ended:
        publish_emulated([study, left], as_json, False)
    assert ended.value.exit_code == 5
    assert ("headrace resume small --retry-invalid" in capfd.readouterr().out) is not as_json


def test_a_study_without_alternatives_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """`reproduce proof-ssd --vary` printed what it prints without `--vary`."""
    used = Reproduced("proof-ssd", "", (), (), (), {})
    show_alternatives(MODULES["proof-ssd"], used, threads=1)
    assert "proof-ssd: no assumption has an alternative to simulate" in capsys.readouterr().err
