"""Scripts of users that are clients of Dask, on workers that Headrace starts for them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.library import load_study
from headrace.workloads.dask import PLACEHOLDERS, DaskOptions, DaskScript
from workspace import ROOT, Workspace

# What users write: nothing in it is Headrace's.
SCRIPT = """#!{python}
import hashlib, os, signal, sys, time
from distributed import Client

def read(path):
    with open(path, "rb") as file:
        return len(file.read())

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def compute(number):
    end = time.thread_time() + 0.3
    while time.thread_time() < end:
        hashlib.pbkdf2_hmac("sha256", b"key", b"salt", 2000)

def main(does, *files):
    with Client() as client:
        workers = [*client.scheduler_info()["workers"]]
        assert client.scheduler.address.startswith("tls://127.0.0.1:")
        if does == "compute":
            client.gather(client.map(compute, range(8)))
        if does == "fail":
            sys.exit("no such tree")
        if does == "hang":
            client.submit(__import__("time").sleep, 600).result()
        print("read", sum(client.gather(client.map(read, files))), "bytes on", len(workers))
        if does == "kill":
            lost = workers[-1]
            client.submit(die, workers=[lost], allow_other_workers=False)
            while lost in client.scheduler_info()["workers"]:
                time.sleep(0.02)
            client.shutdown()

if __name__ == "__main__":
    main(*sys.argv[1:])
"""
STUDY = """
headrace = 1
title = "own scripts"
[target.here]
kind = "path"
path = "{storage}"
create = true
{workloads}
[plan]
repeats = {{ min = 1 }}
[run]
slots = 2
cache = "as-is"
foreign_load = "warning"
start_spread = 100
shortest = 0
{run}
"""
WORKLOAD = """
[workload.{does}]
kind = "dask"
command = ["{command}", "{does}", "{{files}}"]
files = "*.dat"
events_pattern = "read ([0-9]+) bytes"
"""
FILES = {"one.dat": 3_000_000, "two b.dat": 1_000_000}


def prepared(workspace: Workspace, *does: str, run: str = "", command: str = "./mine.py") -> Path:
    """A study beside the script that it runs."""
    storage = workspace.place / "the storage"
    storage.mkdir(exist_ok=True)
    for name, size in FILES.items():
        (storage / name).write_bytes(bytes(size))
    script = workspace.place / "mine.py"
    script.write_text(SCRIPT.format(python=sys.executable))
    script.chmod(0o755)
    workloads = "".join(WORKLOAD.format(does=each, command=command) for each in does)
    return workspace.study(STUDY.format(storage=storage, workloads=workloads, run=run))


def jobs_of(workspace: Workspace, trial: dict[str, Any]) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    (file,) = workspace.place.glob(f"results/trials/{trial['id']}/jobs.parquet")
    return pq.read_table(file).to_pylist()


def left_running(place: Path) -> list[str]:
    """Processes of Dask that know a folder, by their arguments."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes()
        except (OSError, ValueError):
            continue
        if b"distributed.cli" in words and str(place).encode() in words:
            found.append(words.decode())
    return found


def test_a_worker_of_two_threads_has_the_ledger_of_their_mean(workspace: Workspace) -> None:
    study = prepared(workspace, "compute", run="")
    text = study.read_text().replace('files = "*.dat"', 'files = "*.dat"\nthreads = 2')
    study.write_text(text.replace("slots = 2", "slots = 1"))
    assert workspace.measure(study).returncode in (0, 5)
    (trial,) = workspace.trials()
    (job,) = jobs_of(workspace, trial)
    # 8 tasks of 0.3 s on two threads.
    assert 1.2 <= job["user_s"] + job["system_s"] < min(1.6, job["wall_s"])
    assert job["on_cpu_s"] == pytest.approx(job["user_s"] + job["system_s"], rel=0.1)


def test_a_script_runs_on_its_workers_and_every_end_is_told(workspace: Workspace) -> None:
    study = prepared(workspace, "read", "fail", "kill")
    ended = workspace.run("run", study, "--results", "results")
    assert ended.returncode in (0, 5), ended.stdout + ended.stderr
    trials = {trial["workload"]["name"]: trial for trial in workspace.trials()}
    trial = trials["read"]
    assert trial["status"] == "done", trial["cause"]
    assert trial["sums"]["events"] == sum(FILES.values())
    assert (trial["results"]["workers"], trial["results"]["tasks"]) == (2, 2)
    assert trial["results"]["script_cpu_s"] > 0 and trial["results"]["scheduler_cpu_s"] > 0
    jobs = jobs_of(workspace, trial)
    assert [job["exit"] for job in jobs] == ["ok", "ok"]
    asked = sum(job["bytes_asked"] for job in jobs)
    assert sum(FILES.values()) <= asked < 2 * sum(FILES.values()), "of workers, not of others"
    assert all(0 < job["on_cpu_s"] < job["wall_s"] for job in jobs)
    (printed,) = workspace.place.glob(f"results/trials/{trials['read']['id']}/script-*.out")
    assert printed.read_text() == "read 4000000 bytes on 2\n"
    causes = {
        name: [(job["exit"], job["cause"]) for job in jobs_of(workspace, trials[name])]
        for name in ("fail", "kill")
    }
    assert causes["fail"][0] == (
        "failed",
        f"{workspace.place}/mine.py ended with exit code 1: no such tree",
    )
    assert [exit for exit, _ in causes["kill"]].count("killed") == 1
    assert any("SIGKILL" in str(cause) for _, cause in causes["kill"])
    assert not any(trials[name]["validity"]["valid"] for name in causes)
    assert left_running(workspace.place) == []
    left = {path.name for path in (workspace.place / "the storage").iterdir()}
    assert left == set(FILES), "nothing but the user's files"


