"""Studies on a real Slurm of three nodes, started by examples/slurm/start as users do, and its jobs
watched."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
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


SITE_SBATCH = """#!/bin/sh
echo "Welcome to cluster 9: 3 nodes are up"
exec {sbatch} "$@"
"""


def test_variables_of_the_user_and_words_of_the_site_change_nothing(
    here: Workspace, slurm: Path
) -> None:
    """The study names the partition; jobs have the name by which undo finds them."""
    sbatch = shutil.which("sbatch")
    (here.place / "bin").mkdir()
    (here.place / "bin" / "sbatch").write_text(SITE_SBATCH.format(sbatch=sbatch))
    (here.place / "bin" / "sbatch").chmod(0o755)
    here.environment |= {
        "PATH": f"{here.place}/bin:{os.environ['PATH']}",
        "SBATCH_PARTITION": "closed",
        "SBATCH_JOB_NAME": "mine",
        "SBATCH_ARRAY_INX": "1-2",
    }
    directive = r"""directives = ['--comment="two words"']"""
    batch = f'cores = 4\nqueue = "main"\npatience = "20 s"\n{directive}'
    command = here.start("run", batch_study(here, "slurm", slurm, batch), "--results", "results")
    seen = set[str]()

    def ended() -> bool:
        seen.update(said_by(here, "squeue", "-h", "-t", "all", "-n", names(), "-o", "%P %k"))
        return command.poll() is not None

    def names() -> str:
        return ",".join({file.parent.name for file in (slurm / "shared").glob("*/*.sh")}) or "none"

    try:
        assert wait_until(ended, 120, 0.2)
        out, err = command.communicate(timeout=60)
    finally:
        command.kill()
    (trial,) = here.trials()
    assert trial["status"] == "done", f"{trial['cause']} {out} {err}"
    assert seen == {"main two words"}, "no job of this name, or others"
    assert wait_until(lambda: not queue(here), 60, 0.2)


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


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (["scancel", "{job}"], "CANCELLED"),
        (["scontrol", "update", "node=node2", "state=down", "reason=test"], "NODE_FAIL"),
    ],
    ids=["cancelled by hand", "the node fails"],
)
def test_a_job_that_ends_in_a_trial_is_a_lost_node_in_words(
    here: Workspace, slurm: Path, words: list[str], state: str
) -> None:
    """The record says it; Dask's own words and tracebacks are not on the terminal."""
    file = batch_study(here, "slurm", slurm, "cores = 4", seconds=9)
    command = here.start("run", file, "--results", "results")
    try:
        assert wait_until(lambda: running("/bin/sleep", "9") == 6, 120, 0.2)
        (number,) = said_by(here, "squeue", "-h", "-w", "node2", "-o", "%i")
        said_by(here, *(word.format(job=number) for word in words))
        out, err = command.communicate(timeout=180)
    finally:
        command.kill()
    assert command.returncode == 5, out + err
    (trial,) = here.trials()
    (lost,) = [each for each in trial["validity"]["reasons"] if each["code"] == "node-lost"]
    assert f"slurm job {number}: JobState {state}" in lost["text"], lost
    assert "distributed" not in out + err and "Traceback" not in out + err, out + err
    assert wait_until(lambda: not queue(here), 60, 0.2)


def test_trials_run_on_as_many_nodes_as_the_queue_gives(here: Workspace, slurm: Path) -> None:
    batch, factors = 'cores = 4\npatience = "8 s"', "[factors]\nnodes = [1, 5]"
    file = batch_study(here, "slurm", slurm, batch, factors=factors)
    file.write_text(file.read_text().replace("\nnodes = 3\n", "\n"))
    ended = here.run("run", file, "--results", "results")
    assert ended.returncode == 5, ended.stdout + ended.stderr
    few, many = sorted(here.trials(), key=lambda trial: trial["run"]["nodes"])
    assert (few["status"], few["run"]["nodes"]) == ("done", 1), few["cause"]
    assert (many["status"], many["run"]["nodes"]) == ("failed", 5)
    assert "2 of the batch jobs are not there after 8 s" in many["cause"]
    said = " ".join((ended.stdout + ended.stderr).split())
    assert "to run the 1 failed trial again: headrace resume" in said, said
    assert wait_until(lambda: not queue(here), 60, 0.2)
    assert list((slurm / "shared").iterdir()) == []


