"""Studies on a real Slurm of three nodes, started by examples/slurm/start as users do, and its jobs
watched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from batch_study import batch_study, exits, said_by
from headrace.system.waiting import wait_until
from workspace import HEADRACE, ROOT, Workspace

EXAMPLE = ROOT / "examples" / "slurm"


@pytest.fixture(scope="module")
def slurm() -> Iterator[Path]:
    """A folder of a Slurm, in which batch jobs keep their credentials and logs."""
    with tempfile.TemporaryDirectory(prefix="headrace-test-", dir="/dev/shm") as place:
        folder = Path(place) / "slurm"
        subprocess.run([EXAMPLE / "start", folder], check=True, timeout=120)
        (Path(place) / "shared").mkdir()
        try:
            yield Path(place)
        finally:
            subprocess.run([EXAMPLE / "stop", folder], check=True, timeout=120)
        assert not folder.exists()


@pytest.fixture
def here(workspace: Workspace, slurm: Path) -> Workspace:
    """A workspace whose commands use this Slurm."""
    workspace.environment["SLURM_CONF"] = str(slurm / "slurm" / "slurm.conf")
    return workspace


def queue(here: Workspace) -> list[str]:
    return said_by(here, "squeue", "-h", "-o", "%j %T")


def test_a_study_runs_on_three_nodes_and_leaves_nothing(here: Workspace, slurm: Path) -> None:
    ended = here.run("run", batch_study(here, "slurm", slurm, "cores = 4"), "--results", "results")
    assert ended.returncode in (0, 5), ended.stdout + ended.stderr  # other tests' I/O may spoil it
    (trial,) = here.trials()
    assert trial["status"] == "done", trial
    assert (trial["run"]["on"], trial["run"]["nodes"]) == ("slurm", 3)
    assert exits(here) == ["ok"] * 6
    assert "Traceback" not in ended.stdout + ended.stderr
    assert wait_until(lambda: not queue(here), 60, 0.2)
    assert list((slurm / "shared").iterdir()) == [], "credentials and logs are gone"


@pytest.mark.parametrize(
    ("batch", "run", "said"),
    [
        ('cores = 4\nqueue = "nowhere"', "", "invalid partition specified"),
        ('cores = 4\nqueue = "closed"\npatience = "2 s"', "", "PENDING (PartitionDown)"),
        ("cores = 4", 'python = "/nowhere/bin python"', "No such file or directory"),
        ('cores = 4\nsetup = "/nowhere/my setup"', "", "setup: /nowhere/my setup cannot be read"),
    ],
    ids=["no such partition", "never starts", "no Python", "no setup"],
)
def test_what_slurm_says_is_the_cause(
    here: Workspace, slurm: Path, batch: str, run: str, said: str
) -> None:
    ended = here.run(
        "run", batch_study(here, "slurm", slurm, batch, run=run), "--results", "results"
    )
    assert ended.returncode == 5, ended.stdout + ended.stderr
    (trial,) = here.trials()
    assert said in trial["cause"], trial["cause"]
    assert "Traceback" not in ended.stdout + ended.stderr
    assert wait_until(lambda: not queue(here), 60, 0.2), "its jobs are cancelled"
    assert list((slurm / "shared").iterdir()) == []


def test_a_killed_command_leaves_nothing_after_undo(here: Workspace, slurm: Path) -> None:
    file = batch_study(here, "slurm", slurm, "cores = 4", seconds=300)
    words = [HEADRACE, "run", file, "--results", "results"]
    environment = {**os.environ, **here.environment}
    with subprocess.Popen(words, env=environment, cwd=here.place) as command:
        assert wait_until(lambda: len(queue(here)) == 3, 120, 0.2)
        assert len(list((slurm / "shared").glob("*/*.sh"))) == 3, "scripts are not in /tmp"
        os.kill(command.pid, signal.SIGKILL)
    configuration = here.environment.pop("SLURM_CONF")
    undone = here.run("undo")
    here.environment["SLURM_CONF"] = configuration
    assert undone.returncode == 6
    assert "scancel finds no slurm here" in " ".join(undone.stdout.split()), undone.stdout
    undone = here.run("undo")
    assert undone.returncode == 0, undone.stdout + undone.stderr
    assert undone.stdout.count("slurm job") == 3, undone.stdout
    assert wait_until(lambda: not queue(here), 60, 0.2)
    assert list((slurm / "shared").iterdir()) == []


def test_ctrl_c_in_the_queue_stops_the_study(here: Workspace, slurm: Path) -> None:
    batch = 'cores = 4\nqueue = "closed"'
    command = here.start_anew("run", batch_study(here, "slurm", slurm, batch), "--results", "r")
    with command:
        try:
            assert wait_until(lambda: len(queue(here)) == 3, 60, 0.2), "no job is queued"
            command.send_signal(signal.SIGINT)
            _, said = command.communicate(timeout=60)
        finally:
            command.kill()
    assert command.returncode == 130, said
    assert "stopped; everything was restored. To continue: headrace resume r" in said
    assert not queue(here) and list((slurm / "shared").iterdir()) == []
    assert not list(here.place.glob("r/trials/*")), "a trial that was stopped has no record"


def test_missing_commands_are_said_before_anything_starts(here: Workspace, slurm: Path) -> None:
    here.environment["PATH"] = str(Path(sys.executable).parent)
    ended = here.run("run", batch_study(here, "slurm", slurm, "cores = 4"), "--results", "results")
    text = " ".join((ended.stdout + ended.stderr).split())
    assert ended.returncode == 3, text
    assert "sbatch, squeue, scancel, scontrol: not found; they belong to slurm" in text
    assert not here.trials()


def test_watch_tells_what_jobs_of_slurm_do(here: Workspace, slurm: Path) -> None:
    """One job computes in a child of its script, the other sleeps."""
    submit = ["sbatch", "--parsable", "--output", str(slurm / "shared" / "log"), "--wrap"]
    (busy,) = said_by(here, *submit, "while :; do :; done & wait")
    (asleep,) = said_by(here, *submit, "sleep 600")
    try:
        assert wait_until(lambda: queue(here) == ["wrap RUNNING"] * 2, 60, 0.2)
        ended = here.run(
            *("watch", "--slurm", busy, "--slurm", asleep, "--once", "--json", "--interval", "3 s")
        )
        jobs = watched(ended)
        assert sorted(jobs) == sorted([f"slurm {busy}", f"slurm {asleep}"])
        ledger = jobs[f"slurm {busy}"]["total"]
        runs = (ledger["on_cpu_s"] + ledger["wait_cpu_s"]) / ledger["wall_s"]
        assert runs == pytest.approx(1, abs=0.05), "on a CPU, or no CPU is free"
        assert ledger["on_cpu_s"] > 0.1 and jobs[f"slurm {busy}"]["processes"] >= 2
        ledger = jobs[f"slurm {asleep}"]["total"]
        assert ledger["other_s"] / ledger["wall_s"] == pytest.approx(1, abs=0.05)
        of_all = watched(here.run("watch", "--all", "--once", "--json", "--interval", "1 s"))
        assert {f"slurm {busy}", f"slurm {asleep}"} <= set(of_all)
        assert of_all[f"slurm {busy}"]["processes"] == jobs[f"slurm {busy}"]["processes"]
        refused = here.run("watch", "--slurm", "999999", "--once")
        assert refused.returncode == 2 and "no such job runs on this node" in refused.stderr
    finally:
        said_by(here, "scancel", busy, asleep)
        assert wait_until(lambda: not queue(here), 60, 0.2)
        (slurm / "shared" / "log").unlink(missing_ok=True)


def watched(ended: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    """The jobs of a look, by key."""
    assert ended.returncode == 0, ended.stderr
    return {job["key"]: job for job in json.loads(ended.stdout)["jobs"]}


@pytest.mark.parametrize(
    ("kind", "commands", "words"),
    [
        ("slurm", ("squeue", "scontrol", "scancel", "sbatch"), "Could not establish a "
         "configuration source"),
        ("sge", ("qstat", "qdel", "qsub"), "Unable to initialize environment because of error"),
    ],
)  # fmt: skip
def test_commands_that_know_no_server_leave_nothing_to_undo(
    workspace: Workspace, tmp_path: Path, kind: str, commands: tuple[str, ...], words: str
) -> None:
    for name in commands:
        (tmp_path / name).write_text(f'#!/bin/sh\necho "{name}: {words}" >&2\nexit 1\n')
        (tmp_path / name).chmod(0o755)
    (tmp_path / "shared").mkdir()
    workspace.environment["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    study = batch_study(workspace, kind, tmp_path, "cores = 1")
    workspace.run("run", study, "--results", "results")
    (trial,) = workspace.trials()
    assert f"{commands[-1]} finds no {kind} here: {commands[-1]}: {words}" in trial["cause"]
    undone = workspace.run("undo")
    assert undone.returncode == 0 and "headrace-" not in undone.stdout, undone.stdout
