"""`[run.batch]`: what is refused, and the job scripts that are made of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace import launchers
from headrace.errors import StudyError
from headrace.launchers.batch.cluster import (
    CONFIGURATION,
    check_listening,
    import_dask_jobqueue,
)
from headrace.launchers.batch.launcher import BatchLauncher
from headrace.launchers.batch.options import BatchOptions
from headrace.study import load_study_text
from headrace.system import batch_jobs

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
        ("local", "cores = 1", "run.batch", "not a batch system"),
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


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ('folder = "/shared/my folder"', "a path from / or ~/, of letters, digits and"),
        ('queue = "long jobs"', "letters, digits and _ . , @"),
        ('interface = "ib 0"', "the name of a network interface"),
        ('address = "10.0.0.1 "', "an IP address or the name of a host"),
        ('setup = "setup.sh"', "a path from / without $"),
    ],
)
def test_what_a_text_may_be_is_told_in_words(batch: str, words: str) -> None:
    with pytest.raises(StudyError) as error:
        load_study_text(STUDY.format(on="slurm", batch=batch), file=Path("a.toml"), base=Path())
    assert words in str(error.value), error.value
    assert "^" not in str(error.value), "no regular expression"


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

    import_dask_jobqueue()
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
    assert "#PBS -l place=exclhost" in script("pbs")
    condor = script("htcondor", cores=4, directives=["requirements = Memory > 1"])
    assert "MY.DaskWorkerCores = 4" in condor and "requirements = Memory > 1" in condor
    assert condor[-1] == "Queue" and not any(line.startswith("RequestMemory") for line in condor)


def test_a_batch_job_begins_in_the_folder_that_the_nodes_share() -> None:
    """It began in the folder of the submission: HTCondor holds a job whose node does not see it,
    Grid Engine puts it into an error state."""
    condor = script("htcondor", cores=1, folder="/shared/me")
    assert "initialdir = /shared/me" in condor
    sge = script("sge", cores=1, folder="/shared/me")
    assert "#$ -wd /shared/me" in sge and "#$ -cwd" not in sge
    own = script("htcondor", cores=1, folder="/shared/me", directives=["InitialDir = /mine"])
    assert [line for line in own if "initialdir" in line.lower()] == ["InitialDir = /mine"]
    own = script("sge", cores=1, folder="/shared/me", directives=["-wd /mine"])
    assert own.index("#$ -wd /mine") > own.index("#$ -wd /shared/me"), "the last one holds"


def test_memory_of_slurm_is_not_rounded_up_to_whole_gib() -> None:
    assert "#SBATCH --mem=1536M" in script("slurm", memory="1.5 GiB")
    assert "#SBATCH --mem=1201M" in script("slurm", memory=(1200 << 20) + 1)


IMPORT = """
import signal
from headrace.launchers.batch.cluster import import_dask_jobqueue
before = signal.getsignal(signal.SIGINT)
print(import_dask_jobqueue().JobQueueCluster.__name__)
assert signal.getsignal(signal.SIGINT) is before
"""


def test_dask_jobqueue_writes_nothing_into_the_home_of_the_user(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path)}
    environment.pop("DASK_CONFIG", None)
    said = subprocess.run(
        [sys.executable, "-c", IMPORT],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert said.stdout == "JobQueueCluster\n"
    assert list(tmp_path.iterdir()) == []


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


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put commands of a batch system, as texts of shell scripts, into the PATH."""

    def put(**texts: str) -> None:
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return put


def batch_system(kind: str) -> type[BatchLauncher]:
    part = launchers.kinds()[kind]
    assert issubclass(part, BatchLauncher)
    return part


def test_slurm_is_asked_once_for_all_jobs(tmp_path: Path, commands: Callable[..., None]) -> None:
    commands(squeue=SQUEUE, scontrol=SCONTROL)
    part = batch_system("slurm")
    running, ended, waiting = part.states(["7", "8", "9"])
    assert (running.over, waiting.over, ended.over) == (False, False, True)
    assert waiting.text == "PENDING (Resources)" and "ExitCode 1:0" in ended.text
    assert (tmp_path / "squeue.calls").read_text().count("7,8,9") == 1


HIDING_SQUEUE = """#!/bin/sh
[ -n "$SQUEUE_STATES$SQUEUE_PARTITION" ] || echo "7 PENDING (Resources)"
"""