def test_a_job_without_a_log_tells_of_the_folder_that_nodes_must_share(
    here: Workspace, slurm: Path
) -> None:
    """Slurm cannot open the log on a node that does not see the folder."""
    batch = 'cores = 4\ndirectives = ["--output=/nowhere/log"]'
    ended = here.run("run", batch_study(here, "slurm", slurm, batch), "--results", "results")
    assert ended.returncode == 5, ended.stdout + ended.stderr
    (trial,) = here.trials()
    assert "(no log)" in trial["cause"] and "ended before its worker" in trial["cause"]
    assert f"cannot write to {slurm}/shared starts no job" in trial["cause"], trial["cause"]
    assert "[run.batch] folder" in trial["cause"]
    assert wait_until(lambda: not queue(here), 60, 0.2)


def running(*words: str) -> int:
    """How many processes have this command line."""
    found = 0
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += file.read_text().split("\0")[:-1] == list(words)
    return found


SILENT = """#!/bin/sh
echo "slurm_load_jobs error: Socket timed out on send/recv operation" >&2
exit 1
"""


def test_jobs_that_a_silent_server_keeps_are_named_after_a_stop(
    here: Workspace, slurm: Path
) -> None:
    """It is not said that everything was restored."""
    batch = 'cores = 4\nqueue = "closed"'
    (here.place / "bin").mkdir()
    here.environment["PATH"] = f"{here.place}/bin:{os.environ['PATH']}"
    command = here.start_anew("run", batch_study(here, "slurm", slurm, batch), "--results", "r")
    with command:
        try:
            assert wait_until(lambda: len(queue(here)) == 3, 60, 0.2), "no job is queued"
            (here.place / "bin" / "scancel").write_text(SILENT)
            (here.place / "bin" / "scancel").chmod(0o755)
            command.send_signal(signal.SIGINT)
            _, said = command.communicate(timeout=60)
        finally:
            command.kill()
    said = " ".join(said.split())
    assert command.returncode == 130, said
    assert "everything was restored" not in said
    assert "stopped; could not restore: slurm job" in said and "headrace undo" in said, said
    (here.place / "bin" / "scancel").unlink()
    undone = here.run("undo")
    assert undone.returncode == 0 and undone.stdout.count("cancelled") == 3, undone.stdout
    assert wait_until(lambda: not queue(here), 60, 0.2)
    assert list((slurm / "shared").iterdir()) == []


def test_a_server_that_does_not_answer_is_no_wrong_request(
    workspace: Workspace, tmp_path: Path
) -> None:
    for name in ("squeue", "scontrol", "scancel", "sbatch"):
        (tmp_path / name).write_text(SILENT)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "shared").mkdir()
    before = os.environ["PATH"]
    workspace.environment["PATH"] = f"{tmp_path}:{before}"
    ended = workspace.run("run", batch_study(workspace, "slurm", tmp_path, ""), "--results", "r")
    assert ended.returncode == 6, "its job may be in the queue"
    (trial,) = workspace.trials("r")
    assert "the server of slurm does not answer sbatch: slurm_load_jobs error" in trial["cause"]
    assert "correct [run.batch]" not in trial["cause"], trial["cause"]
    assert [each["code"] for each in trial["validity"]["reasons"]] == ["node-lost"], "tried again"
    (tmp_path / "scancel").write_text("#!/bin/sh\nexit 0\n")
    assert workspace.run("undo").returncode == 0


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
