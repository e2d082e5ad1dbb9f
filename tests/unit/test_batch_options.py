"""`[run.batch]`: what is refused, and the job scripts that are made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace import launchers
from headrace.errors import StudyError
from headrace.launchers.batch.cluster import CONFIGURATION, check_listening
from headrace.launchers.batch.launcher import BatchLauncher
from headrace.launchers.batch.options import BatchOptions
from headrace.study import load_study_text

STUDY = """
headrace = 1
[target.shared]
kind = "path"
path = "data"
[workload.job]
kind = "command"
command = ["true"]
[run]
on = "{on}"
[run.batch]
{batch}
"""


@pytest.mark.parametrize(
    ("on", "batch", "field", "said"),
    [
        ("slurm", 'queue = "short; rm -rf x"', "run.batch.queue", "short; rm"),
        ("slurm", 'queue = "--uid=0"', "run.batch.queue", "--uid=0"),
        ("slurm", 'account = "a\\n#SBATCH -p b"', "run.batch.account", "given"),
        ("slurm", 'interface = "eth0 --host x"', "run.batch.interface", "eth0"),
        ("slurm", 'address = "$(id)"', "run.batch.address", "$(id)"),
        ("slurm", 'folder = "/tmp/a b"', "run.batch.folder", "/tmp/a b"),
        ("slurm", 'python = "/bin/python"', "run.batch", "is a field of [run]"),
        ("slurm", 'setup = "/a\\nb"', "run.batch.setup", "given"),
        ("slurm", 'directives = ["-C x\\nrm -rf y"]', "run.batch.directives", "one line"),
        ("slurm", 'directives = ["-C x\\\\"]', "run.batch.directives", "one line"),
        ("slurm", 'directives = ["rm"]', "run.batch", "an option begins with -"),
        ("slurm", 'interface = "lo"\naddress = "a"', "run.batch", "cannot both be given"),
        ("slurm", "partition = 1", "run.batch.partition", "queue"),
        ("slurm", 'parallel_environment = "smp"', "run.batch", "of sge alone"),
        ("sge", "", "run.batch", "cores is missing"),
        ("sge", "cores = 2", "run.batch", "parallel_environment"),
        ("sge", 'cores = 1\nmemory = "1 GB"', "run.batch", "mem_free"),
        ("htcondor", 'cores = 1\nqueue = "q"', "run.batch", "no queues"),
        ("htcondor", 'cores = 1\ndirectives = ["queue 9"]', "run.batch", "name = value"),
        ("htcondor", 'cores = 1\ndirectives = ["Executable = x"]', "run.batch", "set by"),
        ("local", "cores = 1", "run.batch", "no batch system"),
    ],
)
def test_a_value_that_could_do_harm_is_refused_by_its_field(
    on: str, batch: str, field: str, said: str
) -> None:
    with pytest.raises(StudyError) as refused:
        load_study_text(STUDY.format(on=on, batch=batch), file=Path("a.toml"), base=Path())
    (problem,) = refused.value.problems
    assert problem.field.startswith(field), str(problem)
    assert problem.line >= 10 and said in str(problem), str(problem)


def test_a_field_of_the_request_cannot_be_a_factor_by_itself() -> None:
    text = STUDY.format(on="slurm", batch='[factors]\n"run.batch.queue" = ["a", "b"]')
    with pytest.raises(StudyError, match="varied as a whole"):
        load_study_text(text, file=Path("a.toml"), base=Path())


RUN = """
headrace = 1
[target.here]
kind = "path"
path = "data"
[workload.job]
kind = "command"
command = ["true"]
[run]
{run}
[factors]
{factors}
"""


@pytest.mark.parametrize(
    ("run", "factors", "field"),
    [
        ('python = "/bin/python"', "", "run.python"),
        ('on = "dask://h:1"\npython = "/bin/python"', "", "run.python"),
        ('on = "local"\npython = "/bin/python"', "", "run.python"),
        ("batch = { cores = 1 }", "", "run.batch"),
        ("", '"run.batch" = [{ cores = 1 }, { cores = 2 }]', "factors.run.batch"),
        ('python = "/bin/python"', '"run.on" = ["local", "namespaces"]', "run.python"),
    ],
)
def test_a_field_that_no_launcher_of_the_study_reads_is_refused(
    run: str, factors: str, field: str
) -> None:
    text = RUN.format(run=run, factors=factors)
    with pytest.raises(StudyError) as refused:
        load_study_text(text, file=Path("a.toml"), base=Path())
    (problem,) = refused.value.problems
    assert problem.field == field and problem.line >= 9, str(problem)
    assert "nothing in this study uses it" in problem.problem
    assert ("ssh://HOST,HOST" in problem.allowed) == field.endswith("python")
    assert "slurm" in problem.allowed


@pytest.mark.parametrize(
    ("run", "factors"),
    [
        ('on = "ssh://h"\npython = "/bin/my python"', ""),
        ('on = "slurm"\npython = "/bin/my python"', ""),
        ('python = "/bin/python"', '"run.on" = ["local", "ssh://h"]'),
        ("", '"run.on" = ["slurm"]\n"run.batch" = [{ cores = 1 }, { cores = 2 }]'),
    ],
)
def test_python_and_batch_are_accepted_where_a_launcher_reads_them(run: str, factors: str) -> None:
    load_study_text(RUN.format(run=run, factors=factors), file=Path("a.toml"), base=Path())


def test_python_of_a_job_script_is_a_plain_path() -> None:
    text = RUN.format(run='on = "slurm"\npython = "/bin/$(id)"', factors="")
    with pytest.raises(StudyError, match=r"run.python.*\$\(id\)"):
        load_study_text(text, file=Path("a.toml"), base=Path())


def script(kind: str, **batch: Any) -> list[str]:
    import dask.config

    part = launchers.kinds()[kind]
    assert issubclass(part, BatchLauncher)
    options = BatchOptions.model_validate(batch)
    assert part.refuses_batch(options) is None
    with dask.config.set({"jobqueue.headrace": CONFIGURATION}):
        job = part.job_class()(
            "tls://127.0.0.1:1",
            name="headrace-1",
            config_name="headrace",
            processes=1,
            nanny=False,
            death_timeout=60,
            python="python",
            worker_extra_args=[],
            job_script_prologue=[],
            job_name="headrace",
            log_directory=None,
            **part.request(options),
        )
    return [line for line in job.job_script().splitlines() if line]


def test_job_scripts_request_what_the_study_says() -> None:
    slurm = script("slurm", queue="long", account="me", walltime="90 min", memory="2 GiB")
    assert {"#SBATCH -p long", "#SBATCH -A me", "#SBATCH --exclusive"} <= set(slurm)
    assert {"#SBATCH --mem=2G", "#SBATCH -t 01:30:00"} <= set(slurm)
    assert not any("cpus-per-task" in line for line in slurm)
    sge = script("sge", cores=4, parallel_environment="smp", directives=["-l fast"])
    assert {"#$ -pe smp 4", "#$ -l fast"} <= set(sge)
    pbs = script("pbs", cores=4, memory="1 GiB")
    assert "#PBS -l select=1:ncpus=4:mem=1073741824b" in pbs
    assert "#PBS -l place=excl" in script("pbs")
    condor = script("htcondor", cores=4, directives=["requirements = Memory > 1"])
    assert "MY.DaskWorkerCores = 4" in condor and "requirements = Memory > 1" in condor
    assert condor[-1] == "Queue" and not any(line.startswith("RequestMemory") for line in condor)


def test_where_this_machine_cannot_listen_is_said_before_anything_starts() -> None:
    def said(**batch: Any) -> str:
        return str(check_listening(BatchOptions.model_validate(batch)))

    assert said() == said(interface="lo") == said(address="127.0.0.1") == "None"
    assert "no network interface none0" in said(interface="none0")
    assert "cannot listen at 192.0.2.1: " in said(address="192.0.2.1")
    assert "cannot listen at host.invalid: " in said(address="host.invalid")


SQUEUE = """#!/bin/sh
echo "$*" >> "$0.calls"
echo "7 RUNNING (None)"
echo "9 PENDING (Resources)"
"""
SCONTROL = """#!/bin/sh
echo "JobId=$3 JobState=FAILED Reason=NonZeroExitCode ExitCode=1:0"
"""


def test_slurm_is_asked_once_for_all_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {"squeue": SQUEUE, "scontrol": SCONTROL}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    part = launchers.kinds()["slurm"]
    assert issubclass(part, BatchLauncher)
    running, ended, waiting = part.states(["7", "8", "9"])
    assert (running.over, waiting.over, ended.over) == (False, False, True)
    assert waiting.text == "PENDING (Resources)" and "ExitCode 1:0" in ended.text
    assert (tmp_path / "squeue.calls").read_text().count("7,8,9") == 1
