"""Golden: how well cluster-energy is reproduced.

A ratchet: these figures were reached, and may only get better.
"""

import json
from pathlib import Path
from statistics import median

import pytest

from headrace import _core
from headrace.catalog import entry
from headrace.engine.simulate.scenario import scenario_of
from headrace.plan.order import make_plan
from headrace.reproduce import MODULES, summary
from headrace.reproduce.cluster_energy_cells import PARTS, SAMPLE, WHOLE
from headrace.reproduce.published import Reproduced
from headrace.study import load_study
from headrace.study.resolve import resolve
from reproductions import reproduced

STUDY = MODULES["cluster-energy"]
NODES = 3
HOLD = {
    "slots-help",
    "slot2-equal",
    "node-power-rises",
    "energy-flat-ssd-local",
    "cfq-worst-local",
    "most-efficient",
    "read-ahead-ssd-none",
    "fs-matters-on-hdd",
    "scheduler-ssd-none",
    "scheduler-noop-ssd",
    "nas-overhead",
    "ssd-saves-a-watt",
}


@pytest.fixture
def result(shared_folder: Path) -> Reproduced:
    return reproduced(STUDY.id, shared_folder)


def test_predicted_numbers_meet_the_bar(result: Reproduced) -> None:
    reached = summary(result)
    assert reached["median_error"] <= 0.010
    assert reached["within_25_percent"] >= 0.99
    assert reached["median_points"] <= 0.012
    # 0.73 until RAID 5 gathered writes as md does: one of 52 numbers (NAS, HDD, schedulers: 0.036
    # published) went from 2.99 points off to 3.05.
    assert reached["within_3_points"] >= 0.71


def test_times_and_energies_lie_close(result: Reproduced) -> None:
    worst = max(
        abs(number.error)
        for number in result.numbers
        if number.error_in == "relative" and number.table != "nas-power"
    )
    assert worst <= 0.10


def test_the_null_model_is_the_calibrate_row_of_the_drive_and_slot_size(result: Reproduced) -> None:
    """Times err by 0.54 %, which the simulation does not reach."""
    null = [abs(each.null_error or 0.0) for each in result.predicted if each.unit == "min"]
    assert median(null) == pytest.approx(0.0054, abs=0.0001)
    reached = summary(result)
    assert reached["null_median_error"] < reached["median_error"]
    assert reached["null_median_points"] > reached["median_points"]


def test_calibrated_rows_lie_closer(result: Reproduced) -> None:
    rows = [number for number in result.numbers if number.role == "calibrate"]
    assert {(number.table, number.row) for number in rows} == {("filesystem", 1), ("filesystem", 4)}
    assert max(abs(number.error) for number in rows) <= 0.015


def test_findings_hold(result: Reproduced) -> None:
    holding = {finding.id for finding in result.findings if finding.holds}
    assert len(result.findings) == 19
    assert holding >= HOLD


def test_energy_is_given_as_published_and_a_job(result: Reproduced) -> None:
    energies = [number for number in result.numbers if number.unit == "Wh"]
    assert energies
    for number in energies:
        assert float(number.other_reading.split()[0]) * NODES == pytest.approx(
            number.obtained, abs=0.02
        )


def test_what_does_not_hold_says_which_assumption_is_missing(result: Reproduced) -> None:
    for finding in result.findings:
        assert finding.holds or STUDY.missing[finding.id] in finding.why


def test_the_sample_is_a_part_of_the_job() -> None:
    """All but the number of reads, the wait and the time over which jobs start is the same, and so
    fitted together."""
    whole, part = entry("profiles", WHOLE).written, entry("profiles", SAMPLE).written
    assert whole["steps"][2]["count"] == PARTS * part["steps"][2]["count"]
    assert part["part_of_job"] == 1 / PARTS == 1 / part["steps"][2]["parts"]
    assert part["steps"][1]["wait_ns"] * PARTS == whole["steps"][1]["wait_ns"]
    assert {**part["steps"][2], "count": 0, "parts": 1} == {
        **whole["steps"][2],
        "count": 0,
        "parts": 1,
    }
    assert part["files"] == whole["files"]
    assert part["run"]["cpu_spread"] == whole["run"]["cpu_spread"]
    assert part["run"]["stagger_ns"] * PARTS == whole["run"]["stagger_ns"]


def test_sampled_jobs_take_the_time_of_whole_ones() -> None:
    """Both where no job finds its file in the page cache, as a file that is read whole would not
    be: one file a job."""
    path = next(path for path in STUDY.paths if path.stem == "slots")
    study = load_study(path)

    def wanted(target: str, drive: str, slots: int) -> bool:
        return (target, drive, slots) == ("local", "wd-wd3200bekt", 4)

    (trial,) = [
        trial
        for trial in make_plan(study).trials
        if trial.repeat == 0 and wanted(trial.target, trial.levels["drive"], trial.levels["slots"])
    ]
    resolved = resolve(study, trial.target, trial.workload, trial.levels)
    times: dict[str, float] = {}
    for name in (WHOLE, SAMPLE):
        scenario = scenario_of(resolved, trial.target, trial.workload, study.plan_options.seed)
        written = entry("profiles", name).written
        scenario["profiles"][0]["steps"] = written["steps"]
        scenario["run"]["stagger_ns"] = written["run"]["stagger_ns"]
        scenario["files"][0]["count"] = scenario["run"]["load"]["jobs"] // NODES
        jobs = json.loads(_core.simulate_json(json.dumps(scenario)))["jobs"]
        times[name] = sum(job["end_ns"] - job["start_ns"] for job in jobs) / len(jobs)
    assert times[SAMPLE] * PARTS == pytest.approx(times[WHOLE], rel=0.005)
