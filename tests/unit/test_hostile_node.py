"""A node that breaks the protocol is lost, writes nothing outside the record, and hurts no other
node's jobs."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import msgspec
import pytest
from typing_extensions import override

from headrace.engine.measure.outcome import failure_of
from headrace.errors import HeadraceError
from headrace.jobs import JobInput
from headrace.launchers import (
    Ended,
    Event,
    JobExit,
    JobSpec,
    LauncherLostError,
    Launchers,
    NodeLostError,
    Nodes,
    NodesWanted,
)
from headrace.launchers.remote.agent import RemoteAgent
from headrace.launchers.remote.connection import NodeConnection
from headrace.launchers.remote.launcher import RemoteLauncher
from headrace.launchers.remote.messages import (
    Beat,
    Call,
    CallAnswer,
    Frames,
    Hello,
    JobEnded,
    Leftovers,
    Reaped,
    decode,
    encode,
    framed,
)
from headrace.launchers.remote.node_process import NodeService
from headrace.system.accounting import UseSoFar
from headrace.system.cluster import NodeSettings
from headrace.system.journal import Journal
from headrace.system.machine_facts import MachineFacts

EXIT = JobExit(0, None, 1.0, 0.0, 1)
ANSWERS: dict[str, object] = {
    "hello": Hello(MachineFacts(host="evil", headrace=version("headrace")), "another kernel"),
    "now_s": 1.0,
    "reap": Reaped([], {}, {}),
}


class Peer:
    """The other end of a node's streams: it answers calls and then sends what a test wants."""

    def __init__(self) -> None:
        self.engine, self._sock = socket.socketpair()
        self.answers = dict(ANSWERS)
        self.hangs_in = ""
        """A call of this method is not answered, nor is any after it."""
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        frames = Frames()
        with self._sock, contextlib.suppress(OSError):
            while data := self._sock.recv(1 << 16):
                for message in frames.feed(data):
                    call: Call = decode(message, Call)
                    if call.method == self.hangs_in:
                        self._hang()
                    value = msgspec.Raw(encode(self.answers.get(call.method)))
                    if call.number:
                        self._sock.sendall(framed(CallAnswer(call.number, value)))

    def _hang(self) -> None:
        """Do nothing but say that it is there, until nobody listens any more."""
        while True:
            self._sock.sendall(framed(Beat()))
            time.sleep(0.05)

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    def join(self) -> None:
        self._thread.join()


class Peers(RemoteLauncher):
    """A hostile node, and an honest one."""

    kind = "peers"

    @override
    @contextmanager
    def connect(self, journal: Journal, wanted: NodesWanted) -> Generator[list[NodeConnection]]:
        self.peers = [Peer() for _ in wanted.clients]
        found = [
            NodeConnection(node.name, peer.engine, peer.join)
            for node, peer in zip(wanted.clients, self.peers, strict=True)
        ]
        try:
            yield found
        finally:
            for connection in found:
                connection.close()


@contextmanager
def peers(
    place: Path, *names: str, stopped: Callable[[], bool] = lambda: False
) -> Generator[tuple[Peers, Nodes]]:
    """A launcher with a peer for each name."""
    wanted = NodesWanted(tuple(map(NodeSettings, names)))
    with (
        Journal.open("a test", place / "journal") as journal,
        Launchers(stopped) as others,
        contextlib.closing(Peers(others)) as launcher,
        launcher.nodes(journal, wanted) as nodes,
    ):
        yield launcher, nodes


def spec_in(place: Path) -> JobSpec:
    for name in ("keep", "job-0000"):
        (place / name).mkdir(parents=True)
    given = JobInput(
        files=(),
        directory=None,
        scratch=place / "job-0000",
        slot=0,
        slots=1,
        seed=1,
        job=0,
        jobs=1,
        keep=place / "keep",
    )
    return JobSpec("contract", "mine", {}, 0, given, False, False, place / "job-0000.log")


def ended(job: int, kept: dict[str, bytes] | None = None) -> bytes:
    return framed(JobEnded(job, EXIT, Leftovers(b"log", kept or {})))


