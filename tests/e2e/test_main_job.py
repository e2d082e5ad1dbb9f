"""The main job as a user does it: real ROOT files, real jobs, records, report.

Stopped, killed, resumed.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

import headrace
from headrace.system.waiting import wait_until
from workspace import ROOT, Workspace, documented_fields, small_study

DONE = (0, 5)  # 5: some trials were invalid, which other work on a shared machine can make them


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, data_cache: Path) -> Workspace:
    """The small study, measured once in this file; its results are copied before a change."""
    place = tmp_path_factory.mktemp("measured")
    made = Workspace(
        place, data_cache, {"HEADRACE_JOURNAL_DIR": str(place / "journals"), "COLUMNS": "200"}
    )
    ended = made.measure(made.study(small_study()))
    assert ended.returncode in DONE, ended.stderr
    return made


@pytest.fixture
def own_journal(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the library in this process use the workspace's undo journal."""
    monkeypatch.setenv("HEADRACE_JOURNAL_DIR", workspace.environment["HEADRACE_JOURNAL_DIR"])


def measured_here(workspace: Workspace, study: Path, results: str = "results") -> None:
    """Measure a study with the library: without the command's report, which another test reads."""
    loaded = headrace.load_study(study)
    loaded.run(workspace.place / results, cache_dir=workspace.cache)


def test_quickstart_ends_in_a_table_and_a_page(workspace: Workspace) -> None:
    """The README's first study, whole but for the search, which reads a tenth of the events.

    Every point is there, jobs are efficient with one slot, findings are drawn.
    """
    scan, search, rest = (ROOT / "studies" / "quickstart.toml").read_text().split("240_000")
    study = workspace.study(f"{scan}240_000{search}24_000{rest}")
    ended = workspace.measure(study, "quick")
    assert ended.returncode in DONE, ended.stderr
    assert "slots" in ended.stdout
    page = (workspace.place / "quick" / "report.html").read_text()
    assert "<html" in page
    trials = workspace.trials("quick")
    assert len(trials) == 18
    assert all(trial["status"] == "done" for trial in trials)
    assert all(set(trial) == documented_fields() for trial in trials)
    # A shared machine may do other work meanwhile, which Headrace has to notice; nothing else may
    # be wrong.
    reasons = [reason for trial in trials for reason in trial["validity"]["reasons"]]
    assert {reason["code"] for reason in reasons} <= {"competing-io", "foreign-load"}, reasons
    table = duckdb.sql(f"SELECT * FROM '{workspace.place}/quick/trials/*/jobs.parquet'").df()
    assert table["events"].value_counts().to_dict() == {60_000: 21, 6_000: 21}
    whole = table[["on_cpu_s", "wait_cpu_s", "wait_block_s", "wait_network_s", "other_s"]].sum(
        axis=1
    )
    assert (abs(whole - table["wall_s"]) < 1e-6).all(), "the ledger adds up"
    search = next(
        trial
        for trial in trials
        if trial["workload"]["name"] == "analysis" and trial["levels"]["slots"] == 4
    )
    assert search["results"], "the search has a result"


@pytest.mark.usefixtures("own_journal")
def test_what_a_job_does_to_its_input_reaches_neither_the_cache_nor_the_next_trial(
    workspace: Workspace,
) -> None:
    """A program that writes into its input file: the next trial has the right events again."""
    program = workspace.place / "spoil.py"
    program.write_text(
        "import sys, uproot\n"
        "print(uproot.open(sys.argv[1])['Events'].num_entries, 'events')\n"
        "file = open(sys.argv[1], 'r+b'); file.seek(200); file.write(bytes(5000)); file.close()\n"
    )
    study = workspace.study(f"""
headrace = 1
[target.here]
kind = "path"
path = "storage"
create = true
[workload.spoil]
kind = "command"
command = ["{sys.executable}", "{program}", "{{file}}"]
events_pattern = '(\\d+) events'
data = {{ events = 300, files = 1 }}
[run]
shortest = 0
[plan]
repeats = {{ min = 3 }}
""")
    for results in ("first", "second"):
        measured_here(workspace, study, results)
        rows = duckdb.sql(
            f"SELECT exit, events FROM '{workspace.place}/{results}/trials/*/jobs.parquet'"
        )
        assert rows.fetchall() == [("ok", 300)] * 3


