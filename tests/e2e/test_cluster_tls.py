"""`headrace cluster init`, and a Dask cluster with its keys on an address that is not loopback."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import dask.config
import pytest

from headrace.system.waiting import wait_until
from workspace import HEADRACE, Workspace

ADDRESS = "10.99.7.1"
STUDY = """
headrace = 1
title = "with TLS"
[target.shared]
kind = "path"
path = "{storage}/shared data"
create = true
[workload.job]
kind = "command"
command = ["sleep", "0.5"]
[plan]
repeats = {{ min = 1 }}
[run]
on = "dask://10.99.7.1:8786"
cache = "as-is"
foreign_load = "warning"
start_spread = 100
shortest = "0.1 s"
"""


def test_keys_are_made_once_and_for_their_owner_alone(workspace: Workspace) -> None:
    made = workspace.run("cluster", "init", "--directory", "my keys")
    assert made.returncode == 0, made.stderr
    folder = workspace.place / "my keys"
    assert f"export DASK_CONFIG='{folder}/dask.yaml'" in made.stdout
    assert max(map(len, (line for line in made.stdout.splitlines() if "/" not in line))) <= 80
    assert folder.stat().st_mode & 0o777 == 0o700
    modes = {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}
    assert len(modes) == 9 and set(modes.values()) == {0o600}
    for role in ("scheduler", "worker", "client"):
        checked = subprocess.run(
            ["openssl", "verify", "-CAfile", folder / "ca.pem", folder / f"{role}.pem"], check=False
        )
        assert checked.returncode == 0
    (written,) = dask.config.collect_yaml([str(folder)])
    assert written["distributed"]["comm"]["timeouts"] == {"tcp": "90 s"}
    before = {file: file.read_bytes() for file in folder.iterdir()}
    again = workspace.run("cluster", "init", "--directory", "my keys")
    assert again.returncode == 4 and "nothing is overwritten" in again.stderr
    assert {file: file.read_bytes() for file in folder.iterdir()} == before
    workspace.environment["XDG_CONFIG_HOME"] = str(workspace.place / "configuration")
    assert workspace.run("cluster", "init").returncode == 0
    assert (workspace.place / "configuration/headrace/cluster/dask.yaml").exists()


@pytest.fixture
def network(needs_root: None) -> Iterator[list[str]]:
    """A command's prefix: a network of its own, in which this machine has another address."""
    holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
    inside = ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]
    here = Path("/proc/self/ns/net").stat().st_ino
    there = Path(f"/proc/{holder.pid}/ns/net")
    try:
        assert wait_until(lambda: there.stat().st_ino != here, 30, 0.02)
        for words in ("link set lo up", f"address add {ADDRESS}/24 dev lo"):
            subprocess.run([*inside, "ip", *words.split()], check=True)
        yield inside
    finally:
        holder.terminate()
        holder.wait()


def test_a_study_runs_with_the_keys_and_is_refused_without(
    workspace: Workspace, network: list[str]
) -> None:
    for name in ("ours", "theirs"):
        assert workspace.run("cluster", "init", "--directory", name).returncode == 0
    ours, theirs = (workspace.place / name / "dask.yaml" for name in ("ours", "theirs"))
    variables = {**os.environ, **workspace.environment}
    with ExitStack() as stack:
        memory = stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm"))
        study = workspace.study(STUDY.format(storage=memory))
        for words in (
            ["scheduler", "--protocol", "tls", "--host", ADDRESS, "--port", "8786"],
            ["worker", f"tls://{ADDRESS}:8786", "--nworkers", "1", "--no-nanny"],
        ):
            log = workspace.place / f"{words[0]}.log"
            process = subprocess.Popen(
                [
                    *(*network, sys.executable, "-m", f"distributed.cli.dask_{words[0]}"),
                    *(*words[1:], "--no-dashboard"),
                ],
                env={**variables, "DASK_CONFIG": str(ours)},
                stdout=subprocess.DEVNULL,
                stderr=stack.enter_context(log.open("w")),
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
        assert wait_until(lambda: "Registered to" in log.read_text(), 120, 0.1), log.read_text()

        def run(configuration: Path | None, results: str) -> tuple[int, str]:
            return headrace(configuration, "run", str(study), "--results", results)

        def headrace(configuration: Path | None, *words: str) -> tuple[int, str]:
            given = {"DASK_CONFIG": str(configuration)} if configuration else {}
            ended = subprocess.run(
                [*network, str(HEADRACE), *words],
                env={**variables, **given},
                cwd=workspace.place,
                capture_output=True,
                text=True,
                check=False,
            )
            assert "Traceback" not in ended.stderr, ended.stderr
            return ended.returncode, " ".join((ended.stdout + ended.stderr).split())

        code, said = run(ours, "results")
        assert code == 0, said
        (trial,) = workspace.trials()
        assert trial["validity"]["valid"], trial["validity"]
        code, said = run(None, "other")
        assert code == 3 and "not configured for TLS" in said and "cluster init" in said, said
        code, said = run(theirs, "other")
        assert code == 3 and "other keys" in said, said
        client, worker = (ours.parent / f"{role}-key.pem" for role in ("client", "worker"))
        for key in (client, worker):
            key.chmod(0o640)
        code, said = headrace(ours, "cluster", "doctor", "--on", f"dask://{ADDRESS}:8786")
        assert code == 0, said
        assert f"less others can read {client}" in said, "here"
        assert f"node-0: others can read {worker}" in said or "all nodes: others" in said, said
        code, said = headrace(theirs, "cluster", "doctor", "--on", f"dask://{ADDRESS}:8786")
        assert code == 3 and "needed" in said and "other keys" in said, said
