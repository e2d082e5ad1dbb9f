"""Hundreds of short jobs over ten node processes: each runs once, and the record has them all."""

from __future__ import annotations

import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

import agent_process
import headrace
from workspace import Workspace

NODES, SLOTS, JOBS = 10, 3, 500
STUDY = """
headrace = 1
title = "many short jobs"
[target.shared]
kind = "path"
path = "{storage}/shared"
create = true
[workload.job]
kind = "command"
command = ["sh", "-c", "echo $0 >> {storage}/ran; sleep 0.05", "{{scratch}}"]
[plan]
repeats = {{ min = 1 }}
[run]
on = "process"
nodes = {nodes}
slots = {slots}
load = "sustained"
jobs = {jobs}
cache = "as-is"
foreign_load = "warning"
start_spread = 1000
shortest = 0
"""


@pytest.mark.heavy
def test_every_job_of_a_sustained_load_runs_once_and_is_recorded(workspace: Workspace) -> None:
    workspace.environment |= agent_process.installed_in(workspace.place)
    with tempfile.TemporaryDirectory(prefix="headrace-test-", dir="/dev/shm") as storage:
        text = STUDY.format(storage=storage, nodes=NODES, slots=SLOTS, jobs=JOBS)
        ended = workspace.run("run", workspace.study(text), "--results", "results")
        assert ended.returncode == 0, ended.stdout + ended.stderr
        ran = Counter((Path(storage) / "ran").read_text().split())
    assert len(ran) == JOBS and set(ran.values()) == {1}, "each job ran exactly once"
    (trial,) = workspace.trials()
    assert trial["status"] == "done" and trial["sums"]["jobs"] == JOBS
    assert len(trial["node_facts"]) == NODES
    assert not any(node.get("events") for node in trial["node_facts"]), "no node was lost"
    rows = headrace.records(workspace.place / "results").df()
    assert sorted(rows["job"]) == list(range(JOBS)) and set(rows["exit"]) == {"ok"}
    assert set(rows["slot"]) == set(range(NODES * SLOTS)), "every slot had work"
    assert set(rows["node"]) == set(range(NODES))
    assert (rows["wall_s"] >= 0.05).all(), "each has a ledger"
    for _, of_slot in rows.sort_values("start_s").groupby("slot"):
        for (_, end_s), (start_s, _) in pairwise(
            zip(of_slot["start_s"], of_slot["end_s"], strict=True)
        ):
            assert start_s >= end_s, "one job at a time in a slot"
