"""The base of launchers whose nodes are node processes, on this machine or on others."""

from __future__ import annotations

import contextlib
import re
import select
import time
from abc import abstractmethod
from collections.abc import Generator, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

from typing_extensions import override

from headrace.errors import HeadraceError, InterruptedRunError
from headrace.jobs import Packet
from headrace.launchers import (
    Agent,
    Ended,
    Event,
    Job,
    JobExit,
    JobSpec,
    Launcher,
    LauncherLostError,
    Launchers,
    NodeLostError,
    Nodes,
    NodesWanted,
    PacketWanted,
    Ready,
    Reported,
)
from headrace.launchers.remote.agent import RemoteAgent
from headrace.launchers.remote.beats import EngineBeats
from headrace.launchers.remote.connection import NodeConnection, check_version
from headrace.launchers.remote.messages import (
    FromNode,
    JobEnded,
    JobReady,
    JobRefused,
    JobReported,
    JobsLost,
    JobWantsPacket,
    Leftovers,
    Reaped,
    error_of,
)
from headrace.launchers.remote.node_process import NodeService
from headrace.system.journal import Journal
from headrace.system.waiting import remaining, retry

_MOST_NAME_BYTES = 255
"""Length of the longest file name (NAME_MAX of Linux)."""

_AGAIN_S = 1.0
"""Time between attempts to connect to a lost node."""

_LAST_ATTEMPTS_S = 60.0
"""Time in which lost nodes are connected to once more at the end: each may take long to fail."""

_LEFTOVERS_S = 60.0
"""For a node to read what jobs have left, beyond the time that it waits for their ends."""

_UNKNOWN_EXIT = JobExit(None, None, 0.0, 0.0, 0)


class _NotYetError(Exception):
    """A lost node has not returned, or a node is not there yet."""

    def __init__(self, error: HeadraceError) -> None:
        super().__init__(error.message)
        self.hint = error.hint


@dataclass(eq=False)
class _RemoteJob(Job):
    number: int = 0
    node: NodeConnection | None = None