def test_filters_of_the_user_hide_no_jobs_of_slurm(
    commands: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hidden job looked like one that has ended, and its trial failed."""
    commands(squeue=HIDING_SQUEUE, scontrol=SCONTROL)
    monkeypatch.setenv("SQUEUE_STATES", "RUNNING")
    monkeypatch.setenv("SQUEUE_PARTITION", "short")
    (waiting,) = batch_system("slurm").states(["7"])
    assert (waiting.over, waiting.text) == (False, "PENDING (Resources)")


CLUSTERS = """#!/bin/sh
echo "$*" >> "$0.calls"
case "$*" in
*--clusters=other*) echo "CLUSTER: other"; echo "12 RUNNING (None)" ;;
*) echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1 ;;
esac
"""


def test_a_job_of_another_cluster_of_slurm_is_asked_for_and_cancelled_there(
    tmp_path: Path, commands: Callable[..., None]
) -> None:
    commands(squeue=CLUSTERS, scancel=CLUSTERS)
    (running,) = batch_system("slurm").states(["12;other"])
    assert (running.over, running.text) == (False, "RUNNING (None)")
    assert batch_jobs.cancel("slurm", "12;other") == "cancelled"
    assert (tmp_path / "scancel.calls").read_text() == "--clusters=other 12\n"


@pytest.mark.parametrize(
    ("kind", "said", "job"),
    [
        ("slurm", "Welcome to cluster 3\n--> 2 nodes ... OK\n12\n", "12"),
        ("slurm", "12;other\n", "12;other"),
        ("sge", 'warning: 2 queues are full\nYour job 12 ("headrace") has been submitted\n', "12"),
        ("pbs", "Project 7 has 3 h left\n12.server\n", "12"),
        ("pbs", "12\n", "12"),
    ],
)
def test_numbers_in_other_words_of_a_submission_are_not_its_job(
    kind: str, said: str, job: str
) -> None:
    """Another job was asked for, and cancelled at the end, while that of the run stayed."""
    import_dask_jobqueue()
    kept = batch_system(kind).job_class()
    assert kept._job_id_from_submit_output(object.__new__(kept), said) == job


CONDOR_Q = """#!/bin/sh
echo "$*" >> "$0.calls"
case "$1" in
-better-analyze) echo "no slot has 64 CPUs"; exit ;;
esac
for job in "$@"; do
    case $job in
    1.0) echo "1 0 1 undefined" ;;
    2.0) echo "2 0 2 undefined" ;;
    3.0) echo "3 0 5 Error from slot1@node: no such file" ;;
    -af) exit ;;
    esac
done
"""
CONDOR_ANALYSIS = """#!/bin/sh
cat << END
-- Schedd: node1 : <127.0.0.1:17477?...
The Requirements expression for job 17.000 is

    (TARGET.Arch == "X86_64") && (TARGET.Cpus >= RequestCpus)

The Requirements expression for job 17.000 reduces to these conditions:

         Slots
Step    Matched  Condition
-----  --------  ---------
[0]           4  TARGET.Arch == "X86_64"
[7]           0  TARGET.Cpus >= RequestCpus

WARNING:  Be advised:
   No machines matched the jobs's constraints
END
"""


def test_the_reason_of_a_waiting_job_of_htcondor_begins_with_its_conditions(
    commands: Callable[..., None],
) -> None:
    """As condor_q 23.9 says it."""
    queue = 'case "$1" in -better-analyze) exec condor_analysis ;; *) echo 17 0 1 undefined ;; esac'
    commands(condor_q=f"#!/bin/sh\n{queue}\n", condor_analysis=CONDOR_ANALYSIS)
    assert batch_system("htcondor").state("17.0").text == (
        "Slots; Step Matched Condition; ----- -------- ---------; "
        '[0] 4 TARGET.Arch == "X86_64"; [7] 0 TARGET.Cpus >= RequestCpus; '
        "WARNING: Be advised:; No machines matched the jobs's constraints"
    )


def test_a_job_of_htcondor_that_is_being_removed_is_not_left(commands: Callable[..., None]) -> None:
    """As condor_rm 23.9 says it of a job that the user has removed."""
    said = "echo Job 8.0 already marked for removal >&2; exit 1"
    commands(condor_rm=f"#!/bin/sh\n{said}\n")
    assert batch_jobs.cancel("htcondor", "8.0") == "gone"


CONDOR_HISTORY = """#!/bin/sh
case "$1" in
4.0) echo "4 1 undefined" ;;
5.0) echo "3 undefined via condor_rm (by user me)" ;;
esac
"""


def test_htcondor_is_asked_once_for_all_jobs_and_for_the_reason_only_of_one(
    tmp_path: Path, commands: Callable[..., None]
) -> None:
    commands(condor_q=CONDOR_Q, condor_history=CONDOR_HISTORY)
    part = batch_system("htcondor")
    found = part.states(["1.0", "2.0", "3.0", "4.0", "5.0", "6.0"])
    assert [(state.over, state.text) for state in found] == [
        (False, "idle"),
        (False, "running"),
        (True, "held: Error from slot1@node: no such file"),
        (True, "completed: exit code 1"),
        (True, "removed: via condor_rm (by user me)"),
        (True, "gone"),
    ]
    assert len((tmp_path / "condor_q.calls").read_text().splitlines()) == 1
    assert part.state("1.0").text == "no slot has 64 CPUs"
    commands(condor_q="#!/bin/sh\necho Failed to fetch ads >&2; exit 1\n")
    assert part.states(["1.0"])[0].over is False


# What Grid Engine 8.1.9 says: a block per job that it knows, and names of others only when it knows
# none.
SGE_QSTAT = """#!/bin/sh
echo "$*" >> "$0.calls"
rule() { echo ==============================================================; }
case ",$2," in *,[789],*) ;; *) echo "Following jobs do not exist: " >&2; exit 1 ;; esac
case ",$2," in *,7,*) rule; cat << END
job_number:                 7
exec_file:                  job_scripts/7
usage         1:            cpu=00:00:00, mem=0.00000 GB s, io=0.00000 GB
scheduling info:            queue instance "closed@node1" dropped because it is disabled
END
esac
case ",$2," in *,8,*) rule; cat << END
job_number:                 8
scheduling info:            queue instance "closed@node1" dropped because it is disabled
                            cannot run in queue "main"
