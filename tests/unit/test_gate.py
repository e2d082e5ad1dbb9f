"""`headrace gate`: what got worse than a baseline, what did not, and what cannot be judged."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console

import headrace
from headrace.analysis.gate import Gate, as_json
from headrace.cli.gate import gate as command
from headrace.errors import ExitCode, NotJudgedError, RefusedError, StudyError, UsageError
from headrace.library.shown import ShownGate
from headrace.report.gate import headline, print_gate, remarks
from headrace.watching import Watcher
from headrace.watching.finders.pid import PidFinder
from headrace.watching.recording import Recorder
from synthetic_records import Truth, plan_of, write_results

CELLS: list[dict[str, Any]] = [
    {"target": "disk", "workload": "higgs", "filesystem": filesystem, "slots": slots}
    for filesystem in ("ext4", "xfs")
    for slots in (1, 2, 4)
]
WH = "energy_wh_per_job"
SLOW_XFS = {"filesystem": {"xfs": -0.2}}


def made(folder: Path, *, seed: int = 2, repeats: int = 5, **more: Any) -> Path:
    truth = Truth(trial_sigma=0.01, **more)
    return write_results(folder, plan_of(CELLS, repeats), truth, seed=seed, series=False)


def verdicts(found: Gate) -> dict[str, set[str]]:
    said: dict[str, set[str]] = {}
    for cell in found.cells:
        said.setdefault(str(cell.difference.levels["filesystem"]), set()).add(cell.verdict)
    return said


def test_what_got_slower_is_a_regression_and_the_rest_is_not(tmp_path: Path) -> None:
    base = made(tmp_path / "base", seed=1)
    slow = headrace.gate(made(tmp_path / "slow", effects=SLOW_XFS), base)
    assert verdicts(slow) == {"xfs": {"worse"}, "ext4": {"unchanged"}}
    assert slow.exit_code == ExitCode.REGRESSION == 7
    assert [cell.verdict for cell in slow.cells[:3]] == ["worse"] * 3
    # The same change the other way round is none; neither is it with a tolerance above it.
    back = headrace.gate(tmp_path / "base", tmp_path / "slow")
    assert verdicts(back) == {"xfs": {"better"}, "ext4": {"unchanged"}}
    assert back.exit_code == ExitCode.OK
    assert headrace.gate(tmp_path / "slow", base, tolerance="30 %").exit_code == ExitCode.OK


def test_less_time_is_no_regression(tmp_path: Path) -> None:
    base, slow = made(tmp_path / "base"), made(tmp_path / "slow", effects=SLOW_XFS)
    found = headrace.gate(slow, base, metric="wall_s")
    assert verdicts(found)["xfs"] == {"worse"}
    assert verdicts(headrace.gate(base, slow, metric="wall_s"))["xfs"] == {"better"}


def test_one_trial_decides_nothing(tmp_path: Path) -> None:
    base = made(tmp_path / "base", repeats=1)
    found = headrace.gate(made(tmp_path / "new", repeats=1, effects=SLOW_XFS), base)
    assert {cell.verdict for cell in found.cells} == {"undecided"}
    assert found.exit_code == ExitCode.INVALID_TRIALS


def test_scatter_larger_than_the_tolerance_is_undecided(tmp_path: Path) -> None:
    base = made(tmp_path / "base", seed=1)
    found = headrace.gate(made(tmp_path / "new"), base, tolerance=0.001)
    assert not found.count("worse") and found.count("undecided")
    assert found.exit_code == ExitCode.INVALID_TRIALS


def test_cells_that_are_decided_do_not_pass_for_those_that_are_not(tmp_path: Path) -> None:
    """A gate for CI: one trial of a cell cannot say that the cell is as fast as before."""
    base = made(tmp_path / "base", seed=1)
    trials = plan_of(CELLS, 5).trials
    kept = [each for each in trials if each.repeat == 0 or each.levels["slots"] == 1]
    plan = replace(plan_of(CELLS, 5), trials=tuple(kept))
    new = write_results(tmp_path / "new", plan, Truth(trial_sigma=0.01), seed=2, series=False)
    found = headrace.gate(new, base, tolerance="10 %")
    counts = {verdict: found.count(verdict) for verdict in ("worse", "undecided", "unchanged")}
    assert counts == {"worse": 0, "undecided": 4, "unchanged": 2}
    assert headline(found) == (
        "Undecided: no regression of more than 10\u202f% in 2 of 6 cells; 4 undecided."
    )
    assert found.exit_code == ExitCode.INVALID_TRIALS
    assert not json.loads(as_json(found))["judged"]


def test_failed_trials_are_not_passed(tmp_path: Path) -> None:
    """A change that makes jobs fail must not pass because the other trials are as fast."""
    base = made(tmp_path / "base", seed=1)
    new = write_results(
        tmp_path / "new", plan_of(CELLS, 5), Truth(trial_sigma=0.01), broken={0: "failed"}
    )
    found = headrace.gate(new, base)
    assert found.unusable == ("1 trial failed",)
    assert (found.count("worse"), found.exit_code) == (0, ExitCode.INVALID_TRIALS)


def test_an_unfinished_run_is_not_passed(tmp_path: Path) -> None:
    base, new = made(tmp_path / "base", seed=1), made(tmp_path / "new")
    last = max((new / "trials").iterdir())
    last.rename(tmp_path / "away")
    found = headrace.gate(new, base)
    assert found.unusable == ("1 trial without a record",)
    assert found.exit_code == ExitCode.INVALID_TRIALS


def test_nothing_to_compare_is_said(tmp_path: Path) -> None:
    base = made(tmp_path / "base")
    plan = plan_of(CELLS[:1], 2)
    broken = {0: "failed", 1: "invalid"}
    dead = write_results(tmp_path / "dead", plan, Truth(), broken=broken)
    other = plan_of([{**CELLS[0], "target": "ssd"}], 2)
    for new, said in (
        (dead, "no valid trial"),
        (write_results(tmp_path / "other", other, Truth()), "no cell in common"),
    ):
        with pytest.raises(NotJudgedError, match=f"nothing can be judged.*{said}") as raised:
            headrace.gate(new, base)
        assert raised.value.exit_code == ExitCode.INVALID_TRIALS
    with pytest.raises(NotJudgedError, match="energy_wh_per_job"):
        headrace.gate(base, base, metric="energy_wh_per_job")


def test_simulated_results_are_judged_against_simulated_ones(tmp_path: Path) -> None:
    simulated = made(tmp_path / "s", engine="simulate", provenance="simulated")
    with pytest.raises(RefusedError, match="not comparable"):
        headrace.gate(simulated, made(tmp_path / "m"))
    assert headrace.gate(simulated, tmp_path / "m", force=True).cells


@pytest.mark.parametrize("tolerance", ["5", "100 %", "-1 %", "much", "5 m", "nan"])
def test_a_wrong_tolerance_is_refused(tolerance: str, tmp_path: Path) -> None:
    base = made(tmp_path / "base", repeats=1)
    with pytest.raises(UsageError, match=f"--tolerance {tolerance}: "):
        headrace.gate(base, base, tolerance=tolerance)
    with pytest.raises(UsageError, match="--metric event_rate: unknown metric"):
        headrace.gate(base, base, metric="event_rate")


@pytest.mark.parametrize("printed", ["Wh/job", "wh/job", "energy per job (Wh/job)", WH])
def test_a_metric_is_named_as_reports_print_it(tmp_path: Path, printed: str) -> None:
    """`--metric "Wh/job"` was an unknown metric, though the report prints that name."""
    base = made(tmp_path / "base", site_w=180.0)
    found = headrace.gate(base, base, metric=printed)
    assert {cell.difference.metric for cell in found.cells} == {WH}


@pytest.mark.parametrize(
    ("printed", "named"),
    [("B/s", "(B/s), "), ("Energy per job", "energy_wh_per_job (Wh/job)")],
)
def test_what_several_metrics_are_called_names_them(
    tmp_path: Path, printed: str, named: str
) -> None:
    base = made(tmp_path / "base", repeats=1, site_w=180.0)
    with pytest.raises(UsageError, match="several metrics are called so") as caught:
        headrace.gate(base, base, metric=printed)
    assert named in (caught.value.hint or "")


def test_a_study_with_a_printed_metric_says_its_name(tmp_path: Path) -> None:
    text = 'headrace = 1\n[report]\nmetric = "Wh/job"\n[target.a]\nkind = "path"\npath = "/tmp"\n'
    (tmp_path / "s.toml").write_text(text + '[workload.w]\nkind = "random"\n')
    with pytest.raises(StudyError) as caught:
        headrace.load_study(tmp_path / "s.toml")
    assert f"unknown metric; its name is {WH} or " in str(caught.value)


def test_the_command_prints_80_columns_and_ends_with_the_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, slow = made(tmp_path / "base"), made(tmp_path / "slow", effects=SLOW_XFS)
    with pytest.raises(typer.Exit) as ended:
        command(slow, base)
    printed = capsys.readouterr().out
    assert ended.value.exit_code == 7
    assert "Regression: 3 of 6 cells got worse by more than 5\u202f%." in printed
    assert max(map(len, printed.splitlines())) <= 80
    with pytest.raises(typer.Exit) as ended:
        command(slow, base, as_json=True)
    said = json.loads(capsys.readouterr().out)
    assert (said["exit_code"], said["counts"]["worse"], said["regression"]) == (7, 3, True)
    assert said["cells"][0]["ratio"][2] < 0.95
    command(base, base)  # exit code 0


def judged_watches(folder: Path) -> ShownGate:
    for name in ("base", "busy"):
        with subprocess.Popen(["bash", "-c", "while :; do :; done"]) as process:
            job = PidFinder([str(process.pid)])
            with Watcher(job) as watcher, Recorder(folder / name, 0.2) as recorder:
                for _ in range(6):
                    recorder.add(watcher.watch(0.1))
            process.kill()
    return headrace.gate(folder / "busy", folder / "base", metric="efficiency", tolerance=0.9)


def test_recorded_watches_are_judged(tmp_path: Path) -> None:
    """The windows of a watch are the repeats of one cell."""
    for number in range(10):
        found = judged_watches(tmp_path / str(number))
        (cell,) = found.cells
        assert cell.difference.metric == "efficiency" and cell.difference.workload == "watched"
        if cell.verdict != "undecided":
            break
        # Other programs have left a window hardly any CPU time: once more.
        assert found.exit_code == ExitCode.INVALID_TRIALS
    assert found.exit_code == ExitCode.OK


def test_warnings_are_in_the_words_of_the_gate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = made(tmp_path / "base")
    modelled = made(tmp_path / "modelled", engine="simulate", provenance="simulated")
    print_gate(headrace.gate(modelled, base, force=True), Console(width=80))
    said = " ".join(capsys.readouterr().out.split())
    assert "the baseline is measured, the results are simulated" in said
    assert "see the end" not in said
    with pytest.raises(UsageError) as caught:
        headrace.gate(modelled, base, metric="nix", force=True)
    assert "events_per_s" in (caught.value.hint or "")


def test_repeats_that_were_not_needed_are_not_missing(tmp_path: Path) -> None:
    """A cell whose interval is narrow enough gets no further repeats."""
    study = "[plan]\nrepeats = { min = 3, max = 5, interval = 0.05 }\n"
    truth = Truth(trial_sigma=0.01)
    base, new = (
        write_results(
            tmp_path / name, plan_of(CELLS, 5), truth, seed=seed, series=False, study_text=study
        )
        for seed, name in enumerate(("base", "new"))
    )
    for trial in plan_of(CELLS, 5).trials:
        if trial.repeat > 2:
            (new / "trials" / trial.id).rename(tmp_path / trial.id)
    found = headrace.gate(new, base, tolerance="20 %")
    assert (found.unusable, found.exit_code) == ((), ExitCode.OK)
    first = next(each for each in plan_of(CELLS, 5).trials if each.repeat == 0)
    (new / "trials" / first.id).rename(tmp_path / first.id)
    assert headrace.gate(new, base, tolerance="20 %").unusable == ("1 trial without a record",)


def test_a_plan_that_cannot_be_read_is_no_damaged_trial(tmp_path: Path) -> None:
    base, new = made(tmp_path / "base", seed=1), made(tmp_path / "new")
    assert headrace.gate(new, base).exit_code == ExitCode.OK
    (new / "plan.parquet").write_bytes(b"cut off")
    found = headrace.gate(new, base)
    # Nobody knows how many trials have no record.
    assert found.unusable == ("no plan that can be read",)
    assert found.exit_code == ExitCode.INVALID_TRIALS


def test_cells_of_one_folder_only_are_named(tmp_path: Path) -> None:
    base, now = made(tmp_path / "base"), tmp_path / "now"
    write_results(now, plan_of(CELLS[:2] + CELLS[3:], 5), Truth(trial_sigma=0.01), series=False)
    (said,) = [each for each in remarks(headrace.gate(now, base)) if "only in" in each]
    assert said == "1 cell only in the baseline: disk, higgs, slots 4, filesystem ext4."
