"""The main job as a user does it: real ROOT files, real jobs, records, report; stopped, killed, resumed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import duckdb
import pytest

from house import ROOT, House

DONE = (0, 5)  # 5: some trials were invalid, which other work on a shared machine can make them


def test_quickstart_ends_in_a_table_and_a_page(house: House) -> None:
    """The README's first study, whole: every point is there, jobs are efficient with one slot, findings are drawn."""
    ended = house.measure(ROOT / "studies" / "quickstart.toml", "quick")
    assert ended.returncode in DONE, ended.stderr
    assert "slots" in ended.stdout
    page = (house.place / "quick" / "report.html").read_text()
    assert "<html" in page
    trials = house.trials("quick")
    assert len(trials) == 18
    assert all(trial["status"] == "done" for trial in trials)
    # A shared machine may do other I/O on the same disk meanwhile, which Headrace has to notice; nothing else may be wrong.
    reasons = [reason for trial in trials for reason in trial["validity"]["reasons"]]
    assert {reason["code"] for reason in reasons} <= {"competing-io"}, reasons
    table = duckdb.sql(f"SELECT * FROM '{house.place}/quick/trials/*/jobs.parquet'").df()
    assert (table["events"] == 60_000).all()
    whole = table[["on_cpu_s", "wait_cpu_s", "wait_block_s", "wait_network_s", "other_s"]].sum(axis=1)
    assert (abs(whole - table["wall_s"]) < 1e-6).all(), "the ledger adds up"
    search = next(
        trial for trial in trials if trial["workload"]["name"] == "analysis" and trial["levels"]["slots"] == 4
    )
    assert search["results"], "the search has a result"


def test_every_format_of_the_report_is_written_again(house: House, tiny: str) -> None:
    assert house.measure(house.study(tiny)).returncode in DONE
    ended = house.run(
        "report", "results", "--format", "csv", "--format", "latex", "--format", "parquet", "--format", "html"
    )
    assert ended.returncode in DONE, ended.stderr
    for name in ("report.html", "report.csv", "report.parquet", "report.tex"):
        assert (house.place / "results" / name).stat().st_size > 200, name
    ended = house.run("compare", "results", "results")
    assert ended.returncode == 0, ended.stderr
    ended = house.run("report", "results", "--format", "docx")
    assert ended.returncode == 2
    assert "docx" in ended.stderr


def test_ctrl_c_stops_cleanly_and_resume_completes(house: House, tiny: str) -> None:
    study = house.study(tiny.replace("min = 3", "min = 8"))
    process = house.start("run", study, "--results", "results", "--cache-dir", house.cache)
    _wait_for_trials(house, 3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "headrace resume" in err
    before = {trial["id"]: trial["started_utc"] for trial in house.trials()}
    assert 3 <= len(before) < 16
    assert house.run("resume", "results", "--cache-dir", house.cache).returncode in DONE
    after = {trial["id"]: trial["started_utc"] for trial in house.trials()}
    assert len(after) == 16
    assert {trial: after[trial] for trial in before} == before, "nothing was run twice"


def test_killed_at_random_moments_nothing_is_lost(house: House, tiny: str) -> None:
    """kill -9 again and again: every finished trial is there and whole, the machine is put back, resume completes the plan."""
    study = house.study(tiny.replace("min = 3", "min = 6"))
    seed = random.SystemRandom().randrange(2**32)
    moments = random.Random(seed)
    process = house.start("run", study, "--results", "results", "--cache-dir", house.cache)
    _wait_for_trials(house, 1)
    for _ in range(12):
        time.sleep(moments.uniform(0.0, 1.5))
        process.kill()
        process.communicate()
        seen = {trial["id"]: trial["started_utc"] for trial in house.trials()}
        assert house.run("undo").returncode == 0
        assert not _processes_in(house.place), f"seed {seed}: processes are left"
        process = house.start("resume", "results", "--cache-dir", house.cache)
        time.sleep(moments.uniform(1.0, 4.0))
        now = {trial["id"]: trial["started_utc"] for trial in house.trials()}
        assert seen.items() <= now.items(), f"seed {seed}: a finished trial was lost or run twice"
    process.communicate(timeout=300)
    assert len(house.trials()) == 12, f"seed {seed}"
    assert not list((house.place / "results").glob(".making-*"))
    total = duckdb.sql(
        f"SELECT count(DISTINCT trial) AS n FROM '{house.place}/results/trials/*/jobs.parquet'"
    ).fetchall()[0]
    assert total == (12,)


def test_results_of_another_study_are_refused(house: House, tiny: str) -> None:
    assert house.measure(house.study(tiny.replace("min = 3", "min = 1"))).returncode in DONE
    again = house.measure(house.study(tiny))
    assert again.returncode == 4
    assert "holds results already" in again.stderr and "resume" in again.stderr
    changed = house.place / "results" / "study.toml"
    changed.write_text(changed.read_text().replace("8_000", "9_000"))
    ended = house.run("resume", "results")
    assert ended.returncode == 4
    assert "not the study" in ended.stderr


def test_a_full_disk_under_the_records_stops_with_one_message(house: House, tiny: str) -> None:
    """Needs root, for a small filesystem of its own."""
    small = house.place / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96k", "headrace-test", small], check=True)
    try:
        ended = house.measure(house.study(tiny), "small/results")
        assert ended.returncode == 6, ended.stderr
        assert "no space left" in ended.stderr and "resume" in ended.stderr
        for directory in (small / "results" / "trials").iterdir():
            assert (directory / "trial.json").exists() and (directory / "jobs.parquet").exists()
        subprocess.run(["mount", "-o", "remount,size=64m", small], check=True)
        assert house.run("resume", "small/results", "--cache-dir", house.cache).returncode in DONE
        assert len(house.trials("small/results")) == 6
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_target_that_is_not_there_is_said_before_anything_starts(house: House, tiny: str) -> None:
    ended = house.measure(house.study(tiny.replace("create = true", "")))
    assert ended.returncode == 3
    assert "storage" in ended.stderr
    assert not (house.place / "results").exists()


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


def test_bad_jobs_are_recorded_and_the_study_goes_on(house: House) -> None:
    """Needs root, for the memory limit."""
    ended = house.measure(house.study(JOBS))
    assert ended.returncode == 5, ended.stderr
    trials = {trial["workload"]["name"]: trial for trial in house.trials()}
    assert "3" in trials["fails"]["cause"] and trials["fails"]["status"] == "failed"
    assert "did not end within 3 s" in trials["hangs"]["cause"]
    assert "memory" in trials["eats"]["cause"]
    assert trials["works"]["status"] == "done" and trials["works"]["validity"]["valid"]
    assert not _processes_in(house.place)


def _wait_for_trials(house: House, count: int, patience_s: float = 120) -> None:
    deadline = time.monotonic() + patience_s
    while not (house.place / "results" / "trials").exists() or len(house.trials()) < count:
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
def test_every_command_explains_itself(house: House, command: str) -> None:
    ended = house.run(command, "--help")
    assert ended.returncode == 0
    assert "Usage" in ended.stdout


def test_init_writes_a_study_that_is_good(house: House) -> None:
    assert house.run("init", ".", "-o", "first.toml").returncode == 0
    assert house.run("validate", "first.toml").returncode == 0
    planned = house.run("plan", "first.toml")
    assert planned.returncode == 0 and "trials" in planned.stdout
    assert house.run("doctor", "first.toml").returncode == 0
    assert house.run("init", ".", "-o", "first.toml").returncode == 4, "nothing is overwritten"
