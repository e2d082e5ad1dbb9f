"""`headrace trace` as a user has it: run, show, plot, convert.

And a study whose trials keep their traces.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.system.waiting import wait_until
from workspace import Workspace

REAL = Path(__file__).parents[1] / "golden" / "traces" / "random"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(
        tmp_path, tmp_path / "cache", {"HEADRACE_JOURNAL_DIR": str(tmp_path / "journal")}
    )


@pytest.mark.machine  # no event may be lost, for which its reader needs a CPU
def test_a_trial_keeps_its_trace_which_is_shown_and_drawn(workspace: Workspace) -> None:
    study = workspace.study(
        """
headrace = 1
title = "traced"
[target.disk]
kind = "block"
image = "disk.img"
size = "256 MiB"
filesystem = "ext4"
[workload.load]
kind = "random"
duration = "1 s"
file_size = "32 MiB"
[run]
trace = true
shortest = 0
[plan]
repeats = { min = 1 }
"""
    )
    ended = workspace.measure(study)
    # 5: on a machine with busy neighbours the load may be bound by the CPU, which is no matter
    # here.
    assert ended.returncode in (0, 5), ended.stderr
    (trial,) = workspace.trials()
    traced = trial["probes"]["trace"]
    assert traced["lost"] == 0 and traced["events"] > 100
    (device,) = traced["devices"]
    assert traced["devices"][device]["requests"] > 30
    (folder,) = workspace.place.glob("results/trials/*/trace")
    shown = json.loads(workspace.run("trace", "show", folder, "--json").stdout)
    assert shown["total"]["requests"] == traced["devices"][device]["requests"]
    drawn = workspace.run(
        "trace", "plot", folder, folder, "--label", "a", "--label", "b", "--out", "picture.png"
    )
    assert drawn.returncode == 0 and (workspace.place / "picture.png").stat().st_size > 10_000


def test_show_and_convert_of_a_given_trace(workspace: Workspace) -> None:
    shown = workspace.run("trace", "show", REAL)
    assert shown.returncode == 0
    for words in ("fio", "D2C", "seeks", "closeness", "16"):
        assert words in shown.stdout, words
    assert workspace.run("trace", "convert", REAL, "out.iolog").returncode == 0
    assert (workspace.place / "out.iolog").read_text().startswith("fio version 3 iolog\n")
    replayed = workspace.run("drive", "replay", "wd-wd3200bekt", REAL, "--out", "replayed.csv")
    assert replayed.returncode == 0
    simulated = json.loads(workspace.run("trace", "show", "replayed.csv", "--json").stdout)
    assert simulated["total"]["requests"] == 2000
    assert simulated["total"]["dispatch_to_complete"]["p50_ns"] > 1e6


def test_a_trace_that_does_not_start_leaves_no_folder(workspace: Workspace) -> None:
    device = next(Path("/sys/class/block").iterdir()).name
    script = workspace.place / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    for words in (("--with", "foo", "--", "true"), ("--", "./script")):
        ended = workspace.run("trace", "run", "--device", device, "--out", "a/b", *words)
        assert ended.returncode != 0 and "headrace undo" not in ended.stderr
        assert not (workspace.place / "a").exists(), ended.stderr


@pytest.mark.parametrize("seconds", ["1e300", "inf"])
def test_a_capture_longer_than_the_clock_counts_ends_with_ctrl_c(
    workspace: Workspace, seconds: str
) -> None:
    device = next(Path("/sys/class/block").iterdir()).name
    command = ["capture", "--device", device, "--out", "long", "--seconds", seconds]
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace", "trace", *command],
        cwd=workspace.place,
        env={**os.environ, **workspace.environment},
    )
    try:
        assert wait_until((workspace.place / "long").exists, 60, 0.1)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    assert (workspace.place / "long" / "trace.json").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("show", "nothing"), 2, "no such trace"),
        (("run", "--device", "nothing", "--", "true"), 6, "no such device"),
        (("capture", "--device", "/dev/null"), 6, "is not a block device"),
        (("plot", REAL, "--out", "x.bmp"), 2, "not a kind of picture"),
        (("plot", REAL, "--label", "a", "--label", "b", "--out", "x.png"), 2, "one for each trace"),
    ],
)
def test_mistakes_are_one_message(
    workspace: Workspace, arguments: tuple[object, ...], code: int, words: str
) -> None:
    ended = workspace.run("trace", *arguments)
    assert ended.returncode == code
    assert words in " ".join(ended.stderr.split())
