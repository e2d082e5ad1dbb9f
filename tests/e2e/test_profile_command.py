"""The pair of commands that the docs promise: record one job, see many nodes run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from command_server import run_command
from workspace import Workspace

JOB = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
for n in range(40):
    os.pread(fd, 50_000, 100_000 * n)
    end = time.thread_time() + 0.005
    while time.thread_time() < end: pass
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path, tmp_path / "cache")


def test_record_one_job_and_see_twenty_nodes_run_it(tmp_path: Path) -> None:
    data = tmp_path / "data.bin"
    data.write_bytes(os.urandom(4_000_000))
    profile = tmp_path / "job.toml"

    def headrace(*arguments: str) -> subprocess.CompletedProcess[str]:
        ended = run_command(arguments, tmp_path)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended

    headrace("record", "--out", str(profile), "--", sys.executable, "-c", JOB, str(data))
    headrace(
        "profile", "simulate", str(profile), "--nodes", "20", "--slots", "2", "--results",
        str(tmp_path / "results")
    )  # fmt: skip
    trials = [
        json.loads(path.read_text())
        for path in (tmp_path / "results" / "trials").glob("*/trial.json")
    ]
    assert len(trials) == 2, "one trial a drive"
    for trial in trials:
        assert trial["validity"]["valid"], trial["validity"]
        assert trial["sums"]["bytes_asked"] == 20 * 2 * 40 * 50_000
    # A disk of 7200 rpm takes longer over scattered reads than an SSD.
    seconds = {trial["levels"]["drive"]: trial["last_done_s"] for trial in trials}
    assert seconds["seagate-exos-x24-24tb"] > seconds["samsung-870-evo-1tb"] > 0.2
    assert 'kind = "replay"' in (tmp_path / "job.study.toml").read_text()


def test_the_study_that_simulate_writes_is_the_user_s(workspace: Workspace) -> None:
    workspace.study("0123456789" * 200, "data.txt")
    workspace.run("record", "--out", "job.toml", "--", "head", "-c", "1000", "data.txt")
    simulate = ("profile", "simulate", "job.toml", "--slots", "1")
    first = workspace.run(*simulate, "--results", "r1")
    study = workspace.place / "job.study.toml"
    assert "study: job.study.toml (written)" in first.stderr
    edited = study.read_text().replace("slots = [1]", "slots = [3]") + "# my own remark\n"
    study.write_text(edited)
    # Without options: the user's file is what runs.
    again = workspace.run("profile", "simulate", "job.toml", "--results", "r2")
    assert again.returncode == 0, again.stderr
    assert "study: job.study.toml (it was there: used as it is)" in again.stderr
    assert {trial["levels"]["slots"] for trial in workspace.trials("r2")} == {3}
    # With options that ask for another study: that goes beside it, once.
    for results, done in (("r3", "written"), ("r4", "it was there: used as it is")):
        other = workspace.run(*simulate, "--results", results)
        assert f"study: job-2.study.toml ({done})" in other.stderr
        assert {trial["levels"]["slots"] for trial in workspace.trials(results)} == {1}
    assert study.read_text() == edited


def test_a_recording_overwrites_nothing_but_a_recording(workspace: Workspace) -> None:
    workspace.study("title = 'mine'\n", "head.toml")
    workspace.study("0123456789" * 200, "data.txt")
    command = ("--", "head", "-c", "10", "data.txt")
    workspace.run("record", *command)
    assert (workspace.place / "head.toml").read_text() == "title = 'mine'\n"
    assert 'name = "head"' in (workspace.place / "head-2.toml").read_text()
    refused = workspace.run("record", "--out", "head.toml", "--", "touch", "ran")
    assert refused.returncode == 4, refused.stderr
    assert "head.toml exists and is not a recorded profile" in " ".join(refused.stderr.split())
    assert not (workspace.place / "ran").exists()
    stream = workspace.run("record", "--out", "/dev/stdout", "--", "touch", "ran")
    assert stream.returncode == 2 and "a profile is a file, not a stream" in stream.stderr
    assert not Path("/dev/stdout.toml").exists() and not (workspace.place / "ran").exists()
    again = workspace.run("record", "--out", "head-2.toml", "--", "head", "-c", "11", "data.txt")
    assert again.returncode == 0 and "11" in (workspace.place / "head-2.toml").read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        ("record", "--out", "x.hrp", "--", "touch", "ran"),
        ("profile", "import", "x.txt", "--out", "x.hrp"),
        ("profile", "show", "x.hrp"),
        ("profile", "simulate", "x.hrp"),
    ],
    ids=" ".join,
)
def test_a_profile_of_another_ending_is_refused_before_anything_runs(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    ended = run_command(arguments, tmp_path)
    assert ended.returncode == 2
    assert "given: x.hrp); allowed: x.toml" in " ".join(ended.stderr.split())
    assert not list(tmp_path.iterdir())


SIZES = """\
100 1700000000.000001 openat(AT_FDCWD</data>, "new.db", O_RDWR|O_CREAT|O_TRUNC, 0600) = 3</data/new.db> <0.000010>
100 1700000000.000101 ftruncate(3</data/new.db>, 65536) = 0 <0.000010>
100 1700000000.000201 fallocate(3</data/new.db>, 0, 65536, 4096) = 0 <0.000010>
100 1700000000.000301 pwrite64(3</data/new.db>, "x"..., 4096, 8192) = 4096 <0.000010>
100 1700000000.000351 io_uring_setup(8, {flags=0}) = 4 <0.000010>
100 1700000000.000401 close(3</data/new.db>) = 0 <0.000010>
"""  # noqa: E501


def test_what_an_export_and_a_simulation_leave_out_is_said(workspace: Workspace) -> None:
    (workspace.place / "a trace").write_text(SIZES)
    made = workspace.run("profile", "import", "a trace", "--out", "job.toml")
    assert made.returncode == 0, made.stderr
    assert "io_uring was used" in made.stderr
    said = "1 truncate, 1 allocate"
    exported = workspace.run("profile", "export", "job.toml", "job.log", "--format", "fio")
    assert said in " ".join(exported.stderr.split())
    simulated = workspace.run(
        "profile", "simulate", "job.toml", "--slots", "1", "--results", "results"
    )
    assert simulated.returncode == 0, simulated.stderr
    for trial in workspace.trials():
        assert trial["validity"]["valid"]
        assert [each["code"] for each in trial["validity"]["warnings"]] == ["not-modelled"]
    reported = workspace.run("report", "results")
    assert said in " ".join(reported.stdout.split())


def test_the_folder_that_why_keeps_is_a_profile(workspace: Workspace) -> None:
    (workspace.place / "input").write_bytes(bytes(100_000))
    code = "print(len(open('input', 'rb').read()))"
    kept = workspace.run("why", "--keep", "kept here", "--", sys.executable, "-c", code)
    assert kept.returncode == 0, kept.stderr
    shown = workspace.run("profile", "show", "kept here")
    assert shown.returncode == 0, shown.stderr
    assert "input" in shown.stdout
    # A profile beside the folder comes first.
    (workspace.place / "kept here.toml").write_text("nothing = 1\n")
    assert workspace.run("profile", "show", "kept here").returncode == 2
