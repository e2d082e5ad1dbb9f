"""Reading records: what is there, what is damaged, and the relation that users query."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pytest

from headrace.analysis.metrics import metric_provenance, trial_metrics
from headrace.analysis.read import Records, read
from headrace.errors import HeadraceError, UsageError
from headrace.records.sums import job_sums
from synthetic_records import Truth, plan_of, write_results

CELLS = [
    {"target": "disk", "workload": "higgs", "filesystem": filesystem, "slots": slots}
    for filesystem in ("ext4", "xfs")
    for slots in (1, 2)
]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return write_results(
        tmp_path / "r",
        plan_of(CELLS, 3),
        Truth(trial_sigma=0.01),
        broken={1: "invalid", 2: "failed", 3: "unsupported"},
    )


def test_every_trial_is_there_once_in_the_order_of_the_plan(results: Path) -> None:
    records = read(results)
    assert records.warnings == ()
    assert list(records.trials["index"]) == list(range(12))
    assert records.plan is not None
    assert [trial.id for trial in records.plan.trials] == list(records.trials["id"])
    assert list(records.trials["status"].iloc[:5]) == [
        "done",
        "done",
        "failed",
        "unsupported",
        "done",
    ]
    assert list(records.trials["valid"].iloc[:5]) == [True, False, False, False, True]
    assert records.trials["reasons"].iloc[1] == (("cache-not-cold", "the page cache was not cold"),)
    assert len(records.environments) == 1


def test_invalid_trials_and_those_that_lacked_a_node_are_run_again(results: Path) -> None:
    records = read(results)
    ids = list(records.trials["id"])
    assert records.to_retry == (ids[1],)
    file = results / "trials" / ids[2] / "trial.json"
    record = json.loads(file.read_text())
    record["validity"]["reasons"] = [{"code": "node-lost", "text": "node-1 was lost"}]
    file.write_text(json.dumps(record))
    assert read(results).to_retry == (ids[1], ids[2])
    for code, again in (("no-space", True), ("read-only", True), ("another", False)):
        record["validity"]["reasons"] = [{"code": code, "text": "no space left"}]
        file.write_text(json.dumps(record))
        assert (ids[2] in read(results).to_retry) == again, code


def test_sums_are_those_of_the_jobs(results: Path) -> None:
    records = read(results)
    jobs = records.jobs
    by_trial = jobs.groupby("trial")
    done = records.trials[records.trials["status"] == "done"].set_index("id")
    for name in ("wall_s", "user_s", "wait_block_s", "events", "bytes_asked", "read_calls"):
        assert by_trial[name].sum().to_dict() == pytest.approx(done[name].to_dict())
    assert by_trial.size().to_dict() == done["jobs"].to_dict()


def test_relation_joins_jobs_with_levels(results: Path) -> None:
    relation = read(results).relation()
    assert {"filesystem", "target", "slots", "valid", "provenance", "repeat", "wall_s"} <= set(
        relation.columns
    )
    rows = (
        relation.filter("valid and filesystem = 'xfs'")
        .aggregate("slots, count(*) as jobs, count(distinct trial) as trials")
        .order("slots")
    )
    # of xfs, index 3 (2 slots) is unsupported; index 2 (1 slot) failed
    assert rows.fetchall() == [(1, 2, 2), (2, 4, 2)]


def test_series_of_a_trial(results: Path) -> None:
    records = read(results)
    trial = records.trials["id"].iloc[0]
    series = records.series(trial, "block")
    assert {"time_s", "device", "read_bytes_per_s"} <= set(series.columns)
    assert len(series) == int(records.trials["last_done_s"].iloc[0])
    assert records.series(trial, "network").empty


def energy_j(trials: pd.DataFrame, name: str = "energy_j_per_job") -> list[float]:
    """Joules of each trial, from a metric per job."""
    return (trial_metrics(trials)[name] * trials["jobs"]).to_list()


def test_energy_of_records_new_and_old(tmp_path: Path) -> None:
    """Records of 0.1 had what the simulator said of energy among the probes."""
    results = write_results(tmp_path / "r", plan_of(CELLS, 1), Truth(site_w=200.0))
    trials = read(results).trials
    joules = 200.0 * trials["last_done_s"]
    assert energy_j(trials) == pytest.approx(joules.to_list())
    for index, path in enumerate(sorted(results.glob("trials/*/trial.json"))):
        values = json.loads(path.read_text())
        del values["energy"]
        values["schema"] = 1
        values["probes"]["energy"] = {
            "nodes_j": 1.0,
            "servers_j": 0.0,
            "drives_j": 0.5,
            "switch_j": 0.0,
        }
        values["probes"]["energy"]["total_j"] = 2.0 + index
        path.write_text(json.dumps(values))
    trials = read(results).trials
    assert energy_j(trials) == pytest.approx([2.0, 3.0, 4.0, 5.0])
    assert energy_j(trials, "energy_drives_j_per_job") == pytest.approx([0.5] * 4)
    assert metric_provenance(trials, {})["energy_j_per_job"] == "modelled"


def test_without_energy_nothing_is_known(results: Path) -> None:
    assert "energy_j_per_job" not in trial_metrics(read(results).trials)


def damage(results: Path, index: int, how: str) -> str:
    directory = sorted((results / "trials").iterdir())[index]
    if how == "truncated json":
        path = directory / "trial.json"
        path.write_bytes(path.read_bytes()[:100])
    elif how == "no json":
        (directory / "trial.json").unlink()
    elif how == "no jobs":
        (directory / "jobs.parquet").unlink()
    elif how == "truncated jobs":
        path = directory / "jobs.parquet"
        path.write_bytes(path.read_bytes()[:-10])
    elif how == "letter of a column":
        path = directory / "jobs.parquet"
        path.write_bytes(path.read_bytes().replace(b"wall_s", b"\xe4all_s"))
    elif how == "schema":
        path = directory / "trial.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 9}))
    elif how == "field":
        path = directory / "trial.json"
        values = json.loads(path.read_text())
        del values["levels"]
        path.write_text(json.dumps(values))
    return directory.name


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("truncated json", "damaged"),
        ("no json", "trial.json is missing"),
        ("no jobs", "jobs.parquet is missing"),
        ("truncated jobs", "jobs.parquet is truncated"),
        ("schema", "schema 9"),
        ("field", "lacks 'levels'"),
    ],
)
def test_a_damaged_record_is_named_and_the_others_are_read(
    results: Path, how: str, said: str
) -> None:
    name = damage(results, 4, how)
    records = read(results)
    assert len(records) == 11
    assert name not in set(records.trials["id"])
    (warning,) = records.warnings
    assert name in warning
    assert said in warning
    assert len(records.jobs) == sum(records.trials["jobs"].dropna())


def test_a_damaged_letter_of_a_column_is_an_error_and_no_traceback(results: Path) -> None:
    name = damage(results, 4, "letter of a column")
    records = read(results)
    with pytest.raises(HeadraceError, match=name):
        records.trial_jobs(name, ["wall_s"])
    with pytest.raises(HeadraceError, match=results.name):
        _ = records.jobs


WITH_FEW_PROCESSES = """
import os, resource, sys
from pathlib import Path
from headrace.records.tables import read_table
if os.getuid() == 0:  # no limit counts for root
    os.setgroups([])
    os.setgid(34568)
    os.setuid(34568)
