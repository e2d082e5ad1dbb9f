"""A process on a node: runs its jobs and is its agent, for an engine that may be elsewhere.

    python -c 'from headrace.launchers.remote.node_process import main; main()' [JOURNALS]

One thread and one `select` over standard input and the launcher `local`. It ends when its input
ends, however the engine ended; then its jobs are killed and its undo journal is undone.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

import msgspec

from headrace.errors import HeadraceError, describe
from headrace.jobs import JobOutput, Packet
from headrace.launchers import (
    Agent,
    Clock,
    Ended,
    Job,
    JobSpec,
    LauncherLostError,
    Launchers,
    PacketWanted,
    Ready,
    Reported,
)
from headrace.launchers.local import Local, MachineAgent
from headrace.launchers.remote.beats import BEATS, SILENCE_S, Beats
from headrace.launchers.remote.job_folders import JobFolders
from headrace.launchers.remote.messages import (
    Call,
    CallAnswer,
    Frames,
    FromNode,
    Hello,
    JobEnded,
    JobReady,
    JobRefused,
    JobReported,
    JobsLost,
    JobWantsPacket,
    NodeAbilities,
    NodeError,
    Reaped,
    decode,
    encode,
    framed,
    types_of,
)
from headrace.launchers.remote.predecessor import end_predecessor
from headrace.system.capabilities import capabilities
from headrace.system.ending import end_without_search
from headrace.system.identity import start_ticks
from headrace.system.journal import Journal, JournalEntry
from headrace.system.key_states import KeyState
from headrace.system.machine_use import Own, snapshot, usable_cpus, use_between
from headrace.system.node_limits import node_limits
from headrace.system.owned import show_folder, work_directory

AGENT = "agent."
"""Prefix of the methods of `Agent` in calls; those without a prefix are of `NodeService`."""
STORAGE = "storage."
"""Prefix of the methods of `NodeStorage`."""
METERS = "meters."
"""Prefix of the methods of `NodeMeters`."""


class NodeService:
    """The jobs of this node by the engine's numbers. Its public methods can be called."""

    def __init__(self, journal: Journal, local: Local, answers: int) -> None:
        self._journal = journal
        self._agent = MachineAgent(journal)
        self._agent.carriers = frozenset({os.getppid()})
        self._shown: dict[str, JournalEntry] = {}
        """By folder."""
        self._local = local
        self._folders = JobFolders(work_directory(journal)[0])
        self._jobs: dict[int, Job] = {}
        self._numbers: dict[Job, int] = {}
        self._beats = Beats(answers)
        self._silence_s = math.inf
        """After this time without a word the engine is given up: `keep` sets it."""
        self._heard_s = time.monotonic()
        self._lost = False
        """Whether what ran the jobs has died; nothing is expected from it until `warm`."""

    # -- calls of the engine --

    def hello(self) -> Hello:
        """Return who this is."""
        return Hello(
            self._agent.machine(),
            self._agent.kernel,
            os.getpid(),
            start_ticks(os.getpid()),
            str(self._journal.file),
        )

    def succeed(self, before: Hello) -> None:
        """End the node process that the engine has lost, and undo what it left.

        Raises HeadraceError.
        """
        end_predecessor(before)

    def keep(self, silence_s: float) -> None:
        """End when the engine is not heard of for this time; send beats several times in it."""
        self._silence_s = silence_s
        self._beats.every(silence_s / BEATS)

    def beat(self) -> None:
        """Do nothing: the engine is there."""

    def facts(self) -> NodeAbilities:
        """Return what this node can do, and its limits. Measures the load for a second."""
        cpus = usable_cpus()
        before = snapshot(cpus)
        time.sleep(1.0)
        own = Own(pids=self._agent.carriers)
        use = use_between(before, snapshot(cpus), cpus, own)
        return NodeAbilities(
            others_cpus=use.foreign_s / use.window_s,
            stolen_cpus=use.steal_s / use.window_s,
            wall_less_monotonic_s=time.time() - time.monotonic(),
            limits=node_limits(),
            capabilities=capabilities(),
        )

    def show_folder(self, folder: str, create: bool) -> tuple[str, str]:
        """Make a file in a directory of its own in a folder; return its path and its content.

        `create`: a missing folder would be made; the folder above it counts. Raises HeadraceError.
        `hide_folder` removes the directory, and so does the undo of the journal.
        """
        file, content, entry = show_folder(self._journal, folder, create)
        self._shown[folder] = entry
        return file, content

    def hide_folder(self, folder: str) -> None:
        """Remove what `show_folder` made."""
        if (entry := self._shown.pop(folder, None)) is not None:
            self._journal.put_back([entry])

    def keys(self) -> list[KeyState]:
        """Return the state of the keys with which a Dask worker here talks to others."""
        from headrace.launchers.remote.dask_keys import keys_of

        return keys_of("worker")

    def now_s(self) -> float:
        """Return the time of this node's monotonic clock."""
        return time.monotonic()

    def set_offset(self, offset_s: float) -> None:
        """Set the seconds that make a time of this node one of the engine."""
        self._agent.clock = Clock(offset_s)

    def warm(self, kind: str, name: str, options: dict[str, object]) -> str | None:
        """`Launcher.warm`."""
        problem = self._local.warm(kind, name, options)
        self._lost = False
        return problem

    def spawn(self, number: int, spec: JobSpec) -> None:
        """Start a job; `JobReady` or `JobRefused` follows. Folders that this node lacks are made.

        Nobody waits for the answer: starting jobs on many nodes takes no longer than on one.
        """
        try:
            job = self._local.spawn(self._folders.of_job(number, spec), self._agent)
        except Exception as error:
            self._send(JobRefused(number, _sent(error)))
            return
        self._jobs[number] = job
        self._numbers[job] = number

    def release(self, numbers: list[int]) -> None:
        """`Launcher.release`."""
        self._local.release(self._known(numbers))

    def give(self, number: int, packet: Packet | None) -> None:
        """`Launcher.give`."""
        for job in self._known([number]):
            self._local.give(job, packet)

    def kill(self, numbers: list[int]) -> None:
        """`Launcher.kill`."""
        self._local.kill(self._known(numbers))

    def reap(self, numbers: list[int], patience_s: float) -> Reaped:
        """`Launcher.reap`."""
        jobs = self._known(numbers)
        left = {self._numbers[job] for job in self._local.reap(jobs, patience_s)}
        ended = [number for number in numbers if number in self._jobs and number not in left]
        exits = {number: exit for number in ended if (exit := self._jobs[number].exit)}
        leftovers = {number: self._folders.take(number) for number in ended}
        for number in ended:
            del self._numbers[self._jobs.pop(number)]
        return Reaped(sorted(left), exits, leftovers)

    def pids(self) -> list[int]:
        """`Launcher.pids`."""
        return sorted(self._local.pids(self._agent))

    def _known(self, numbers: list[int]) -> list[Job]:
        return [self._jobs[number] for number in numbers if number in self._jobs]

    # -- the connection --

    def end(self) -> None:
        """End every job, and tear down the targets of this node: jobs may have files open there."""
        self._beats.close()
        self._local.close()
        self._agent.close()

    def serve(self, calls: int) -> None:
        """Answer calls and send events until the input ends, or the engine is silent for long."""
        frames = Frames()
        while True:
            waited = [calls] if self._lost else [calls, self._local]
            readable = select.select(waited, [], [], min(self._silence_s, SILENCE_S) / BEATS)[0]
            if calls in readable:
                data = os.read(calls, 1 << 16)
                if not data:
                    return
                self._hear()
                for message in frames.feed(data):
                    self._answer(decode(message, Call))
            elif self._is_silent():
                return
            if not self._lost:
                self._send_events()

    def _hear(self) -> None:
        self._heard_s = time.monotonic()

    def _is_silent(self) -> bool:
        return time.monotonic() - self._heard_s > self._silence_s

    def _answer(self, call: Call) -> None:
        try:
            value = encode(self._called(call.method, call.arguments))
            answer = CallAnswer(call.number, msgspec.Raw(value))
        except Exception as error:
            if not call.number and isinstance(error, LauncherLostError):
                return  # `wait` says so
            answer = CallAnswer(call.number, error=_sent(error))
        if call.number or answer.error is not None:
            self._send(answer)

    def _called(self, name: str, arguments: msgspec.Raw) -> object:
        if name.startswith(AGENT):
            name = name.removeprefix(AGENT)
            declared, owner = getattr(Agent, name), self._agent
        elif name.startswith(STORAGE):
            from headrace.targets.node_storage import NodeStorage

            name = name.removeprefix(STORAGE)
            declared, owner = getattr(NodeStorage, name), self._agent.storage
        elif name.startswith(METERS):
            from headrace.meters.node_meters import NodeMeters

            name = name.removeprefix(METERS)
            declared, owner = getattr(NodeMeters, name), self._agent.meters
        else:
            declared, owner = getattr(NodeService, name), self
        if name.startswith("_"):
            raise ValueError(f"{name} is not a method of a node")
        return getattr(owner, name)(*decode(arguments, types_of(declared)[0]))

    def _send(self, message: FromNode) -> None:
        self._beats.send(framed(message))

    def _send_events(self) -> None:
        try:
            events = self._local.wait(0.0)
        except LauncherLostError as error:
            self._lost = True
            self._send(JobsLost(describe(error)))
            return
        for event in events:
            number = self._numbers.get(event.job)
            if number is None:
                continue
            match event:
                case Ready():
                    self._send(JobReady(number, event.job.pid, dict(event.offers)))
                case PacketWanted():
                    self._want_packet(number, event.so_far)
                case Reported():
                    self._report(number, event)
                case Ended():
                    self._send(JobEnded(number, event.exit, self._folders.read(number)))

    def _want_packet(self, number: int, so_far: JobOutput | None) -> None:
        message = JobWantsPacket(number, so_far)
        try:
            framed(message)
        except (TypeError, OverflowError):  # the job's report will say so
            message = JobWantsPacket(number)
        self._send(message)

    def _report(self, number: int, event: Reported) -> None:
        times = (event.start_s, event.end_s)
        try:
            message = JobReported(
                number, event.word, event.cause, *times, event.output, event.ledger
            )
            framed(message)
        except (TypeError, OverflowError) as error:
            message = JobReported(number, "failed", f"results: {error}", *times, None, event.ledger)
        self._send(message)