def test_every_format_of_the_report_is_written_again(measured: Workspace) -> None:
    (measured.place / "results" / "report.html").unlink()
    ended = measured.run(
        "report",
        "results",
        "--format",
        "csv",
        "--format",
        "latex",
        "--format",
        "parquet",
        "--format",
        "html",
    )
    assert ended.returncode in DONE, ended.stderr
    for name in ("report.html", "report.csv", "report.parquet", "report.tex"):
        assert (measured.place / "results" / name).stat().st_size > 200, name
    ended = measured.run("compare", "results", "results")
    assert ended.returncode == 0, ended.stderr
    ended = measured.run("report", "results", "--format", "docx")
    assert ended.returncode == 2
    assert "docx" in ended.stderr


def test_ctrl_c_stops_cleanly_and_resume_completes(workspace: Workspace, tiny: str) -> None:
    study = workspace.study(tiny.replace("min = 3", "min = 8"))
    process = workspace.start_anew(
        "run", study, "--results", "results", "--cache-dir", workspace.cache
    )
    _wait_for_trials(workspace, 3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "headrace resume" in err
    before = {trial["id"]: trial["started_utc"] for trial in workspace.trials()}
    assert 3 <= len(before) < 16
    assert workspace.run("resume", "results", "--cache-dir", workspace.cache).returncode in DONE
    after = {trial["id"]: trial["started_utc"] for trial in workspace.trials()}
    assert len(after) == 16
    assert {trial: after[trial] for trial in before} == before, "nothing was run twice"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_while_a_data_set_is_made_is_one_message_and_leaves_nothing(
    number: signal.Signals, workspace: Workspace, tiny: str
) -> None:
    """Ctrl-C reaches every process of the terminal, those that write the data set too."""
    study = workspace.study(tiny.replace("events = 8_000", "events = 4_000_000"))
    process = workspace.start_anew(
        "run", study, "--results", "results", "--cache-dir", "cache", new_session=True
    )
    deadline = time.monotonic() + 60
    while not list(workspace.place.glob("cache/datasets/.*-*/events-*")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 128 + number, out + err
    assert "headrace resume" in err and "Traceback" not in out + err
    assert len([line for line in err.splitlines() if line.strip()]) <= 2, err
    assert list((workspace.place / "cache" / "datasets").iterdir()) == []
    assert not list(workspace.place.glob("storage/.headrace/datasets/*/*"))


def test_killed_at_random_moments_nothing_is_lost(workspace: Workspace, tiny: str) -> None:
    """kill -9 again and again.

    Every finished trial is there and whole, the machine is put back, resume completes the plan.
    """
    study = workspace.study(tiny.replace("min = 3", "min = 6"))
    seed = random.SystemRandom().randrange(2**32)
    moments = random.Random(seed)
    process = workspace.start("run", study, "--results", "results", "--cache-dir", workspace.cache)
    _wait_for_trials(workspace, 1)
    for _ in range(6):
        time.sleep(moments.uniform(0.0, 1.5))
        process.kill()
        process.communicate()
        seen = {trial["id"]: trial["started_utc"] for trial in workspace.trials()}
        assert workspace.run("undo").returncode == 0
        # The kernel kills the jobs with the process that forked them; on a busy machine they take
        # a while to die.
        assert wait_until(lambda: not _processes_in(workspace.place), 60, 0.05), (
            f"seed {seed}: processes are left: {_processes_in(workspace.place)}"
        )
        process = workspace.start("resume", "results", "--cache-dir", workspace.cache)
        time.sleep(moments.uniform(1.0, 4.0))
        now = {trial["id"]: trial["started_utc"] for trial in workspace.trials()}
        assert seen.items() <= now.items(), f"seed {seed}: a finished trial was lost or run twice"
    process.communicate(timeout=300)
    assert len(workspace.trials()) == 12, f"seed {seed}"
    assert not list((workspace.place / "results").glob(".making-*"))
    total = duckdb.sql(
        f"SELECT count(DISTINCT trial) AS n FROM '{workspace.place}/results/trials/*/jobs.parquet'"
    ).fetchall()[0]
    assert total == (12,)


def test_results_of_another_study_are_refused(
    measured: Workspace, workspace: Workspace, tiny: str
) -> None:
    shutil.copytree(measured.place / "results", workspace.place / "results")
    again = workspace.measure(workspace.study(tiny.replace("min = 3", "min = 4")))
    assert again.returncode == 4
    assert "holds results already" in again.stderr and "resume" in again.stderr
    changed = workspace.place / "results" / "study.toml"
    changed.write_text(changed.read_text().replace("8_000", "9_000"))
    ended = workspace.run("resume", "results")
    assert ended.returncode == 4
    assert "not the study" in ended.stderr


def test_a_full_disk_under_the_records_stops_with_one_message(
    workspace: Workspace, tiny: str
) -> None:
    """Needs root, for a small filesystem of its own."""
    small = workspace.place / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "headrace-test", small], check=True)
    process = None
    try:
        study = workspace.study(tiny.replace("min = 3", "min = 8"))
        process = workspace.start(
            "run", study, "--results", "small/results", "--cache-dir", workspace.cache
        )
        _wait_for_trials(workspace, 2, results="small/results")
        filler = (small / "foreign").open("wb", buffering=0)
        with filler, pytest.raises(OSError, match="No space left"):
            while True:
                filler.write(bytes(1 << 12))
        _, err = process.communicate(timeout=120)
        assert process.returncode == 6, err
        assert "no space left" in err and "resume" in err
        for directory in (small / "results" / "trials").iterdir():
            assert (directory / "trial.json").exists() and (directory / "jobs.parquet").exists()
        (small / "foreign").unlink()
        assert (
            workspace.run("resume", "small/results", "--cache-dir", workspace.cache).returncode
            in DONE
        )
        assert len(workspace.trials("small/results")) == 16
    finally:
        if process is not None and process.poll() is None:
            process.kill()
            process.communicate()
        subprocess.run(["umount", small], check=True)