END
esac
case ",$2," in *,9,*) rule; cat << END
job_number:                 9
error reason    1:          can't read the script
END
esac
"""
QACCT = """#!/bin/sh
echo "failed       0"
echo "exit_status  3"
"""


def test_grid_engine_is_asked_once_for_all_jobs(
    tmp_path: Path, commands: Callable[..., None]
) -> None:
    commands(qstat=SGE_QSTAT, qacct=QACCT)
    part = batch_system("sge")
    found = part.states(["9", "8", "7"])
    assert [state.over for state in found] == [True, False, False]
    assert found[0].text.startswith("error reason 1: can't read")
    assert found[1].text.endswith('cannot run in queue "main"') and found[2].text == "it runs"
    calls = (tmp_path / "qstat.calls").read_text().splitlines()
    assert calls == ["-j 9,8,7"]
    gone, runs = part.states(["6", "7"])
    assert (gone.over, gone.text, runs.text) == (True, "failed 0, exit_status 3", "it runs")
    assert [state.over for state in part.states(["5", "6"])] == [True, True]
    commands(qstat="#!/bin/sh\necho cannot connect to master >&2; exit 1\n")
    assert [state.over for state in part.states(["7", "8"])] == [False, False]


QSTAT = """#!/bin/sh
echo "$*" >> "$0.calls"
if [ "$1" = -x ]; then
    printf 'Job Id: %s.server\\n    job_state = F\\n    Exit_status = 1\\n' "$3"
    exit
fi
tr @ "\\t" << END
Job Id: 7.server
    Job_Name = headrace
    job_state = R
    comment = Job run at Mon Nov 02 at 10:00 on (node1:ncpus=2)
    Variable_List = PBS_O_HOME=/home/me,PBS_O_LANG=C

Job Id: 8.server
    job_state = Q
    comment = Not Running: Insufficient amount of resource: ncpus (R: 64 A: 12 T:
@ 512)

END
echo "qstat: 9.server Job has finished, use -x or -H to obtain historical job information" >&2
echo "qstat: Unknown Job Id 10.server" >&2
exit 35
"""


def test_pbs_is_asked_once_for_all_jobs_and_long_reasons_are_whole(
    tmp_path: Path, commands: Callable[..., None]
) -> None:
    commands(qstat=QSTAT)
    part = batch_system("pbs")
    running, waiting, finished, unknown = part.states(["7", "8", "9", "10"])
    assert not running.over and running.text.startswith("job_state R, comment Job run at")
    assert not waiting.over and waiting.text.endswith("ncpus (R: 64 A: 12 T: 512)")
    assert finished.over and finished.text == "job_state F, Exit_status 1"
    assert unknown.over and "Unknown Job Id 10.server" in unknown.text
    calls = (tmp_path / "qstat.calls").read_text().splitlines()
    assert calls == ["-f 7 8 9 10", "-x -f 9"]
    commands(qstat="#!/bin/sh\necho cannot connect to server >&2; exit 111\n")
    assert [state.over for state in part.states(["7", "8"])] == [False, False]