class RemoteLauncher(Launcher):
    """Runs jobs through node processes. A subclass says where these are."""

    elsewhere = True

    def __init__(self, others: Launchers) -> None:
        super().__init__(others)
        self._nodes: list[NodeConnection] = []
        self._jobs: dict[int, _RemoteJob] = {}
        """Jobs that were not reaped."""
        self._started = 0
        self._stopped = others.stopped
        self._impatience = 1.0
        """Part of their patience that `nodes` and `regain` take: halved each time that a node was
        not there in time."""

    @override
    @classmethod
    def refuses(cls, wanted: NodesWanted) -> str | None:
        return wanted.only_here or None

    @classmethod
    def node_count(cls, address: str) -> int:
        """Return how many nodes an address names. Raises HeadraceError."""
        return 1

    @abstractmethod
    def connect(
        self, journal: Journal, wanted: NodesWanted
    ) -> AbstractContextManager[list[NodeConnection]]:
        """Start a node process for each node of `wanted.clients`, and end them.

        Raises HeadraceError that says which node did not start, and why.
        """

    @contextmanager
    def connect_each(
        self, journal: Journal, wanted: NodesWanted
    ) -> Generator[tuple[list[NodeConnection], list[HeadraceError]]]:
        """Start node processes as `connect` does; yield those that start, and why others do not.

        Here all or none. Raises HeadraceError when no node can be tried.
        """
        with self.connect(journal, wanted) as connections:
            yield connections, []

    @override
    @contextmanager
    def nodes(self, journal: Journal, wanted: NodesWanted) -> Generator[Nodes]:
        if (why_not := self.refuses(wanted)) is not None:
            raise HeadraceError(f'on = "{self.kind}": {why_not}')
        with self.agents(journal, wanted) as agents:
            self._nodes = [agent.connection for agent in agents]
            self._impatience = 1.0
            try:
                yield Nodes(agents)
            finally:
                self._nodes = []
                self._jobs.clear()

    @contextmanager
    def agents(self, journal: Journal, wanted: NodesWanted) -> Generator[tuple[RemoteAgent, ...]]:
        """The agents of nodes, which hear of the engine as long as the block. Then they end.

        A node that does not hear of it for `wanted.silence_s` undoes its changes and ends by
        itself. Raises NodeLostError for nodes that are not there, unless they wait in a queue.
        """
        with ExitStack() as stack:
            agents = self._reach(stack, journal, wanted)
            connections = [agent.connection for agent in agents]
            try:
                with EngineBeats(connections, wanted.silence_s):
                    try:
                        yield agents
                    finally:
                        _undo_on_lost(connections)
            finally:
                for connection in connections:  # all of them end at once
                    connection.hang_up()

    def _reach(
        self, stack: ExitStack, journal: Journal, wanted: NodesWanted
    ) -> tuple[RemoteAgent, ...]:
        """Connect to the nodes, again and again as long as `wanted` says."""
        if wanted.patience_s is None:
            return self._reach_once(stack, journal, wanted)
        patience_s = wanted.patience_s * self._impatience

        def attempt() -> tuple[RemoteAgent, ...]:
            if self._stopped():
                raise InterruptedRunError("stopped")
            try:
                return self._reach_once(stack, journal, wanted)
            except NodeLostError as error:
                raise _NotYetError(error) from error

        try:
            return retry(attempt, _NotYetError, patience_s, _AGAIN_S)
        except _NotYetError as error:
            self._impatience /= 2
            raise NodeLostError(f"{error}; tried for {patience_s:g} s", hint=error.hint) from error

    def _reach_once(
        self, stack: ExitStack, journal: Journal, wanted: NodesWanted
    ) -> tuple[RemoteAgent, ...]:
        with ExitStack() as own:
            try:
                connections = own.enter_context(self.connect(journal, wanted))
            except HeadraceError as error:
                # That they were there was checked before the study began.
                if type(error) is HeadraceError and self.nodes_at_once:
                    raise NodeLostError(error.message, hint=error.hint) from error
                raise
            for connection in connections:
                connection.stopped = self._stopped
            agents = tuple(map(self.agent, connections))
            for connection in connections:
                connection.keep(wanted.silence_s)
            stack.enter_context(own.pop_all())
        return agents

    def agent(self, connection: NodeConnection) -> RemoteAgent:
        """Return the agent of a node. Raises HeadraceError when it runs another Headrace."""
        machine = connection.hello.machine
        check_version(f"node {connection.name} ({machine.host})", machine.headrace)
        return RemoteAgent(connection)

    @override
    def regain(self, agents: Sequence[Agent], patience_s: float) -> None:
        lost = [each for each in agents if isinstance(each, RemoteAgent) and each.is_lost]
        patience_s *= self._impatience
        deadline_s = time.monotonic() + patience_s
        for agent in lost:
            try:
                self._reconnect(agent.connection, deadline_s, patience_s)
            except NodeLostError:
                self._impatience /= 2
                raise
            self._impatience = 1.0
            agent.renew(self.agent(agent.connection))

    def _reconnect(self, node: NodeConnection, deadline_s: float, patience_s: float) -> None:
        """Connect again, at least once, and until the deadline whatever the error is."""

        if not node.can_return:
            raise NodeLostError(
                str(node.lost), hint="the next set-up of a target requests another node"
            )

        def attempt() -> None:
            if self._stopped():
                raise InterruptedRunError("stopped")
            try:
                node.reconnect()
            except HeadraceError as error:
                raise _NotYetError(error) from error

        try:
            retry(attempt, _NotYetError, deadline_s - time.monotonic(), _AGAIN_S)
        except _NotYetError as error:
            raise NodeLostError(
                f"{node.lost}; it did not return within {patience_s:g} s: {error}",
                hint="start it; [run] node_patience is the time to wait for it",
            ) from error

    # -- jobs --

    @override
    def warm(self, kind: str, name: str, options: dict[str, object]) -> str | None:
        # A lost node is passed over: `spawn` says so where a job needs it.
        there = [node for node in self._nodes if node.lost is None]
        asked = [(node, node.ask(NodeService.warm, kind, name, options)) for node in there]
        for node, number in asked:
            problem = node.answer(number, NodeService.warm)
            node.discard(JobsLost)  # of before: what runs jobs was started anew
            if problem is not None:
                return f"node {node.name}: {problem}"
        return None

    @override
    def spawn(self, spec: JobSpec, agent: Agent) -> Job:
        if not isinstance(agent, RemoteAgent):
            raise TypeError(f"launcher {self.kind}: {agent.name} is not a node of it")
        self._started += 1
        job = _RemoteJob(spec, agent, 0, number=self._started, node=agent.connection)
        self._jobs[job.number] = job
        try:
            agent.connection.send(NodeService.spawn, job.number, spec)
        except BaseException:
            del self._jobs[job.number]
            raise
        return job

    @override
    def release(self, jobs: Iterable[Job]) -> None:
        for node, found in self._by_node(jobs).items():
            now_s = time.monotonic()
            for job in found:
                job.released_s = now_s
            node.tell(NodeService.release, [job.number for job in found])

    @override
    def give(self, job: Job, packet: Packet | None) -> None:
        for node, found in self._by_node([job]).items():
            node.tell(NodeService.give, found[0].number, packet)

    @override
    def kill(self, jobs: Iterable[Job]) -> None:
        for node, found in self._by_node(jobs).items():
            node.tell(NodeService.kill, [job.number for job in found])

    def _by_node(self, jobs: Iterable[Job]) -> dict[NodeConnection, list[_RemoteJob]]:
        found: dict[NodeConnection, list[_RemoteJob]] = {}
        for job in jobs:
            if isinstance(job, _RemoteJob) and job.node is not None and job.number in self._jobs:
                found.setdefault(job.node, []).append(job)
        return found

    # -- what jobs say and how they end --

    @override
    def wait(self, timeout_s: float) -> list[Event]:
        readable = self._readable(timeout_s)
        events: list[Event] = []
        for node in self._nodes:
            for message in node.events(node in readable):
                self._receive(node, message, events)
            if node.lost is not None:
                self._lose(node, events)
        return events

    def _readable(self, timeout_s: float) -> set[NodeConnection]:
        """Return the nodes that say something; wait for it, unless something was read before."""
        if any(node.has_events for node in self._nodes):
            timeout_s = 0.0
        sockets = {node.fileno(): node for node in self._nodes if node.lost is None}
        poll = select.poll()
        for descriptor in sockets:
            poll.register(descriptor, select.POLLIN)
        return {sockets[descriptor] for descriptor, _ in poll.poll(1000 * timeout_s)}

    def _receive(self, node: NodeConnection, message: FromNode, events: list[Event]) -> None:
        if isinstance(message, JobsLost):
            raise LauncherLostError(message.text)
        job = self._jobs.get(getattr(message, "job", 0))
        if job is None or job.node is not node:
            return
        match message:
            case JobReady():
                job.pid = message.pid
                if job.spec.at_once:
                    job.released_s = time.monotonic()
                events.append(Ready(job, message.offers))
            case JobRefused():
                del self._jobs[job.number]
                raise error_of(message.error, f"node {node.name}: ")
            case JobWantsPacket():
                events.append(PacketWanted(job, message.so_far))
            case JobReported():
                events.append(
                    Reported(
                        job,
                        message.word,
                        message.cause,
                        message.start_s,
                        message.end_s,
                        message.output,
                        message.ledger,
                    )
                )
            case JobEnded():
                if _put(node, job.spec, message.leftovers):
                    job.exit = message.exit
                    events.append(Ended(job, message.exit))
            case _:
                pass

    def _lose(self, node: NodeConnection, events: list[Event]) -> None:
        """The jobs of a lost node have ended, as far as the engine will ever know."""
        for job in self._jobs.values():
            if job.node is node and job.exit is None:
                job.exit = _UNKNOWN_EXIT
                events.append(Ended(job, _UNKNOWN_EXIT, node.lost))

    # -- the end --

    @override
    def reap(self, jobs: Sequence[Job], patience_s: float) -> list[Job]:
        left: list[Job] = []
        by_node = self._by_node(jobs)
        asked: dict[NodeConnection, int] = {}
        for node, found in by_node.items():
            with contextlib.suppress(LauncherLostError):
                numbers = [job.number for job in found]
                asked[node] = node.ask(NodeService.reap, numbers, patience_s)
        for node, found in by_node.items():
            reaped = Reaped([], {}, {})
            with contextlib.suppress(LauncherLostError):
                if node in asked:
                    patience = patience_s + _LEFTOVERS_S
                    reaped = node.answer(asked[node], NodeService.reap, patience)
            for job in found:
                if job.number in reaped.left:
                    left.append(job)
                    continue
                if (leftovers := reaped.leftovers.get(job.number)) is not None:
                    _put(node, job.spec, leftovers)
                job.exit = job.exit or reaped.exits.get(job.number)
                del self._jobs[job.number]
        return left

    @override
    def pids(self, agent: Agent) -> frozenset[int]:
        if not isinstance(agent, RemoteAgent):
            raise TypeError(f"launcher {self.kind}: {agent.name} is not a node of it")
        return frozenset(agent.connection.call(NodeService.pids))

    @override
    def close(self) -> None:
        """End every node process."""
        for node in self._nodes:
            node.close()


