"""Studies on HTCondor, with stand-ins of its commands: they read the submit file by the rules of
the manual, and a job is a process of this machine."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from batch_study import batch_study, exits
from workspace import Workspace

SUBMIT = '''#!{python}
"""Start the job of a submit file, and write its log of events as HTCondor does."""
import re, subprocess, sys
from pathlib import Path

here = Path(__file__).parent
number = len(list(here.glob("*.pid"))) + 1
job = f"{{number}}.0"
pairs = re.findall(r"^([A-Za-z._+]+) *= *(.*)$", Path(sys.argv[1]).read_text(), re.MULTILINE)
given = {{name.lower(): value for name, value in pairs}}

def value(name):
    text = given[name].replace("$(ClusterId)", str(number)).replace("$F(MY.JobId)", job)
    return text.replace("$(LogDirectory)", given["logdirectory"])

# New syntax: the whole is in double quotes, "" is one of them; words are separated by spaces,
# what is in single quotes is one word, and '' is one of them there.
whole = re.fullmatch(r'"((?:[^"]|"")*)"', given["arguments"])[1].replace('""', '"')
words = re.findall(r"(?:[^' ]|'(?:[^']|'')*')+", whole)
def plain(found): return found[1].replace("''", "'")
words = [re.sub(r"'((?:[^']|'')*)'(?!')", plain, word) for word in words]
with open(value("output"), "w") as out, open(value("error"), "w") as err:
    started = subprocess.Popen(
        [given["executable"], *words], stdout=out, stderr=err, start_new_session=True,
        cwd=given.get("initialdir"),
    )
(here / f"{{job}}.pid").write_text(str(started.pid))
if {waits}:
    started.wait()
    (here / f"{{job}}.ended").touch()
usage = "\\n".join(f"\\t   {{part:40}} :        1         1    190843" for part in range(30))
Path(value("log")).write_text(f"005 ({{number}}.000.000) Job terminated.\\n{{usage}}\\n...\\n")
print("Submitting job(s).\\n1 job(s) submitted to cluster %d." % number)
'''
QUEUE = """#!/bin/sh
cd "$(dirname "$0")"
for job in "$@"; do
    [ -f "$job.pid" ] && [ ! -f "$job.ended" ] && echo "${job%.0} 0 2 undefined"
done
exit 0
"""
REMOVE = """#!/bin/sh
cd "$(dirname "$0")"
[ -f "$1.ended" ] || kill "$(cat "$1.pid")"
touch "$1.ended"
echo "Job $1 marked for removal"
"""


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="headrace-test-", dir="/dev/shm") as folder:
        (Path(folder) / "shared").mkdir()
        yield Path(folder)


def use_commands(here: Workspace, place: Path, *, waits: bool) -> None:
    commands = place / "condor"
    commands.mkdir()
    submit = SUBMIT.format(python=sys.executable, waits=waits)
    for name, text in {"submit": submit, "q": QUEUE, "rm": REMOVE}.items():
        (commands / f"condor_{name}").write_text(text)
        (commands / f"condor_{name}").chmod(0o755)
    here.environment["PATH"] = f"{commands}:{os.environ['PATH']}"


def test_a_study_runs_with_a_setup_whose_name_has_quotes_and_spaces(
    workspace: Workspace, place: Path
) -> None:
    use_commands(workspace, place, waits=False)
    setup = place / "my set'up"
    setup.write_text(f"touch {place}/was-read\n")
    study = batch_study(workspace, "htcondor", place, f'cores = 1\nsetup = "{setup}"')
    ended = workspace.run("run", study, "--results", "results")
    assert ended.returncode in (0, 5), ended.stdout + ended.stderr  # other tests' I/O may spoil it
    (trial,) = workspace.trials()
    assert trial["status"] == "done", trial
    assert exits(workspace) == ["ok"] * 6 and (place / "was-read").exists()
    assert len(list((place / "condor").glob("*.ended"))) == 3, "every job is removed"
    assert list((place / "shared").iterdir()) == []


def test_one_job_that_does_not_start_is_one(workspace: Workspace, place: Path) -> None:
    use_commands(workspace, place, waits=False)
    (place / "setup").write_text(f"pwd > {place}/began-in; sleep 5; exit\n")
    batch = f'cores = 1\npatience = "1 s"\nsetup = "{place}/setup"'
    study = batch_study(workspace, "htcondor", place, batch)
    ended = workspace.run("cluster", "doctor", study, "--nodes", 1)
    assert ended.returncode == 3, ended.stdout + ended.stderr
    said = " ".join(ended.stdout.split())
    assert "1 of the batch jobs is not there after 1 s; htcondor says of job 1.0: running" in said
    began_in = (place / "began-in").read_text().strip()
    assert began_in == str(place / "shared"), "not in that of the submission"


def test_what_a_job_said_is_told_in_spite_of_its_log_of_events(
    workspace: Workspace, place: Path
) -> None:
    use_commands(workspace, place, waits=True)
    study = batch_study(workspace, "htcondor", place, 'cores = 1\nsetup = "/nowhere/my setup"')
    workspace.run("run", study, "--results", "results")
    (trial,) = workspace.trials()
    assert trial["status"] == "failed"
    assert "setup: /nowhere/my setup cannot be read on this node" in trial["cause"], trial["cause"]