def _sent(error: Exception) -> NodeError:
    """Return an error as the engine receives it."""
    kind = type(error)
    for known in (OSError, LauncherLostError):  # subclasses are not known to the other process
        if isinstance(error, known):
            kind = known
    hint = error.hint if isinstance(error, HeadraceError) else None
    return NodeError(kind.__name__, describe(error), hint)


def _stopped(*_: object) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)


def main() -> None:
    """Serve the engine at the other end of standard input and output."""
    signal.signal(signal.SIGTERM, _stopped)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    end_without_search()
    answers = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no message
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with contextlib.ExitStack() as stack:
        try:
            journal = stack.enter_context(Journal.open("a node of a run", place))
        except HeadraceError as error:
            return _refuse(0, answers, error)
        local = stack.enter_context(contextlib.closing(Local(Launchers())))
        stack.enter_context(contextlib.suppress(BrokenPipeError))
        service = NodeService(journal, local, answers)
        try:
            service.serve(0)
        finally:
            service.end()


def _refuse(calls: int, answers: int, error: HeadraceError) -> None:
    """Tell the engine why there is no node here, and wait until it ends the connection.

    A process that just ended would look like a broken connection.
    """
    with contextlib.suppress(OSError):
        os.write(answers, framed(CallAnswer(0, error=_sent(error))))
        while select.select([calls], [], [], SILENCE_S)[0] and os.read(calls, 1 << 16):
            pass