resource.setrlimit(resource.RLIMIT_NPROC, (5, 5))  # this process, and threads of Arrow's own
print(read_table(Path(sys.argv[1])).num_rows)
"""


def test_tables_are_read_with_hardly_a_thread(results: Path) -> None:
    """Arrow started one for each CPU or column: it failed, crashed, or waited without end."""
    with TemporaryDirectory(dir="/var/tmp") as place:  # pytest's folders are the user's alone
        Path(place).chmod(0o755)
        file = shutil.copy(results / "plan.parquet", place)
        ended = subprocess.run(
            [sys.executable, "-c", WITH_FEW_PROCESSES, file],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "OMP_NUM_THREADS": "8"},  # as on a machine with 8 CPUs
        )
    assert (ended.returncode, ended.stdout) == (0, "12\n"), ended.stderr


def test_no_trial_yet(tmp_path: Path) -> None:
    records: Records = read(write_results(tmp_path / "r", plan_of([], 3), Truth()))
    assert len(records) == 0
    with pytest.raises(HeadraceError, match="no job yet"):
        records.relation()


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a results folder"):
        read(tmp_path)


def test_window_of_a_batch_is_the_stonewall() -> None:
    jobs = [
        {
            "node": 0,
            "slot": 0,
            "start_s": 0.0,
            "end_s": 10.0,
            "wall_s": 10.0,
            "user_s": 5.0,
            "events": 100,
        },
        {
            "node": 0,
            "slot": 1,
            "start_s": 0.0,
            "end_s": 20.0,
            "wall_s": 20.0,
            "user_s": 5.0,
            "events": 100,
        },
    ]
    sums = job_sums(jobs)
    assert (sums["window_s"], sums["events"], sums["window_events"]) == (10.0, 200, 150)
    assert sums["throughput_jobs"] == 0.5 + 0.25


def test_window_of_a_sustained_load_ends_with_the_first_idle_slot() -> None:
    jobs = [
        {
            "node": 0,
            "slot": 0,
            "start_s": 0.0,
            "end_s": 10.0,
            "wall_s": 10.0,
            "user_s": 10.0,
            "events": 100,
        },
        {
            "node": 0,
            "slot": 0,
            "start_s": 10.0,
            "end_s": 30.0,
            "wall_s": 20.0,
            "user_s": 5.0,
            "events": 100,
        },
        {
            "node": 0,
            "slot": 1,
            "start_s": 0.0,
            "end_s": 40.0,
            "wall_s": 40.0,
            "user_s": 40.0,
            "events": 100,
        },
    ]
    sums = job_sums(jobs)
    assert sums["window_s"] == 30.0
    assert sums["window_events"] == pytest.approx(200 + 75)
    assert sums["throughput_jobs"] == pytest.approx(0.5 + 1.0)


def test_the_room_can_be_called_before_and_after_its_parts_are_imported(results: Path) -> None:
    program = (
        "import headrace, sys; first = headrace.records(sys.argv[1]).shape;"
        "import headrace.analysis.read; import headrace.library;"
        "assert headrace.records(sys.argv[1]).shape == first == "
        "headrace.library.records(sys.argv[1]).shape; print(first[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(results)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(read(results).jobs)
