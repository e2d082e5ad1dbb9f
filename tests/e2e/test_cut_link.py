"""Studies on nodes by SSH whose link is cut while their jobs run: a real link, on this machine."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.system.cluster import Cluster, NodeSettings
from headrace.system.identity import start_ticks
from headrace.system.journal import Journal
from headrace.system.waiting import wait_until
from ssh_server import SshServer, children_of, node_processes, ssh_server
from workspace import Workspace

STUDY = """
headrace = 1
title = "a link that is cut"
[target.shared]
kind = "path"
path = "{place}/shared data"
create = true
[workload.job]
kind = "command"
command = ["sh", "-c", "{job}"]
[plan]
repeats = {{ min = 1 }}
[run]
on = "ssh://alpha,beta"
nodes = 2
slots = 2
node_silence = "{silence_s} s"
node_patience = "300 s"
cache = "as-is"
foreign_load = "warning"
start_spread = 1000
shortest = 0
"""
PATIENCE_S = 120
CUT_S = 4.0
"""TCP doubles the time between its attempts: what was sent when the cut began arrives after at most
6.2 s, when the link is there at this time."""


@dataclass
class Link:
    """The link to the machine of two nodes, and what runs there."""

    cluster: Cluster
    server: SshServer
    journals: Path
    place: Path
    """Seen by this machine and the nodes."""

    def cut(self) -> None:
        self.cluster.cut("far")

    def mend(self) -> None:
        self.cluster.mend("far")

    def marks(self) -> list[Path]:
        """A file for each job that has begun; its content is the process."""
        return [mark for mark in self.place.glob("began-*") if mark.stat().st_size]


@pytest.fixture
def link(needs_root: None, workspace: Workspace, tmp_path: Path) -> Iterator[Link]:
    journals = tmp_path / "journals-of-nodes"
    with (
        tempfile.TemporaryDirectory(prefix="headrace-test-", dir="/dev/shm") as memory,
        Journal.open("a test", tmp_path / "journals of links") as journal,
        Cluster.build(journal, [NodeSettings("near"), NodeSettings("far")]) as cluster,
        ssh_server(
            tmp_path / "ssh",
            {"HEADRACE_JOURNAL_DIR": str(journals)},
            address=cluster["far"].address,
            there=cluster["far"].command,
            here=cluster["near"].command,
        ) as server,
    ):
        workspace.environment["PATH"] = server.path
        yield Link(cluster, server, journals, Path(memory))
    assert list(journals.iterdir()) == [], "nothing is left to undo on the nodes"


def while_jobs_run(link: Link, do: Callable[[], None]) -> threading.Thread:
    """Do something in a thread once all four jobs of the first trial have begun."""

    def wait() -> None:
        assert wait_until(lambda: len(link.marks()) == 4, PATIENCE_S, 0.05)
        do()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_an_interruption_shorter_than_the_silence_loses_nothing(
    link: Link, workspace: Workspace
) -> None:
    """Jobs end while the link is cut: what their nodes say of it arrives when it is mended."""
    ended, place = link.place / "may-end", link.place
    job = f"echo $$; echo $$ > {place}/began-$$; until [ -e {ended} ]; do sleep 0.05; done"
    text = STUDY.format(place=place, job=job, silence_s=20)

    def cut() -> None:
        link.cut()
        ended.touch()
        time.sleep(CUT_S)
        link.mend()

    cutting = while_jobs_run(link, cut)
    ran = workspace.run("run", workspace.study(text), "--results", "results")
    cutting.join()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (trial,) = workspace.trials()
    assert trial["status"] == "done" and trial["validity"]["valid"], trial["validity"]
    assert not any("events" in node for node in trial["node_facts"]), "no node was lost"
    outputs = [file.read_text() for file in workspace.place.glob("results/trials/*/*.out")]
    assert sorted(outputs) == sorted(mark.read_text() for mark in link.marks())
    assert len(outputs) == 4, "every job once"
    assert wait_until(lambda: not children_of(link.server), 60, 0.1), "a connection is left"


def test_nodes_that_are_cut_off_end_by_themselves_and_return(
    link: Link, workspace: Workspace
) -> None:
    place = link.place
    job = f"echo $$ > {place}/began-$$; [ -e {place}/mended ] || exec sleep 600; sleep 0.3"
    text = STUDY.format(place=place, job=job, silence_s=10)
    text += '[factors]\n"run.timeout" = ["500 s", "600 s"]\n'  # two trials of one target
    left: list[str] = []

    def cut() -> None:
        assert len(node_processes(link.server)) == 2 and list(link.journals.iterdir())
        link.cut()
        if not wait_until(lambda: not node_processes(link.server), PATIENCE_S, 0.1):
            left.append("node processes")
        if any(start_ticks(int(mark.read_text())) is not None for mark in link.marks()):
            left.append("jobs")
        left.extend(map(str, link.journals.iterdir()))
        (place / "mended").touch()
        link.mend()

    cutting = while_jobs_run(link, cut)
    ran = workspace.run("run", workspace.study(text), "--results", "results")
    cutting.join()
    assert not left, f"left on nodes that do not hear of the study: {left}"
    assert ran.returncode == 5, ran.stdout + ran.stderr
    first, second = sorted(workspace.trials(), key=lambda trial: trial["index"])
    assert "node-lost" in [reason["code"] for reason in first["validity"]["reasons"]]
    assert second["validity"]["valid"], second["validity"]
    events = [
        [event["what"] for event in node.get("events", [])]
        for trial in (first, second)
        for node in trial["node_facts"]
    ]
    assert events == [["lost"], ["lost"], ["returned"], ["returned"]]
    assert len(link.marks()) == 8, "four jobs of each trial"
    assert wait_until(lambda: not children_of(link.server), 60, 0.1), "a connection is left"
