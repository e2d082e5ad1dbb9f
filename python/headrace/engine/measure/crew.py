"""Drives the jobs of one trial: all started, warmed and ready, then released together; packets, sustained load, timeouts.

One thread and one select over the channels of the jobs. While jobs run it sleeps; it costs them nothing but a message a job
or packet.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.engine.measure.job import JobOrder
from headrace.engine.measure.nursery import Channel, Exit, Nursery
from headrace.engine.measure.packets import Packetiser
from headrace.errors import HeadraceError, InterruptedRunError
from headrace.workloads import JobInput, JobOutput, Packet

_READY_PATIENCE_S = 120.0


@dataclass
class JobEnd:
    """How one job ended."""

    job: int
    slot: int
    file: str | None
    exit: str
    """ok, failed, timeout, killed, out-of-memory."""
    cause: str | None
    start_s: float
    end_s: float
    """Since the release."""
    output: JobOutput | None
    ledger: Any
    absolute_start_s: float
    """On the monotonic clock, the job's own phases' one."""
    peak_rss_bytes: int = 0


@dataclass
class CrewResult:
    """What became of all jobs of a trial."""

    jobs: list[JobEnd]
    release_monotonic_s: float
    stonewall_s: float
    """Since the release: the first slot that had nothing left to do."""
    last_done_s: float


@dataclass
class _Member:
    job: int
    slot: int
    pid: int
    channel: Channel
    input: JobInput
    ready: bool = False
    released_at: float = 0.0
    waiting_for_packet: bool = False
    end: JobEnd | None = None
    gone: Exit | None = None
    killed_for: str | None = None


@dataclass
class CrewTask:
    """What a trial wants of its crew."""

    kind: str
    name: str
    options: dict[str, Any]
    slots: int
    """Of all nodes together."""
    network: bool
    make_input: Callable[[int, int], JobInput]
    """(job, slot) -> what that job is given."""
    log_dir: Path
    timeout_s: float
    packets: Packetiser | None = None
    duration_s: float | None = None
    """Sustained load for this long; None: a batch."""
    jobs_total: int | None = None
    """Sustained load until so many jobs were started."""
    adopt: Callable[[int, int], None] | None = None
    """Called with each new pid and its slot before its job starts (memory limit, processors of its node)."""
    home: Callable[[int], str] = field(default=lambda slot: "")
    """Name of the node that a slot is on: packets of files that lie there are handed to it first."""
    here: Callable[[str, int], str] = field(default=lambda file, slot: file)
    """A file of the data set as the node of a slot has it mounted."""
    namespace: Callable[[int], str | None] = field(default=lambda slot: None)
    """The network namespace that the job of a slot runs in; None: the machine's own."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Environment variables that jobs need to reach the storage."""
    out_of_memory: Callable[[], int] | None = None
    """How many processes the kernel has killed for memory so far."""
    released: Callable[[list[int]], None] = field(default=lambda pids: None)
    """Called with the jobs' pids right before the release."""
    progress: Callable[[int, int, float], None] = field(default=lambda done, running, rate: None)


