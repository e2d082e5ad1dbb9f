"""Nodes that are lost while jobs run, with node processes of this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from agent_process import Process
from headrace.engine.measure.job_pool import JobPool, PoolResult, PoolTask
from headrace.errors import HeadraceError
from headrace.jobs import JobInput
from headrace.launchers import Launchers, NodeLostError, Nodes, NodesWanted
from headrace.launchers.remote.agent import RemoteAgent
from headrace.launchers.remote.connection import NodeConnection
from headrace.launchers.remote.messages import Hello
from headrace.launchers.remote.node_process import NodeService
from headrace.launchers.remote.predecessor import end_predecessor
from headrace.launchers.remote.streams import ENTRY, connected
from headrace.launchers.remote.survey import cluster_of, status_of
from headrace.system.cluster import NodeSettings
from headrace.system.identity import start_ticks
from headrace.system.journal import Journal
from headrace.system.machine_facts import MachineFacts, machine_facts
from headrace.system.waiting import wait_until

NODES = NodesWanted((NodeSettings("node-0"), NodeSettings("node-1")), silence_s=10.0)
PATIENCE_S = 60.0


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


def when_jobs_run(place: Path, count: int, do: Callable[[], object]) -> threading.Thread:
    """A thread that does something once this many jobs have started."""

    def wait() -> None:
        assert wait_until(lambda: len(list(place.glob("job-*/began"))) >= count, PATIENCE_S, 0.05)
        do()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_slots_of_other_nodes_are_kept_full_when_one_is_lost(
    running: tuple[Process, Nodes], tmp_path: Path
) -> None:
    launcher, nodes = running
    place = tmp_path / "jobs"
    pool = pool_of(launcher, nodes, place, "touch began; sleep 0.2", jobs_total=12)

    killing = when_jobs_run(place, 5, lambda: os.kill(pid_of(nodes, 1), signal.SIGTERM))
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


def test_a_node_that_cannot_start_a_job_is_named(
    running: tuple[Process, Nodes], tmp_path: Path
) -> None:
    launcher, nodes = running
    missing = tmp_path / "missing"

    def given(job: int, slot: int) -> JobInput:
        scratch = tmp_path / "jobs" / f"job-{job:04d}"
        directory = missing if slot == 1 else None
        return JobInput(
            files=(), directory=directory, scratch=scratch, slot=slot, slots=2, seed=1, job=job
        )

    pool = pool_of(launcher, nodes, tmp_path / "jobs", "true", make_input=given)
    with pytest.raises(HeadraceError, match=f"^node node-1: {missing} is not on this node$"):
        result_of(pool)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_node_returns_and_nothing_of_before_is_left_there(
    running: tuple[Process, Nodes], tmp_path: Path, sent: signal.Signals
) -> None:
    """A killed process has left its journal; a stopped one is silent, and its jobs go on."""
    launcher, nodes = running
    place = tmp_path / "jobs"

    def end(*_: object) -> None:
        if nodes.agents[1].is_lost:
            pool.kill()

    pool = pool_of(launcher, nodes, place, "echo $$ > began; exec sleep 60", progress=end)
    before = pid_of(nodes, 1)
    losing = when_jobs_run(place, 2, lambda: os.kill(before, sent))
    pool.get_ready()
    result = pool.run()
    losing.join()
    pool.close()
    assert "is lost" in str(result.jobs[1].cause)
    job = int((place / "job-0001" / "began").read_text())
    launcher.regain(nodes.agents, PATIENCE_S)
    assert not nodes.agents[1].is_lost and pid_of(nodes, 1) != before
    assert start_ticks(before) is None
    assert wait_until(lambda: start_ticks(job) is None, PATIENCE_S, 0.05), "it would run twice"
    events = nodes.agents[1].take_events()
    assert [event.what for event in events] == ["lost", "returned"]
    again = result_of(pool_of(launcher, nodes, tmp_path / "again", "true"))
    assert [job.exit for job in again.jobs] == ["ok", "ok"]


def test_a_node_that_does_not_return_is_waited_for_less_each_time(
    running: tuple[Process, Nodes], tmp_path: Path
) -> None:
    launcher, nodes = running
    os.kill(pid_of(nodes, 1), signal.SIGKILL)
    assert wait_until(lambda: launcher.wait(0.1) == [] and nodes.agents[1].is_lost, PATIENCE_S, 0.0)
    command = launcher.commands["node-1"]
    command.insert(0, "false")
    for waited in ("1 s", "0.5 s", "0.25 s"):
        with pytest.raises(
            NodeLostError, match=f"node-1 is lost: .*did not return within {waited}"
        ):
            launcher.regain(nodes.agents, 1.0)
    launcher.regain(nodes.agents[:1], PATIENCE_S)  # the others need not wait for it
    command.remove("false")
    launcher.regain(nodes.agents, PATIENCE_S)
    assert [event.what for event in nodes.agents[1].take_events()] == ["lost", "returned"]


def test_what_a_lost_node_left_on_another_machine_is_not_undone_here(tmp_path: Path) -> None:
    """Where homes are shared its journal is seen here: it must stay for `headrace undo` there."""
    left, place = tmp_path / "left", tmp_path / "journals"
    left.mkdir()
    script = (
        "import os, sys; from headrace.system.journal import Journal; from pathlib import Path; "
        "journal = Journal.open('a node', Path(sys.argv[1])); "
        "journal.begin('remove_directory', path=sys.argv[2]); print(journal.file); "
        "sys.stdout.flush(); os._exit(0)"
    )
    said = subprocess.check_output([sys.executable, "-c", script, place, left], text=True)
    journal = Path(said.strip())
    away = Hello(MachineFacts(host="another"), "another kernel", 1, 1, str(journal))
    end_predecessor(away)
    assert left.exists() and journal.exists()
    end_predecessor(msgspec.structs.replace(away, machine=machine_facts()))  # it was restarted
    assert not left.exists() and not journal.exists()


def test_nodes_that_are_not_there_at_first_are_waited_for(tmp_path: Path) -> None:
    wanted = replace(NODES, patience_s=1.0)
    asked, there = tmp_path / "asked", tmp_path / "there"
    with (
        Journal.open("a test", tmp_path / "journals") as journal,
        Launchers() as others,
        Process(others) as launcher,
    ):
        launcher.before = ("false",)
        for waited in ("1 s", "0.5 s"):
            match = f"node-0 is lost: .*; tried for {waited}$"
            with pytest.raises(NodeLostError, match=match), launcher.nodes(journal, wanted):
                pass
        script = f"touch '{asked}'; test -e '{there}' && exec \"$@\""
        launcher.before = ("sh", "-c", script, "sh")

        def return_when_asked() -> None:
            assert wait_until(asked.exists, PATIENCE_S, 0.05)
            there.touch()

        returning = threading.Thread(target=return_when_asked)
        returning.start()
        wanted = replace(wanted, patience_s=4 * PATIENCE_S)
        with launcher.nodes(journal, wanted) as nodes:
            assert [agent.is_lost for agent in nodes.agents] == [False, False]
            assert nodes.agents[0].take_events() == [], "what was not yet there is not lost"
        returning.join()


def test_a_node_ends_when_its_engine_is_silent(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", ENTRY, str(tmp_path / "journals")]
    node = connected("node-0", argv, tmp_path / "log")
    try:
        pid = node.hello.pid
        node.keep(1.0)
        assert wait_until(lambda: start_ticks(pid) is None, PATIENCE_S, 0.05)
        assert list((tmp_path / "journals").iterdir()) == []
    finally:
        node.close()


def test_a_call_that_fails_on_a_node_and_has_no_answer_is_said(tmp_path: Path) -> None:
    """Without this, its jobs would be waited for until they are called late."""
    node = connected(
        "node-0", [sys.executable, "-c", ENTRY, str(tmp_path / "journals")], tmp_path / "log"
    )
    try:
        node.tell(NodeService.release, ["no number"])
        with pytest.raises(NodeLostError, match=r"node-0 is lost: a call failed there: .*int.*str"):
            node.call(NodeService.now_s)
    finally:
        node.close()


def test_a_node_that_cannot_keep_its_journal_says_so_and_hides_no_other_node(
    tmp_path: Path,
) -> None:
    """Its disk may be full, or read-only: a broken pipe would say nothing of that."""
    (tmp_path / "file").touch()
    places = {"node-0": tmp_path / "file" / "journals", "node-1": tmp_path / "journals"}
    with contextlib.ExitStack() as stack:
        nodes: list[NodeConnection] = []
        for name, place in places.items():
            argv = [sys.executable, "-c", ENTRY, str(place)]
            nodes.append(connected(name, argv, tmp_path / f"{name}.log"))
            stack.callback(nodes[-1].close)
        found, lost = status_of(cluster_of("ssh://one,two", None, None), nodes)
    assert [node.name for node in found] == ["node-1"]
    (said,) = (error.message for error in lost)
    assert (
        f"node-0 is lost: a call failed there: the undo journal cannot be kept in {tmp_path}"
        in said
    )
    assert "Not a directory" in said
    assert "HEADRACE_JOURNAL_DIR" in said, "what to do"