def _undo_on_lost(nodes: Sequence[NodeConnection]) -> None:
    """Let what lost processes have left be undone, on nodes that can be reached now."""
    for node, _ in zip(nodes, remaining(_LAST_ATTEMPTS_S), strict=False):
        with contextlib.suppress(HeadraceError):
            node.reconnect()


def _put(node: NodeConnection, spec: JobSpec, leftovers: Leftovers) -> bool:
    """Write a job's log and kept files where the engine wants them; nothing elsewhere.

    Names come from another machine. A node that sends one that is not plain is lost; the result is
    then False. No job can write a file of another one, or of the record itself.
    """
    kept = {_name_of(name, spec.input.scratch.name): name for name in leftovers.kept}
    if any(not _is_plain(each) for pair in kept.items() for each in pair):
        node.lose("it sent a file whose name is not a plain file name")
        return False
    if leftovers.log:
        spec.log.write_bytes(leftovers.log)
    for name, sent in kept.items():
        if spec.input.keep is not None:
            (spec.input.keep / name).write_bytes(leftovers.kept[sent])
    return True


def _name_of(name: str, job: str) -> str:
    """Return the name under which a file of a job is kept: it contains the name of this job, and
    that of another one only behind it."""
    named = re.findall(r"job-\d+", name)
    return name if named == [job] and name != f"{job}.log" else f"{job}-{name}"


def _is_plain(name: str) -> bool:
    return (
        name not in ("", ".", "..")
        and not {"/", "\0"} & set(name)
        and len(name.encode()) <= _MOST_NAME_BYTES
    )