def test_a_target_that_is_not_there_is_said_before_anything_starts(
    workspace: Workspace, tiny: str
) -> None:
    ended = workspace.measure(workspace.study(tiny.replace("create = true", "")))
    assert ended.returncode == 3
    assert "storage" in ended.stderr
    assert not (workspace.place / "results").exists()


JOBS = """
headrace = 1
title = "jobs that do not end well"
[target.here]
kind = "path"
path = "storage"
create = true
[workload.fails]
kind = "command"
command = ["sh", "-c", "echo no luck >&2; exit 3"]
[workload.hangs]
kind = "command"
command = ["sleep", "100"]
[workload.eats]
kind = "command"
command = ["python3", "-c", "x = bytearray(400_000_000); print(len(x))"]
[workload.works]
kind = "command"
command = ["sleep", "0.2"]
[factors]
slots = [2]
[plan]
repeats = { min = 1 }
[run]
timeout = 3
cache = "as-is"
shortest = 0
memory_limit = "100 MB"
"""


def test_bad_jobs_are_recorded_and_the_study_goes_on(workspace: Workspace) -> None:
    """Needs root, for the memory limit."""
    ended = workspace.measure(workspace.study(JOBS))
    assert ended.returncode == 5, ended.stderr
    trials = {trial["workload"]["name"]: trial for trial in workspace.trials()}
    assert "3" in trials["fails"]["cause"] and trials["fails"]["status"] == "failed"
    assert "did not end within 3 s" in trials["hangs"]["cause"]
    assert "memory" in trials["eats"]["cause"]
    assert trials["works"]["status"] == "done"
    # Other tests run beside it, on the same device.
    reasons = {each["code"] for each in trials["works"]["validity"]["reasons"]}
    assert reasons <= {"competing-io", "foreign-load"}
    assert not _processes_in(workspace.place)


