"""Commands that are stopped by a signal, or whose terminal is closed, take everything down first.
Needs root."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from headrace.system.cgroups import hierarchy
from headrace.system.owned import OURS
from machine import loops_below, mounts_below
from workspace import HEADRACE, Workspace

STUDY = """
headrace = 1
title = "stopped"
[target.disk]
kind = "block"
{medium}
[workload.reads]
kind = "random"
file_size = "16 MiB"
duration = "60 s"
[[fault]]
what = "{fault}"
{how_much}
[plan]
repeats = {{ min = 1 }}
[run]
slots = 2
shortest = 0
cache = "as-is"
memory_limit = "500 MB"
"""
IMAGE = STUDY.format(
    medium='image = "disk.img"\nsize = "100 MB"', fault="disk-full", how_much='free = "1 MB"'
)
EMULATED = STUDY.format(
    medium='drive = "seagate-st3750640ns"\nsize = "256 MiB"',
    fault="slow-drive",
    how_much="factor = 3",
)

WRITES = """
headrace = 1
[target.mine]
kind = "path"
path = "storage"
create = true
[workload.writes]
kind = "command"
command = ["sh", "-c", "echo done > output; exec sleep 1000"]
"""


@pytest.fixture
def workspace(workspace: Workspace) -> Iterator[Workspace]:
    """With a place of its own for temporary files, whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="stop-") as temporary:
        workspace.environment["TMPDIR"] = temporary
        yield workspace


def wait_until(true: Callable[[], object], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 90
    while not true():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def programs_of(workspace: Workspace) -> list[str]:
    """Command lines of processes that were given this workspace's place for temporary files."""
    found: list[str] = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("TMPDIR") == workspace.environment["TMPDIR"]:
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


def reads(workspace: Workspace) -> bool:
    """Whether jobs of the study are at work."""
    return sum(line.startswith(("fio ", "/usr/bin/fio ")) for line in programs_of(workspace)) >= 2


def assert_nothing_left(workspace: Workspace, pid: int) -> None:
    assert programs_of(workspace) == []
    assert loops_below(workspace.place) == [] and mounts_below(workspace.place) == []
    assert list(Path(workspace.environment["TMPDIR"]).iterdir()) == []
    assert not (workspace.place / "disk.img").exists()
    groups = hierarchy("memory")
    assert groups is not None and list(groups.own.glob(f"headrace-{pid}-*")) == []
    assert list((workspace.place / "journals").iterdir()) == []


@pytest.mark.parametrize(
    ("text", "number"), [(IMAGE, signal.SIGTERM), (IMAGE, signal.SIGINT), (EMULATED, signal.SIGHUP)]
)
def test_a_study_that_is_stopped_leaves_nothing(
    text: str, number: signal.Signals, workspace: Workspace
) -> None:
    process = workspace.start_anew(
        "run", workspace.study(text), "--results", "results", "--cache-dir", workspace.cache
    )
    wait_until(lambda: reads(workspace), process)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, out + err
    assert "headrace resume results" in err and "Traceback" not in err
    assert_nothing_left(workspace, process.pid)


def test_a_study_whose_terminal_is_closed_leaves_nothing(workspace: Workspace) -> None:
    """The kernel sends SIGHUP to everything in the foreground, and nothing can be printed then."""
    ours, theirs = pty.openpty()
    arguments = [
        "run",
        str(workspace.study(EMULATED)),
        "--results",
        "results",
        "--cache-dir",
        str(workspace.cache),
    ]
    process = subprocess.Popen(
        ["setsid", "--ctty", str(HEADRACE), *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        text=True,
        cwd=workspace.place,
        env={**os.environ, **workspace.environment, "TERM": "xterm"},
    )
    os.close(theirs)
    os.set_blocking(ours, False)

    def at_work() -> bool:
        with contextlib.suppress(BlockingIOError):
            os.read(ours, 65536)
        return reads(workspace)

    wait_until(at_work, process)
    os.close(ours)
    assert process.wait(60) == 128 + signal.SIGHUP
    assert_nothing_left(workspace, process.pid)


def test_under_nohup_a_study_goes_on(workspace: Workspace, tiny: str) -> None:
    study = workspace.study(tiny.replace("min = 3", "min = 1"))
    process = subprocess.Popen(
        ["nohup", HEADRACE, "run", study, "--results", "results", "--cache-dir", workspace.cache],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=workspace.place,
        env={**os.environ, **workspace.environment},
    )
    wait_until((workspace.place / "results").exists, process)
    process.send_signal(signal.SIGHUP)
    _, err = process.communicate(timeout=120)
    assert process.returncode in (0, 5), err
    assert len(workspace.trials()) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_drive_whose_attaching_is_stopped_is_not_there(
    number: signal.Signals, workspace: Workspace
) -> None:
    process = workspace.start_anew("drive", "attach", "seagate-st3750640ns", "--size", "64MiB")
    wait_until(lambda: any("headrace-emulator" in line for line in programs_of(workspace)), process)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, out + err
    assert "stopped" in err and "Traceback" not in err and out == ""
    assert_nothing_left(workspace, process.pid)


def test_a_recorded_program_decides_about_a_hang_up(workspace: Workspace) -> None:
    """It is told, and what it did until its end is recorded."""
    ready: Path = workspace.place / "ready"
    script = f"trap 'echo last words; exit 7' HUP; touch {ready}; while :; do sleep 0.05; done"
    process = workspace.start_anew("record", "--out", "job.toml", "--", "sh", "-c", script)
    wait_until(ready.exists, process)
    process.send_signal(signal.SIGHUP)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (7, "last words\n"), err
    assert (workspace.place / "job.toml").exists()


@pytest.mark.parametrize("mine", [[], ["notes.txt"]])
def test_undo_removes_what_jobs_of_a_killed_run_wrote(
    mine: list[str], workspace: Workspace
) -> None:
    """In a directory of the user's, where nothing else removes it."""
    storage = workspace.place / "storage"
    for name in mine:
        storage.mkdir()
        (storage / name).write_text("mine")
    process = workspace.start_anew("run", workspace.study(WRITES), "--results", "results")
    output = storage / OURS / "scratch" / "job-0000" / "output"
    wait_until(output.exists, process)
    process.kill()
    process.communicate()
    undone = workspace.run("undo")
    assert undone.returncode == 0, undone.stdout + undone.stderr
    left = sorted(str(each.relative_to(storage)) for each in storage.rglob("*"))
    assert left == mine and storage.exists() == bool(mine), undone.stdout
    assert list((workspace.place / "journals").iterdir()) == []
