"""Studies on a real Grid Engine of three nodes (examples/gridengine/start)."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from batch_study import batch_study, exits, said_by
from headrace.system.waiting import wait_until
from workspace import HEADRACE, ROOT, Workspace

pytestmark = pytest.mark.heavy
EXAMPLE = ROOT / "examples" / "gridengine"
WHOLE = 'cores = 4\nparallel_environment = "smp"\n'


@pytest.fixture(scope="module")
def gridengine() -> Iterator[Path]:
    """A folder of a Grid Engine, in which batch jobs keep their credentials and logs."""
    with tempfile.TemporaryDirectory(prefix="headrace-test-", dir="/dev/shm") as place:
        folder = Path(place) / "gridengine"
        subprocess.run([EXAMPLE / "start", folder], check=True, timeout=120)
        (Path(place) / "shared").mkdir()
        try:
            yield Path(place)
        finally:
            subprocess.run([EXAMPLE / "stop", folder], check=True, timeout=120)
        assert not folder.exists()


@pytest.fixture
def here(workspace: Workspace, gridengine: Path) -> Workspace:
    """A workspace whose commands use this Grid Engine."""
    folder = gridengine / "gridengine"
    workspace.environment |= {
        "SGE_ROOT": str(folder),
        "PATH": f"{folder}/bin:{os.environ['PATH']}",
    }
    return workspace


def queue(here: Workspace) -> list[str]:
    """The number, state and queue of each job."""
    fields = [line.split() for line in said_by(here, "qstat")[2:]]
    return [" ".join([each[0], each[4], each[7]]) for each in fields]


def nothing_left(here: Workspace, gridengine: Path) -> bool:
    return wait_until(lambda: not queue(here), 60, 0.2) and not list(
        (gridengine / "shared").iterdir()
    )


def test_a_study_runs_on_three_nodes_with_two_requests(here: Workspace, gridengine: Path) -> None:
    folder = f'folder = "{gridengine}/shared"'
    levels = (
        f'{{ cores = 4, parallel_environment = "smp", {folder} }}',
        f'{{ cores = 1, queue = "main", {folder} }}',
    )
    factors = f'[factors]\n"run.batch" = [{", ".join(levels)}]'
    file = batch_study(here, "sge", gridengine, WHOLE, factors=factors)
    ended = here.run("run", file, "--results", "results")
    assert ended.returncode in (0, 5), ended.stdout + ended.stderr  # other tests' I/O may spoil it
    trials = here.trials()
    assert [trial["status"] for trial in trials] == ["done"] * 2, trials
    assert {(trial["run"]["on"], trial["run"]["nodes"]) for trial in trials} == {("sge", 3)}
    assert exits(here) == ["ok"] * 12
    planned = here.run("plan", file).stdout
    assert "cores 1," in planned and "{" not in planned + ended.stdout, "tables are in words"
    assert "Traceback" not in ended.stdout + ended.stderr
    assert nothing_left(here, gridengine), "jobs, credentials and logs are gone"


@pytest.mark.parametrize(
    ("batch", "run", "said"),
    [
        (WHOLE + 'queue = "nowhere"', "", 'unknown queue "nowhere"'),
        ('cores = 2\nparallel_environment = "nowhere"', "", '"nowhere" does not exist'),
        (WHOLE + 'directives = ["-l nowhere=1"]', "", 'unknown resource "nowhere"'),
        (WHOLE + 'queue = "closed"\npatience = "3 s"', "", "dropped because it is disabled"),
        (WHOLE + 'directives = ["-l mem_free=900T"]\npatience = "3 s"', "", "it offers only"),
        ('cores = 5\nparallel_environment = "smp"\npatience = "3 s"', "", "only offers 0 slots"),
        (WHOLE, 'python = "/nowhere/bin python"', "No such file or directory"),
    ],
    ids=["queue", "environment", "resource", "never starts", "memory", "cores", "no Python"],
)
def test_what_grid_engine_says_is_the_cause(
    here: Workspace, gridengine: Path, batch: str, run: str, said: str
) -> None:
    file = batch_study(here, "sge", gridengine, batch, run=run)
    ended = here.run("run", file, "--results", "results")
    assert ended.returncode == 5, ended.stdout + ended.stderr
    (trial,) = here.trials()
    assert said in trial["cause"], trial["cause"]
    assert "Traceback" not in ended.stdout + ended.stderr
    assert nothing_left(here, gridengine), "its jobs are cancelled"


def test_a_batch_job_that_is_deleted_makes_its_trial_invalid_with_what_grid_engine_says(
    here: Workspace, gridengine: Path
) -> None:
    file = batch_study(here, "sge", gridengine, WHOLE, seconds=20)
    command = here.start("run", file, "--results", "results")
    there = Path("/proc").glob
    try:
        assert wait_until(
            lambda: (
                sum(_words(each) == ["/bin/sleep", "20"] for each in there("[0-9]*/cmdline")) == 6
            ),
            120,
            0.2,
        )
        (number,) = [job.split()[0] for job in queue(here) if job.endswith("main@node2")]
        said_by(here, "qdel", number)
        out, err = command.communicate(timeout=180)
    finally:
        command.kill()
    assert command.returncode == 5 and "Traceback" not in out + err, out + err
    (trial,) = here.trials()
    (reason,) = [each for each in trial["validity"]["reasons"] if each["code"] == "node-lost"]
    said = f"sge job {number}: failed 100 : assumedly after job, exit_status 137 (Killed)"
    assert said in reason["text"], reason
    assert nothing_left(here, gridengine)


def _words(file: Path) -> list[str]:
    """The command line of a process, if it is there still."""
    try:
        return file.read_text().split("\0")[:-1]
    except OSError:
        return []


def test_a_killed_command_leaves_nothing_after_undo(here: Workspace, gridengine: Path) -> None:
    file = batch_study(here, "sge", gridengine, WHOLE, seconds=300)
    words = [HEADRACE, "run", file, "--results", "results"]
    environment = {**os.environ, **here.environment}
    with subprocess.Popen(words, env=environment, cwd=here.place) as command:
        on = [f"r main@node{number}" for number in (1, 2, 3)]
        assert wait_until(
            lambda: sorted(job.split(" ", 1)[1] for job in queue(here)) == on, 120, 0.2
        )
        assert len(list((gridengine / "shared").glob("*/*.sh"))) == 3, "job scripts"
        os.kill(command.pid, signal.SIGKILL)
    undone = here.run("undo")
    assert undone.returncode == 0, undone.stdout + undone.stderr
    assert undone.stdout.count("sge job") == 3, undone.stdout
    assert nothing_left(here, gridengine)