def _wait_for_trials(
    workspace: Workspace, count: int, patience_s: float = 300, results: str = "results"
) -> None:
    deadline = time.monotonic() + patience_s
    while (
        not (workspace.place / results / "trials").exists()
        or len(workspace.trials(results)) < count
    ):
        assert time.monotonic() < deadline, "no trials are recorded"
        time.sleep(0.05)


def _processes_in(place: Path) -> list[str]:
    """Command lines of living processes that work in this place, this test's own aside."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            if state not in "ZX" and (entry / "cwd").readlink().is_relative_to(place):
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    "command", ["doctor", "validate", "plan", "run", "resume", "report", "compare", "undo", "init"]
)
def test_every_command_explains_itself(workspace: Workspace, command: str) -> None:
    ended = workspace.run(command, "--help")
    assert ended.returncode == 0
    assert "Usage" in ended.stdout


def test_init_writes_a_study_that_is_good(workspace: Workspace) -> None:
    assert workspace.run("init", ".", "-o", "first.toml").returncode == 0
    assert workspace.run("validate", "first.toml").returncode == 0
    planned = workspace.run("plan", "first.toml")
    assert planned.returncode == 0 and "trials" in planned.stdout
    assert workspace.run("doctor", "first.toml").returncode == 0
    assert workspace.run("init", ".", "-o", "first.toml").returncode == 4, "nothing is overwritten"


def test_plan_names_storage_that_is_gone(workspace: Workspace) -> None:
    """Only `doctor` and `run` did."""
    (workspace.place / "store").mkdir()
    assert workspace.run("init", "store", "-o", "store.toml").returncode == 0
    assert "cannot be used" not in workspace.run("plan", "store.toml").stdout
    (workspace.place / "store").rmdir()
    planned = workspace.run("plan", "store.toml")
    said = " ".join(planned.stdout.split())
    assert planned.returncode == 0
    assert said.count("cannot be used here now: the directory") == 1 and "store is missing" in said


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("jobs = 5", ["1", "2", "3", "1", "2"]),
        ('jobs = 5\nslots = 2\nload = "sustained"', ["1", "2", "3", "1", "2"]),
        ("jobs = 2\nslots = 4", ["1", "2"]),
        ("slots = 4", ["1", "2", "3", "1"]),
    ],
)
@pytest.mark.usefixtures("own_journal")
def test_as_many_jobs_run_as_were_asked_for(
    workspace: Workspace, run: str, expected: list[str]
) -> None:
    """Whatever the number of slots and of the user's files, which are dealt out in turn."""
    (workspace.place / "storage").mkdir()
    for number in (1, 2, 3):
        (workspace.place / "storage" / f"{number}.root").write_text("data")
    study = workspace.study(f"""
headrace = 1
[target.here]
kind = "path"
path = "storage"
[workload.own]
kind = "command"
command = ["cat", "{{file}}"]
files = "*.root"
[plan]
repeats = {{ min = 1 }}
[run]
shortest = 0
{run}
""")
    measured_here(workspace, study)
    jobs = f"'{workspace.place}/results/trials/*/jobs.parquet'"
    rows = duckdb.sql(f"SELECT file FROM {jobs} WHERE exit = 'ok' ORDER BY job").fetchall()
    assert [Path(file).stem for (file,) in rows] == expected


def test_a_number_of_jobs_that_the_load_cannot_have_is_refused(
    workspace: Workspace, tiny: str
) -> None:
    for run, factors, where in (
        ('jobs = 5\nload = "batch"', "", ":16: run:"),
        ('duration = "5 s"\nload = "batch"', "", ":16: run:"),
        ('duration = "5 s"\nfeed = "packets"', "", ":16: run:"),
        ("", 'jobs = [2, 4]\nload = ["batch", "sustained"]', "factors"),
    ):
        text = tiny.replace("shortest = 0", f"shortest = 0\n{run}")
        ended = workspace.run(
            "run", workspace.study(text.replace("[factors]", f"[factors]\n{factors}"))
        )
        assert ended.returncode == 2, ended.stderr
        assert where in ended.stderr and 'load = "batch"' in ended.stderr, ended.stderr
