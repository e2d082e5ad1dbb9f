"""What recording, replaying and tracing say of bad input, by the real command line.

One message, the right exit code, nothing left behind.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from workspace import Workspace

REAL = Path(__file__).parents[1] / "golden" / "traces" / "random"
BAD_INPUT = 2

READS = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
for n in range(200): os.pread(fd, 100, 100 * n)
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(
        tmp_path, tmp_path / "cache", {"HEADRACE_JOURNAL_DIR": str(tmp_path / "journal")}
    )


@pytest.fixture
def data(workspace: Workspace) -> Path:
    path = workspace.place / "data.bin"
    path.write_bytes(os.urandom(100_000))
    return path


def said(ended: subprocess.CompletedProcess[str]) -> str:
    assert "Traceback" not in ended.stderr
    return " ".join(ended.stderr.split())


def recorded(workspace: Workspace, data: Path) -> Path:
    ended = workspace.run("record", "--out", "job.toml", "--", sys.executable, "-c", READS, data)
    assert ended.returncode == 0, ended.stderr
    return workspace.place / "job.toml"


def static_program(workspace: Workspace) -> Path:
    source, program = workspace.place / "static.c", workspace.place / "static"
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run(["cc", "-static", "-o", program, source], check=True)
    return program


def set_uid_program(workspace: Workspace) -> Path:
    program = workspace.place / "changed"
    shutil.copy("/bin/cat", program)
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    return program


def test_a_program_that_is_not_there_is_said(workspace: Workspace) -> None:
    ended = workspace.run("record", "--out", "x.toml", "--", "no-such-program-anywhere")
    assert ended.returncode == BAD_INPUT
    assert said(ended).startswith("headrace: no-such-program-anywhere: no such program")
    assert not (workspace.place / "x.toml").exists()


@pytest.mark.parametrize(
    ("make", "reason"),
    [(static_program, "it is static"), (set_uid_program, "it is set-uid or set-gid")],
)
def test_a_program_that_cannot_be_seen_into_is_refused_with_the_reason_and_another_way(
    workspace: Workspace, make: object, reason: str
) -> None:
    program = make(workspace)  # type: ignore[operator]
    ended = workspace.run("record", "--out", "x.toml", "--", program, "x")
    assert ended.returncode == BAD_INPUT
    assert f"{program} cannot be recorded: {reason}" in said(ended) and "strace -f -ttt" in said(
        ended
    )
    assert not (workspace.place / "x.toml").exists()


def test_a_program_that_is_killed_leaves_a_profile_up_to_there(
    workspace: Workspace, data: Path
) -> None:
    code = READS + "os.kill(os.getpid(), 9)\n"
    ended = workspace.run("record", "--out", "job.toml", "--", sys.executable, "-c", code, data)
    assert ended.returncode == 128 + 9
    assert "was killed or ended unseen: the profile is complete up to there" in said(ended)
    shown = json.loads(workspace.run("profile", "show", "job.toml", "--json").stdout)
    used = next(file for file in shown["files"] if file["path"] == str(data))
    assert (used["reads"], used["bytes_read"]) == (200, 20_000)


def test_recording_that_is_interrupted_keeps_what_there_is(
    workspace: Workspace, data: Path
) -> None:
    code = READS + "import signal, time\nos.kill(os.getppid(), signal.SIGTERM)\ntime.sleep(30)\n"
    ended = workspace.run("record", "--out", "job.toml", "--", sys.executable, "-c", code, data)
    assert ended.returncode == 128 + 15, ended.stderr
    shown = json.loads(workspace.run("profile", "show", "job.toml", "--json").stdout)
    assert next(file for file in shown["files"] if file["path"] == str(data))["reads"] == 200
    assert not list(workspace.place.glob(".headrace-record-*"))


REPLAY = """
headrace = 1
title = "again"
[target.here]
kind = "path"
path = "."
[workload.job]
kind = "replay"
profile = "job.toml"
place = "recorded"
[run]
cache = "as-is"
shortest = 0
"""


def test_files_that_are_gone_at_replay_are_named_before_anything_runs(
    workspace: Workspace, data: Path
) -> None:
    recorded(workspace, data)
    study = workspace.study(REPLAY)
    data.unlink()
    ended = workspace.run("run", study, "--results", "results")
    assert ended.returncode == 3, ended.stderr
    assert f"{data}: the file is gone, and the profile job reads it" in said(ended)
    assert 'leave place = "recorded" out' in said(ended)
    assert not (workspace.place / "results").exists()


def test_steps_that_are_gone_are_said(workspace: Workspace, data: Path) -> None:
    recorded(workspace, data).with_suffix(".steps.parquet").unlink()
    ended = workspace.run("profile", "show", "job.toml")
    assert ended.returncode == BAD_INPUT
    assert "the file with the profile's steps is missing" in said(ended)


def test_a_profile_of_a_newer_version_is_refused(workspace: Workspace, data: Path) -> None:
    table = recorded(workspace, data)
    table.write_text(re.sub(r"\nversion = \d+\n", "\nversion = 99\n", table.read_text()))
    for arguments in (
        ("profile", "show", table),
        ("profile", "simulate", table),
        ("profile", "export", table, "x.csv"),
    ):
        ended = workspace.run(*arguments)
        assert ended.returncode == BAD_INPUT
        assert "newer Headrace: version 99" in said(ended), ended.stderr
    assert not (workspace.place / "x.csv").exists()


def test_a_trace_of_another_device_is_refused_and_says_of_which_it_is(workspace: Workspace) -> None:
    place = workspace.place / "captured"
    place.mkdir()
    for cpu in (0, 1):
        shutil.copy(f"{REAL}.blktrace.{cpu}", place / f"loop0.blktrace.{cpu}")
    values = {
        "trace": 1, "devices": ["loop0"], "files": ["loop0.blktrace.0", "loop0.blktrace.1"],
        "begin_monotonic_ns": 0, "lost": 0,
    }  # fmt: skip
    (place / "trace.json").write_text(json.dumps(values))
    for command in (
        ("show", place),
        ("convert", place, "x.csv"),
        ("plot", place, "--out", "x.png"),
    ):
        ended = workspace.run("trace", *command, "--device", "sdb")
        assert ended.returncode == BAD_INPUT
        assert "this trace is of another device (given: sdb); allowed: loop0" in said(ended)
    assert not list(workspace.place.glob("x.*"))
    # A trace of others has numbers, not names.
    ended = workspace.run("trace", "show", REAL, "--device", "8:0")
    assert ended.returncode == BAD_INPUT and "holds no requests of this device" in said(ended)


def test_an_empty_trace_is_said_to_be_empty(workspace: Workspace) -> None:
    (workspace.place / "empty.blktrace.0").write_bytes(b"")
    (workspace.place / "empty.csv").write_text("time_ns,op,sector,sectors\n")
    for name, words in (("empty", "is empty"), ("empty.csv", "holds no requests")):
        for command in (("trace", "show", name), ("trace", "plot", name, "--out", "x.svg")):
            ended = workspace.run(*command)
            assert ended.returncode == BAD_INPUT, ended.stderr
            assert words in said(ended)
    assert not (workspace.place / "x.svg").exists()
