"""Nodes that are lost while jobs run, with node processes of this machine."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_process import Process
from headrace.engine.measure.job_pool import JobPool, PoolResult, PoolTask
from headrace.jobs import JobInput
from headrace.launchers import Launchers, Nodes, NodesWanted
from headrace.launchers.remote.agent import RemoteAgent
from headrace.system.cluster import NodeSettings
from headrace.system.journal import Journal
from headrace.system.waiting import wait_until

NODES = NodesWanted((NodeSettings("node-0"), NodeSettings("node-1")))


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[Process, Nodes]]:
    """A launcher with two nodes, which leave nothing to undo."""
    place = tmp_path / "journals"
    with (
        Journal.open("a test", place) as journal,
        Launchers() as others,
        Process(others) as launcher,
        launcher.nodes(journal, NODES) as nodes,
    ):
        yield launcher, nodes
    assert list(place.iterdir()) == []


def pid_of(nodes: Nodes, number: int) -> int:
    """The node process of a node."""
    agent = nodes.agents[number]
    assert isinstance(agent, RemoteAgent)
    return agent.connection.hello.pid


def pool_of(launcher: Process, nodes: Nodes, place: Path, job: str, **fields: object) -> JobPool:
    """A pool with one slot on each node, whose jobs run a shell script."""
    place.mkdir()

    def given(job: int, slot: int) -> JobInput:
        scratch = place / f"job-{job:04d}"
        scratch.mkdir()
        return JobInput(
            files=(), directory=place, scratch=scratch, slot=slot, slots=2, seed=1, job=job
        )

    task = PoolTask(
        kind="command",
        name="mine",
        options={"command": ["sh", "-c", job]},
        slots=2,
        network=False,
        make_input=given,
        agent=nodes.agents.__getitem__,
        log_dir=place,
        timeout_s=120,
    )
    for name, value in fields.items():
        setattr(task, name, value)
    return JobPool(launcher, task, lambda: False)


def result_of(pool: JobPool) -> PoolResult:
    try:
        pool.get_ready()
        return pool.run()
    finally:
        pool.close()


def test_slots_of_other_nodes_are_kept_full_when_one_is_lost(
    running: tuple[Process, Nodes], tmp_path: Path
) -> None:
    launcher, nodes = running
    place = tmp_path / "jobs"
    pool = pool_of(launcher, nodes, place, "sleep 0.2", jobs_total=12)

    def kill() -> None:
        assert wait_until(lambda: len(list(place.glob("job-*/"))) >= 5, 60, 0.05)
        os.kill(pid_of(nodes, 1), signal.SIGTERM)

    killing = threading.Thread(target=kill)
    killing.start()
    result = result_of(pool)
    killing.join()
    failed = [job for job in result.jobs if job.exit != "ok"]
    assert {job.slot for job in failed} == {1} and len(failed) == 1
    assert str(failed[0].cause).startswith("node node-1 is lost: ")
    done = [job for job in result.jobs if job.slot == 0]
    assert len(done) >= 6 and all(job.output is not None for job in done)
    assert result.jobs[-1].slot == 0, "the other node went on"
    (event,) = nodes.agents[1].take_events()
    assert event.what == "lost" and nodes.agents[0].take_events() == []
