"""Studies on the workers of a Dask cluster, started by Dask's own commands as its users do."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from dask_cluster import dask_workers, started_again
from headrace.launchers.remote.dask_client import client_of, workers_of
from headrace.system.identity import boot_id
from headrace.system.waiting import wait_until
from workspace import Workspace

STUDY = """
headrace = 1
title = "on Dask"
[target.shared]
kind = "path"
path = "{storage}/shared data"
create = true
[workload.job]
kind = "command"
command = ["{place}/job.sh", "{seconds}", "{together}"]
[plan]
repeats = {{ min = 1 }}
[run]
on = "dask://{address}"
nodes = {nodes}
slots = 2
cache = "as-is"
foreign_load = "warning"
start_spread = 100
shortest = "0.1 s"
"""
# A job begins to sleep when so many have begun: those that do not run at once never do.
JOB = """#!/bin/sh
echo "$PPID says so"
begun=${0%/*}/begun
mkdir -p "$begun"
touch "$begun/$$"
left=1200
until [ "$(ls "$begun" | wc -l)" -ge "$2" ]; do
    left=$((left - 1))
    [ $left -gt 0 ] || exit 1
    sleep 0.1
done
exec sleep "$1"
"""


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory: what other programs write to a device does not spoil its trials."""
    with tempfile.TemporaryDirectory(prefix="headrace-test-", dir="/dev/shm") as folder:
        yield Path(folder)


Cluster = tuple[str, list[subprocess.Popen[bytes]]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler and two workers, whose undo journals have a folder of their own."""
    journals = tmp_path_factory.mktemp("journals")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADRACE_JOURNAL_DIR", str(journals))
        with dask_workers(2) as found:
            yield found
    assert list(journals.iterdir()) == [], "nothing is left to undo on the nodes"


def study(
    workspace: Workspace, memory: Path, address: str, nodes: int, seconds: float, together: int = 1
) -> Path:
    """A study of one trial. `together`: jobs that wait for each other before they sleep."""
    job = workspace.place / "job.sh"
    job.write_text(JOB)
    job.chmod(0o755)
    return workspace.study(
        STUDY.format(
            place=workspace.place,
            storage=memory,
            address=address,
            nodes=nodes,
            seconds=seconds,
            together=together,
        )
    )


def node_processes() -> list[int]:
    """Those of this file's clusters, whose journals are here: other tests have some, too."""
    journals = os.environ["HEADRACE_JOURNAL_DIR"].encode()
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            words, variables = (
                (entry / name).read_bytes().split(b"\0") for name in ("cmdline", "environ")
            )
        except (OSError, ValueError):
            continue
        ours = b"HEADRACE_JOURNAL_DIR=" + journals in variables
        if ours and any(b"remote.node_process" in word for word in words):
            found.append(int(entry.name))
    return found


def rows(workspace: Workspace) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    (file,) = workspace.place.glob("results/trials/*/jobs.parquet")
    return pq.read_table(file).to_pylist()


def test_jobs_run_on_every_node_and_come_back(
    workspace: Workspace, memory: Path, cluster: Cluster
) -> None:
    address, _ = cluster
    before = set(node_processes())
    ended = workspace.run(
        *("run", study(workspace, memory, address, nodes=2, seconds=1, together=4)),
        *("--results", "results"),
        *("--openmetrics-file", "metrics.prom"),
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (trial,) = workspace.trials()
    assert trial["status"] == "done" and trial["validity"]["valid"], trial["validity"]
    assert trial["run"]["on"] == f"dask://{address}" and trial["run"]["nodes"] == 2
    jobs = rows(workspace)
    assert [job["exit"] for job in jobs] == ["ok"] * 4
    assert min(job["start_s"] for job in jobs) >= 0
    assert all(job["wall_s"] >= 1 for job in jobs), "the ledger of each came back"
    facts = trial["node_facts"]
    assert [node["name"] for node in facts] == ["node-0", "node-1"]
    assert [job["node"] for job in jobs] == [0, 0, 1, 1], "each names its node by number"
    for number, node in enumerate(facts):
        own = [job["start_s"] for job in jobs if job["node"] == number]
        assert (node["start_first_s"], node["start_last_s"]) == (min(own), max(own))
        assert node["kernel_id"] == boot_id() and node["clock"]["offset_s"] == 0
        assert node["memory_bytes"] > 0 and node["foreign_cpus"] >= 0 and node["oom_kills"] == 0
    outputs = sorted(workspace.place.glob("results/trials/*/command-job-*.out"))
    assert len({output.read_text() for output in outputs}) == 4, "each job is a process of its own"
    counted = (workspace.place / "metrics.prom").read_text()
    for node in ("node-0", "node-1"):
        assert f'headrace_jobs_completed_total{{node="{node}"}} 2.0\n' in counted
    assert wait_until(lambda: set(node_processes()) <= before, 30, 0.1)
    assert not (memory / "shared data").exists(), "made for the study, removed after it"


def test_the_status_of_a_clusters_workers_is_shown(workspace: Workspace, cluster: Cluster) -> None:
    address, _ = cluster
    shown = workspace.run("cluster", "status", "--on", f"dask://{address}", "--json")
    assert shown.returncode == 0, shown.stderr
    assert [node["node"] for node in json.loads(shown.stdout)] == ["node-0", "node-1"]


def test_dask_takes_a_silence_that_is_shorter_than_its_own(cluster: Cluster) -> None:
    import dask.config

    address, _ = cluster
    with (
        dask.config.set({"distributed.comm.timeouts.tcp": "30 s"}),  # put back afterwards
        client_of(address, silence_s=1.0) as client,
    ):
        assert len(workers_of(client)) == 2


def test_a_node_that_is_lost_is_a_cause_and_not_the_end(workspace: Workspace, memory: Path) -> None:
    with dask_workers(2) as (address, workers):
        killing = threading.Thread(target=_kill_a_node, args=(workers,))
        killing.start()
        ended = workspace.run(
            "run", study(workspace, memory, address, nodes=2, seconds=6), "--results", "results"
        )
        killing.join()
    assert ended.returncode == 5, ended.stdout + ended.stderr
    (trial,) = workspace.trials()
    assert not trial["validity"]["valid"]
    jobs = rows(workspace)
    assert sorted(job["exit"] for job in jobs) == ["failed", "failed", "ok", "ok"]
    causes = {job["cause"] for job in jobs if job["exit"] == "failed"}
    assert len(causes) == 1 and "is lost" in causes.pop()
    failed = {job["node"] for job in jobs if job["exit"] == "failed"}
    events = {node["number"]: node["events"] for node in trial["node_facts"] if "events" in node}
    assert set(events) == failed, "the node that was lost, and no other"
    assert [event["what"] for each in events.values() for event in each] == ["lost"]
    assert "Traceback" not in ended.stdout + ended.stderr


def _kill_a_node(workers: list[subprocess.Popen[bytes]]) -> None:
    """Kill a worker once both run jobs; its node process ends with it."""
    assert wait_until(lambda: all(_sleeping_below(worker.pid) for worker in workers), 60, 0.1)
    time.sleep(1)
    os.kill(workers[1].pid, signal.SIGKILL)


def _sleeping_below(pid: int) -> bool:
    children = f"/proc/{pid}/task/{pid}/children"
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        below = [int(child) for child in Path(children).read_text().split()]
        below += [
            int(child)
            for thread in Path(f"/proc/{pid}/task").iterdir()
            for child in (thread / "children").read_text().split()
        ]
    except OSError:
        return False
    return command[0].endswith(b"sleep") or any(_sleeping_below(child) for child in below)


def test_what_a_cluster_lacks_is_said_before_anything_starts(
    workspace: Workspace, memory: Path, cluster: Cluster
) -> None:
    address, _ = cluster
    for on, nodes, said in (
        ("127.0.0.1:9", 1, "no Dask scheduler answers at 127.0.0.1:9"),
        (address, 3, "has 2 workers; 3 nodes need one each"),
        ("headrace.invalid:8786", 1, "no address is known"),
        ("192.0.2.1:8786", 1, "not configured for TLS"),
    ):
        ended = workspace.run(
            "run", study(workspace, memory, on, nodes, seconds=1), "--results", "results"
        )
        text = " ".join((ended.stdout + ended.stderr).split())
        assert ended.returncode == 3 and said in text, text
        assert "Traceback" not in text and not workspace.trials()


@pytest.mark.heavy
def test_a_scheduler_that_is_killed_and_started_again_costs_one_trial(
    workspace: Workspace, memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dask's workers end with their scheduler; the next trial waits for new ones."""
    journals = tmp_path / "journals"
    monkeypatch.setenv("HEADRACE_JOURNAL_DIR", str(journals))
    with contextlib.ExitStack() as stack, dask_workers(2) as (address, workers):
        file = study(workspace, memory, address, nodes=2, seconds=4)
        text = file.read_text().replace("slots = 2", "node_patience = 300")
        file.write_text(text + '[factors]\n"run.slots" = [1, 2]\n')

        def restart() -> None:
            assert wait_until(lambda: all(_sleeping_below(each.pid) for each in workers), 60, 0.1)
            os.kill(_listening(address), signal.SIGKILL)
            assert wait_until(lambda: all(each.poll() is not None for each in workers), 60, 0.1)
            stack.enter_context(started_again(address, 2))

        restarting = threading.Thread(target=restart)
        restarting.start()
        ended = workspace.run("run", file, "--results", "results")
        restarting.join()
    assert ended.returncode == 5 and "Traceback" not in ended.stdout + ended.stderr
    first, second = sorted(workspace.trials(), key=lambda trial: trial["index"])
    assert "node-lost" in [reason["code"] for reason in first["validity"]["reasons"]]
    assert second["status"] == "done"
    assert "node-lost" not in [reason["code"] for reason in second["validity"]["reasons"]]
    assert not journals.exists() or list(journals.iterdir()) == [], "nothing is left to undo"


def _listening(address: str) -> int:
    """The process that listens at an address of this machine."""
    port = int(address.rpartition(":")[2])
    (found,) = {
        each.pid
        for each in psutil.net_connections("tcp")
        if each.status == psutil.CONN_LISTEN and each.laddr.port == port
    }
    assert found is not None
    return found