class Crew:
    """The jobs of one trial."""

    def __init__(self, nursery: Nursery, task: CrewTask, stop: Callable[[], bool]) -> None:
        self._nursery = nursery
        self._task = task
        self._stop = stop
        self._members: list[_Member] = []
        self._selector = selectors.DefaultSelector()
        self._selector.register(nursery, selectors.EVENT_READ, None)
        self._started = 0
        self._release = 0.0
        self._stonewall: float | None = None
        self._oom_before = task.out_of_memory() if task.out_of_memory else 0

    def run(self) -> CrewResult:
        """Runs every job to its end. Raises InterruptedRunError when stopped, HeadraceError when jobs cannot start."""
        task = self._task
        try:
            problem = self._nursery.warm(task.kind, task.name, task.options)
            if problem is not None:
                raise HeadraceError(f"workload {task.name} could not be warmed: {problem}")
            for slot in range(task.slots):
                self._hire(slot)
            self._await_ready(self._members)
            task.released([member.pid for member in self._members])
            self._release = time.monotonic()
            for member in self._members:
                self._go(member)
            self._loop()
        finally:
            self._dismiss()
        ends = [member.end for member in self._members if member.end is not None]
        last = max((end.end_s for end in ends), default=0.0)
        stonewall = (
            self._stonewall if self._stonewall is not None else min((end.end_s for end in ends), default=0.0)
        )
        return CrewResult(sorted(ends, key=lambda end: end.job), self._release, stonewall, last)

    # -- one job --------------------------------------------------------------------------------------------

    def _hire(self, slot: int) -> _Member:
        task, job = self._task, self._started
        self._started += 1
        given = task.make_input(job, slot)
        pid, channel = self._nursery.spawn()
        if task.adopt is not None:
            task.adopt(pid, slot)
        member = _Member(job, slot, pid, channel, given)
        log = task.log_dir / f"job-{job:04d}.log"
        channel.send(
            JobOrder(
                task.kind,
                task.name,
                task.options,
                job,
                given,
                task.packets is not None,
                task.network,
                log,
                task.namespace(slot),
                task.environment,
            )
        )
        self._members.append(member)
        self._selector.register(channel, selectors.EVENT_READ, member)
        return member

    def _await_ready(self, members: list[_Member]) -> None:
        deadline = time.monotonic() + _READY_PATIENCE_S
        while not all(member.ready or member.end for member in members):
            self._turn(1.0)
            if time.monotonic() > deadline:
                raise HeadraceError(
                    f"jobs of workload {self._task.name} did not get ready within {_READY_PATIENCE_S:.0f} s"
                )

    def _go(self, member: _Member) -> None:
        member.released_at = time.monotonic()
        with contextlib.suppress(OSError):
            member.channel.send(("go",))

    def _more(self) -> bool:
        """Whether another job is to be started in a slot that has become free."""
        task = self._task
        if task.jobs_total is not None:
            return self._started < task.jobs_total
        return task.duration_s is not None and time.monotonic() - self._release < task.duration_s

    # -- the loop -------------------------------------------------------------------------------------------

    def _running(self) -> list[_Member]:
        return [member for member in self._members if member.end is None]

    def _loop(self) -> None:
        shown = 0.0
        while running := self._running():
            self._turn(0.25)
            now = time.monotonic()
            for member in running:
                if (
                    member.end is None
                    and member.released_at
                    and now - member.released_at > self._task.timeout_s
                ):
                    self._kill(member, "timeout")
            if now - shown > 0.5:
                shown = now
                self._report(now)

    def _report(self, now: float) -> None:
        ends = [member.end for member in self._members if member.end is not None]
        events = sum(end.output.events for end in ends if end.output is not None)
        if self._task.packets is not None:
            events = max(events, self._task.packets.events_done)
        self._task.progress(
            len(ends), len(self._members) - len(ends), events / max(now - self._release, 1e-9)
        )

    def _turn(self, patience_s: float) -> None:
        """Takes what has come in; waits at most `patience_s`."""
        if self._stop():
            raise InterruptedRunError("stopped")
        for key, _ in self._selector.select(patience_s):
            if key.data is None:
                continue
            self._hear(key.data)
        for gone in self._nursery.take_exits():
            for member in self._members:
                if member.pid == gone.pid:
                    self._gone(member, gone)

    def _hear(self, member: _Member) -> None:
        try:
            message, _ = member.channel.receive()
        except (EOFError, OSError):
            self._hang_up(member)
            return
        word = message[0]
        if word == "ready":
            member.ready = True
            if self._release:
                self._go(member)
        elif word == "next":
            self._serve_packet(member)
        elif word == "done":
            _, start, end, output, ledger = message
            self._finish(member, "ok", None, start, end, output, ledger)
        else:  # failed, killed, out-of-memory
            _, start, end, cause, ledger = message
            self._finish(member, word, cause, start, end, None, ledger)

    def _serve_packet(self, member: _Member) -> None:
        packets = self._task.packets
        if packets is None:
            raise RuntimeError("a job fed by files asked for a packet")
        answer = packets.next(member.job, time.monotonic(), self._task.home(member.slot))
        if answer == "wait":
            member.waiting_for_packet = True
            return
        if isinstance(answer, Packet):
            answer = replace(answer, file=self._task.here(answer.file, member.slot))
        with contextlib.suppress(OSError):
            member.channel.send(answer)
        if answer is None and self._stonewall is None:
            self._stonewall = time.monotonic() - self._release
        for other in self._members:
            if other.waiting_for_packet and other is not member:
                other.waiting_for_packet = False
                self._serve_packet(other)

    def _finish(
        self,
        member: _Member,
        exit_word: str,
        cause: str | None,
        start: float,
        end: float,
        output: Any,
        ledger: Any,
    ) -> None:
        file = member.input.files[0] if member.input.files else None
        base = self._release or start
        member.end = JobEnd(
            member.job, member.slot, file, exit_word, cause, start - base, end - base, output, ledger, start
        )
        if member.gone is not None:
            member.end.peak_rss_bytes = member.gone.peak_rss_bytes
        if self._task.packets is not None:
            self._task.packets.finished(member.job, end)
        self._hang_up(member)
        if self._release and self._more():
            self._hire(member.slot)
        elif self._release and self._stonewall is None and (self._task.duration_s or self._task.jobs_total):
            self._stonewall = time.monotonic() - self._release

    def _hang_up(self, member: _Member) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(member.channel)
            member.channel.close()

    def _gone(self, member: _Member, gone: Exit) -> None:
        """A job process has ended. What it reported may still be in the channel: hear that first."""
        member.gone = gone
        while member.end is None and member.channel.sock.fileno() >= 0:
            self._hear(member)
        if member.end is None:
            word, cause = self._cause_of_death(member, gone)
            now = time.monotonic()
            self._finish(member, word, cause, member.released_at or now, now, None, None)
        if member.end is not None:
            member.end.peak_rss_bytes = gone.peak_rss_bytes

    def _cause_of_death(self, member: _Member, gone: Exit) -> tuple[str, str]:
        if member.killed_for == "timeout":
            return "timeout", f"did not end within {self._task.timeout_s:g} s and was killed"
        if os.WIFSIGNALED(gone.status):
            number = os.WTERMSIG(gone.status)
            count = self._task.out_of_memory() if self._task.out_of_memory else 0
            if number == signal.SIGKILL and count > self._oom_before:
                self._oom_before += (
                    1  # each kill explains one death: two jobs can die before the first is heard of
                )
                return "out-of-memory", "killed by the kernel: the memory limit of the jobs was reached"
            return "killed", f"killed by signal {signal.Signals(number).name}"
        return "failed", f"ended with exit code {os.WEXITSTATUS(gone.status)} and no report"

    def _kill(self, member: _Member, why: str) -> None:
        member.killed_for = why
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(member.pid, signal.SIGKILL)

    def _dismiss(self) -> None:
        """Whatever still runs is ended, by its id."""
        for member in self._running():
            self._kill(member, "stopped")
            self._hang_up(member)
        deadline = time.monotonic() + 10
        left = {member.pid for member in self._members if member.gone is None}
        while left and time.monotonic() < deadline:
            with contextlib.suppress(EOFError):
                for gone in self._nursery.take_exits():
                    left.discard(gone.pid)
                    for member in self._members:
                        if member.pid == gone.pid and member.end is not None:
                            member.end.peak_rss_bytes = gone.peak_rss_bytes
            time.sleep(0.005)
        self._selector.close()