HOSTILE = {
    "a path to keep": ended(1, {"../../outside": b"x"}),
    "an absolute path": ended(1, {"/tmp/headrace-outside": b"x"}),
    "a folder": ended(1, {"..": b"x"}),
    "a name that no file can have": ended(1, {"x" * 300: b"x"}),
    "a huge length": struct.pack("!I", 0xFFFFFFFF) + b"x",
    "wrong types": framed(["ended", "one", None, 7]),
    "an unknown message": framed(["reboot", 1]),
    "no MessagePack": struct.pack("!I", 3) + b"\xc1\xc1\xc1",
}


@pytest.mark.parametrize("sent", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_node_that_breaks_the_protocol_is_lost_and_the_other_goes_on(
    sent: bytes, tmp_path: Path
) -> None:
    with peers(tmp_path, "bad", "good") as (launcher, nodes):
        bad, good = (
            launcher.spawn(spec_in(tmp_path / agent.name), agent) for agent in nodes.agents
        )
        before = {path for path in tmp_path.rglob("*") if path.is_file()}
        launcher.peers[0].send(sent)
        events: list[Event] = []
        while not events:
            events += launcher.wait(60.0)
        (event,) = events
        assert isinstance(event, Ended) and event.job is bad
        assert event.cause is not None and event.cause.startswith("node bad is lost: ")
        assert {path for path in tmp_path.rglob("*") if path.is_file()} == before
        launcher.peers[1].send(ended(2, {"command-job-0000.out": b"kept"}))
        (event,) = launcher.wait(60.0)
        assert isinstance(event, Ended) and event.job is good and event.cause is None
        assert launcher.reap([bad, good], 1.0) == []
        assert (tmp_path / "good/keep/command-job-0000.out").read_bytes() == b"kept"


def test_a_node_overwrites_nothing_of_other_jobs_and_of_the_record(tmp_path: Path) -> None:
    others = dict.fromkeys(
        ("job-0001.log", "command-job-0001.out", "trial.json", "command-job-00001.out"),
        b"of others",
    )
    with peers(tmp_path, "bad") as (launcher, nodes):
        spec = spec_in(tmp_path / "bad")
        keep = tmp_path / "bad" / "keep"
        for name, content in others.items():
            (keep / name).write_bytes(content)
        job = launcher.spawn(spec, nodes.agents[0])
        sent = dict.fromkeys([*others, "result.txt", "command-job-0000.out"], b"forged")
        launcher.peers[0].send(ended(1, {**sent, "a-job-0000-job-0001.log": b"forged"}))
        (event,) = launcher.wait(60.0)
        assert isinstance(event, Ended) and event.job is job and event.cause is None
    found = {path.name: path.read_bytes() for path in keep.iterdir()}
    assert {name: found.pop(name) for name in others} == others
    assert sorted(found) == [
        "command-job-0000.out",
        "job-0000-a-job-0000-job-0001.log",
        "job-0000-command-job-00001.out",
        "job-0000-command-job-0001.out",
        "job-0000-job-0001.log",
        "job-0000-result.txt",
        "job-0000-trial.json",
    ]


def test_a_node_speaks_for_its_own_jobs_alone_and_answers_with_the_right_type(
    tmp_path: Path,
) -> None:
    with peers(tmp_path, "bad", "good") as (launcher, nodes):
        good = launcher.spawn(spec_in(tmp_path / "good"), nodes.agents[1])
        launcher.peers[0].send(ended(1, {"result.txt": b"forged"}))
        assert launcher.wait(60.0) == [] and good.exit is None
        launcher.peers[0].answers["agent.out_of_memory"] = "rm -rf /"
        with pytest.raises(LauncherLostError, match="node bad is lost: Expected `int`, got `str`"):
            nodes.agents[0].out_of_memory()


def test_a_node_that_cannot_return_is_not_waited_for(tmp_path: Path) -> None:
    with peers(tmp_path, "bad") as (launcher, nodes):
        launcher.peers[0].send(HOSTILE["a huge length"])
        while not nodes.agents[0].is_lost:
            launcher.wait(60.0)
        with pytest.raises(LauncherLostError, match="node bad is lost: "):
            launcher.regain(nodes.agents, 1e9)


def test_a_node_that_hangs_in_a_call_holds_up_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system whose server has gone: the node still says that it is there."""
    monkeypatch.setattr("headrace.launchers.remote.launcher._LEFTOVERS_S", 0.2)
    monkeypatch.setattr("headrace.launchers.remote.connection._END_PATIENCE_S", 0.2)
    with peers(tmp_path, "bad", "worse") as (launcher, nodes):
        job = launcher.spawn(spec_in(tmp_path / "bad"), nodes.agents[0])
        launcher.peers[0].hangs_in = "reap"
        assert launcher.reap([job], 0.1) == []
        assert nodes.agents[0].is_lost
        launcher.peers[1].hangs_in = "kill"
        launcher.kill([launcher.spawn(spec_in(tmp_path / "worse"), nodes.agents[1])])


def test_a_node_that_hangs_in_a_call_holds_up_no_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether its answer is waited for, or it reads nothing more of what is sent."""
    for name in ("_STOP_PATIENCE_S", "_END_PATIENCE_S"):
        monkeypatch.setattr(f"headrace.launchers.remote.connection.{name}", 0.2)
    stop = threading.Event()
    with peers(tmp_path, "mute", "deaf", stopped=stop.is_set) as (launcher, nodes):
        mute, deaf = nodes.agents
        assert isinstance(deaf, RemoteAgent)
        launcher.peers[0].hangs_in = "agent.drop_page_cache"
        launcher.peers[1].hangs_in = "kill"
        deaf.connection.send(NodeService.kill, [])
        threading.Timer(0.5, stop.set).start()
        why = "is lost: it did not answer within 0.2 s of the stop"
        with pytest.raises(NodeLostError, match=f"node mute {why}"):
            mute.drop_page_cache()
        assert stop.is_set(), "before it, a call has no limit"
        with pytest.raises(NodeLostError, match=f"node deaf {why}"):
            deaf.connection.send(NodeService.kill, [7] * (1 << 21))


def test_what_is_shown_while_jobs_run_waits_for_no_node(tmp_path: Path) -> None:
    """Else a node whose network is cut would keep the others from their next jobs and packets."""
    with peers(tmp_path, "slow") as (launcher, nodes):
        (slow,) = nodes.agents
        assert isinstance(slow, RemoteAgent)
        peer = launcher.peers[0]
        peer.answers["agent.process_use"] = {7: UseSoFar(2.0, 1, 1)}
        peer.answers["agent.other_load"] = 1.5
        assert slow.process_use([7]) == {} and slow.other_load() == 0.0
        slow.measure_clock()  # answered after these
        assert slow.process_use([8]) == {7: UseSoFar(2.0, 1, 1)}
        assert slow.other_load() == slow.other_load() == 1.5
        peer.hangs_in = "meters.now"
        assert slow.meters.now() == []
        assert slow.meters.now() == [] and slow.other_load() == 1.5
        slow.connection.lose("end of the test")


class Gone(Peers):
    """Nodes that were there when the study was checked."""

    @override
    @contextmanager
    def connect(self, journal: Journal, wanted: NodesWanted) -> Generator[list[NodeConnection]]:
        raise HeadraceError("node-0 (alpha): it cannot be reached", hint="check the network")
        yield []


def test_a_target_whose_nodes_are_gone_is_tried_again_with_retry_invalid(tmp_path: Path) -> None:
    wanted = NodesWanted((NodeSettings("node-0"),))
    with (
        Journal.open("a test", tmp_path / "journal") as journal,
        Launchers() as others,
        Gone(others) as launcher,
        pytest.raises(HeadraceError) as raised,
        launcher.nodes(journal, wanted),
    ):
        pass
    failure = failure_of(raised.value, "target a: ")
    assert failure.node_lost and failure.status == "failed"
    assert failure.cause == ("target a: node-0 (alpha): it cannot be reached (check the network)")
