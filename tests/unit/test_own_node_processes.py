"""Processes of a run on nodes that share a machine: they are not other programs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.launchers.local import MachineAgent
from headrace.system.journal import Journal
from headrace.system.machine_use import LoadWatch, Own

TREE = """
import os, sys
depth = int(sys.argv[1])
print(os.getpid(), flush=True)
if depth and not os.fork():
    os.execv(sys.executable, [sys.executable, sys.argv[0], str(depth - 1)])
while True:
    pass
"""
"""A busy process of a node's tree, which starts the next one."""
NAME = "of_a_node_on_this_kernel.py"


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[list[int]]:
    """A worker of Dask, the node process that it carries, and the fork server of its jobs."""
    (tmp_path / NAME).write_text(TREE)
    with subprocess.Popen(
        [sys.executable, tmp_path / NAME, "2"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        found = [int(process.stdout.readline()) for _ in range(3)]
        try:
            yield found
        finally:
            for pid in found:
                os.kill(pid, signal.SIGKILL)


def test_workers_of_other_nodes_on_this_kernel_are_the_runs_own(
    tree: list[int], tmp_path: Path
) -> None:
    """Dask workers of one machine were listed as other programs, but for the agent's own."""
    own = Own(jobs=frozenset({tree[2]}))
    with Journal.open("a test", tmp_path / "journal") as journal:
        agent = MachineAgent(journal)
        agent.watch_load(own)
        time.sleep(1.0)
        use = agent.finish_load(own)
    assert use.own_s > 0
    assert not any(NAME in each.name for each in use.programs), use.programs


def test_a_run_that_starts_its_jobs_itself_has_no_node_processes(tree: list[int]) -> None:
    assert Own(jobs=frozenset({tree[0]})).with_node_processes().pids == frozenset()


def test_they_are_no_other_load_while_jobs_run(tree: list[int]) -> None:
    cpus = frozenset(os.sched_getaffinity(0))
    own = Own(jobs=frozenset({tree[2]})).with_node_processes()
    ours, others = LoadWatch(cpus, own), LoadWatch(cpus, replace(own, pids=frozenset()))
    time.sleep(1.0)
    assert ours.others_now() < others.others_now() - 0.05