def test_a_script_that_hangs_is_ended_at_the_time_limit(workspace: Workspace) -> None:
    study = prepared(workspace, "hang", run='timeout = "5 s"')
    workspace.run("run", study, "--results", "results")
    (trial,) = workspace.trials()
    assert [job["exit"] for job in jobs_of(workspace, trial)] == ["timeout", "timeout"]
    assert left_running(workspace.place) == []


def test_the_example_runs_on_two_nodes_of_the_examples_cluster(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = ROOT / "examples" / "dask"
    folder = workspace.place / "my dask"
    monkeypatch.setenv("PYTHON", sys.executable)
    for name, value in workspace.environment.items():
        monkeypatch.setenv(name, value)
    subprocess.run([example / "start", folder], check=True, timeout=200)
    try:
        lines = (folder / "environment").read_text().splitlines()
        pairs = [line.removeprefix("export ").partition("=") for line in lines]
        found = workspace.environment | {name: value.strip("'") for name, _, value in pairs}
        workspace.environment.update(found)
        on = found["DASK_SCHEDULER_ADDRESS"].replace("tls", "dask")
        text = (example / "study.toml").read_text()
        for old, new in (
            ("/var/tmp/headrace-dask-$USER", str(workspace.place / "storage")),
            ("{study}", str(example)),
            ("200_000", "4_000"),
            ("slots = [1, 2, 4]", "slots = [1]"),
            ("min = 3", "min = 1"),
            ("\n[run]", f'\n[run]\non = "{on}"\nnodes = 2\nshortest = 0\nstart_spread = 100'),
        ):
            assert old in text
            text = text.replace(old, new)
        ended = workspace.measure(workspace.study(text))
    finally:
        subprocess.run([example / "stop", folder], check=True, timeout=200)
    assert not folder.exists() and left_running(folder) == []
    assert ended.returncode in (0, 5), ended.stdout + ended.stderr
    (trial,) = workspace.trials()
    assert trial["status"] == "done", ended.stdout + ended.stderr + json.dumps(trial["cause"])
    assert trial["sums"]["events"] == 4_000
    jobs = jobs_of(workspace, trial)
    assert [(job["node"], job["exit"]) for job in jobs] == [(0, "ok"), (1, "ok")]
    assert trial["results"]["tasks"] == 8, "each file is counted and read"
    key = "PRIVATE KEY"
    assert not [
        path
        for path in (workspace.place / "results").rglob("*")
        if path.is_file() and key.encode() in path.read_bytes()
    ], "the key of the trial is in no record"


def test_a_python_without_dask_is_told_before_anything_starts(workspace: Workspace) -> None:
    bare = workspace.place / "python3"
    bare.write_text('#!/bin/sh\necho "No module named distributed" >&2\nexit 1\n')
    bare.chmod(0o755)
    study = prepared(workspace, "read", command="./python3")
    ended = workspace.run("run", study, "--results", "results")
    text = " ".join((ended.stdout + ended.stderr).split())
    assert ended.returncode == 3, text
    assert "python3 has no Dask for workers: No module named distributed" in text
    assert not workspace.trials()


def test_a_script_cannot_be_kept_running_by_a_sustained_load(workspace: Workspace) -> None:
    loaded = load_study(prepared(workspace, "read", run='load = "sustained"'))
    said = [(each.what, each.needed_by, each.remedy) for each in loaded.check()]
    assert said == [
        (
            'load = "sustained"',
            "workload read",
            'its jobs work together, once per trial: load = "batch"',
        )
    ]


def test_the_python_is_looked_for_and_asked_with_the_variables_of_the_study(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python3"
    python.write_text('#!/bin/sh\necho "$WHY" >&2\nexit 1\n')
    python.chmod(0o755)
    why = {"WHY": "another Python"}
    for written in (
        {"command": ["python3"], "environment": why | {"PATH": "{study}/bin"}},
        {"command": ["true"], "environment": why, "python": "{study}/bin/python3"},
    ):
        options = DaskOptions.anchored(written, tmp_path)
        (problem,) = DaskScript("mine", DaskOptions.model_validate(options)).check()
        assert "no Dask for workers: another Python" in problem.what, problem


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"command": ["a.py", "{files}"]}, r"names \{files\}: files or data must say which"),
        ({"command": ["a.py", "--in={files}"], "files": "*"}, "an argument by itself"),
        ({"command": ["a.py", "{filelst}"], "files": "*"}, r"did you mean \{filelist\}"),
        ({"command": ["a.py"], "files": "*", "data": {}}, "files and data exclude"),
        ({"command": ["a.py"], "threads": 0}, "greater than or equal to 1"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DaskOptions.model_validate(options)


@pytest.mark.parametrize(
    ("first_line", "python"),
    [
        ("#!/opt/analysis/bin/python3.12 -u", "/opt/analysis/bin/python3.12"),
        ("#!/usr/bin/env -S python3 -u", "python3"),
        ("#!/bin/sh", sys.executable),
        ("no line of this kind", sys.executable),
    ],
)
def test_workers_have_the_python_of_the_script(
    tmp_path: Path, first_line: str, python: str
) -> None:
    script = tmp_path / "mine"
    script.write_text(f"{first_line}\n")
    script.chmod(0o755)

    def used(**options: Any) -> str:
        return DaskScript("mine", DaskOptions.model_validate(options)).python

    assert used(command=[str(script)]) == python
    assert used(command=["/env/bin/python3", str(script)]) == "/env/bin/python3"
    assert used(command=[str(script)], python="/other/python") == "/other/python"


def test_the_page_of_the_workload_names_every_placeholder() -> None:
    page = (ROOT / "docs" / "dask.md").read_text()
    for name in PLACEHOLDERS:
        assert f"| `{{{name}}}` |" in page, name
