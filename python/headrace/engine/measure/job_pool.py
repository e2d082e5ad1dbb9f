"""Run the jobs of one trial: release them together, serve packets, sustain load, enforce timeouts.

All jobs are started and warmed up before the release. Where they run, and how they are started and
killed, is the launcher's part. While jobs run, the pool sleeps in the launcher's `wait`.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.engine.live import NodeLive
from headrace.engine.measure.live_jobs import LiveJobs
from headrace.engine.measure.own_stops import OwnStops
from headrace.engine.measure.packets import Packetiser
from headrace.errors import HeadraceError, InterruptedRunError
from headrace.launchers import (
    Agent,
    Ended,
    Event,
    Job,
    JobExit,
    JobSpec,
    Launcher,
    LauncherLostError,
    NodeLostError,
    PacketWanted,
    Ready,
    Reported,
)
from headrace.records.trial_record import PacketsRecord
from headrace.system.children import signal_name
from headrace.system.waiting import remaining
from headrace.workloads import JobInput, JobOutput, Packet

_READY_PATIENCE_S = 120.0
_EXIT_PATIENCE_S = 10.0
_CRASHES = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)


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
    """Seconds since the release."""
    output: JobOutput | None
    """Of a worker that died, that of the packets whose results it had returned."""
    ledger: Any
    absolute_start_s: float
    """On the monotonic clock, which the job's phases also use."""
    peak_rss_bytes: int = 0


@dataclass
class PoolResult:
    """How all jobs of a trial ended."""

    jobs: list[JobEnd]
    release_monotonic_s: float
    stonewall_s: float
    """Seconds from the release until the first slot had nothing left to do."""
    last_done_s: float
    packets: PacketsRecord | None = None
    """None when jobs are fed by files."""
    released: int = 0
    """Jobs that were released together: those with the smallest numbers."""
    storage_lost: str = ""
    """Why the storage was gone while jobs ran, in words; empty if it was there."""
    stopped_s: float = 0.0
    """Seconds for which this process was stopped while jobs ran."""


@dataclass
class _PoolJob:
    job: Job
    slot: int
    spawned_s: float = field(default_factory=time.monotonic)
    ready: bool = False
    waiting_for_packet: bool = False
    had_packet: bool = False
    so_far: JobOutput | None = None
    """Its output of all packets before its last request."""
    dismissed: bool = False
    """Whether it has received the message that no packet is left."""
    end: JobEnd | None = None
    killed_for: str | None = None

    @property
    def number(self) -> int:
        """Number of the job within the trial."""
        return self.job.spec.job


@dataclass
class PoolTask:
    """Everything that the pool needs to run the jobs of a trial."""

    kind: str
    name: str
    options: dict[str, object]
    slots: int
    """Sum over all nodes."""
    network: bool
    make_input: Callable[[int, int], JobInput]
    """(job, slot) -> input of that job."""
    agent: Callable[[int], Agent]
    """Agent of the node of a slot. Packets of files on that node are preferred."""
    log_dir: Path
    timeout_s: float
    packets: Packetiser | None = None
    duration_s: float | None = None
    """Sustained load for this time; None: a batch."""
    jobs_total: int | None = None
    """Sustained load until this many jobs have started."""
    here: Callable[[str, int], str] = field(default=lambda file, slot: file)
    """Path of a data set file on the node of a slot."""
    first_leads: bool = False
    """Whether the first job gets ready before the others are started (`Workload.leads`)."""
    yield_to_kernel: bool = False
    """Whether jobs leave the CPU at once to the kernel's path to an emulated drive."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Environment variables that jobs need to reach the storage."""
    crash_note: str = ""
    """A likely reason why a job was killed by a crash of its own (`Workload.crash_note`)."""
    storage_lost: Callable[[], str] = field(default=lambda: "")
    """Why the storage is gone, in words; empty while it is there."""
    progress: Callable[[int, int, float], None] = field(default=lambda done, running, rate: None)
    live: Callable[[float, tuple[NodeLive, ...], int], None] | None = None
    """Called with the seconds since the release, the state of each node and all events; None: no
    observer wants it."""


class JobPool:
    """The jobs of one trial."""

    def __init__(self, launcher: Launcher, task: PoolTask, stop: Callable[[], bool]) -> None:
        self._launcher = launcher
        self._task = task
        self._stop = stop
        self._jobs: list[_PoolJob] = []
        self._running: dict[int, _PoolJob] = {}
        """Jobs that have not ended, by number."""
        self._pool_job: dict[Job, _PoolJob] = {}
        self._agents = list(dict.fromkeys(task.agent(slot) for slot in range(task.slots)))
        self._started = 0
        self._offered: dict[str, str] = {}
        """Variables that ready jobs offer to those after them."""
        self._release = 0.0
        self._stonewall: float | None = None
        self._closed = False
        self._replaced = 0
        """Workers started to replace dead ones whose packets no other worker could take."""
        self._oom_before = self._out_of_memory()
        self._storage_lost = ""
        self._live = LiveJobs(map(task.agent, range(task.slots)))
        self._stops = OwnStops()

    def get_ready(self) -> list[Job]:
        """Start one job per slot and return the jobs when all are ready for release.

        Raises InterruptedRunError when stopped, HeadraceError when jobs cannot start.
        """
        task = self._task
        problem = self._launcher.warm(task.kind, task.name, task.options)
        if problem is not None:
            raise HeadraceError(f"workload {task.name} could not be warmed: {problem}")
        if task.first_leads:
            self._spawn_leader()
        for slot in range(len(self._jobs), task.slots):
            self._spawn(slot)
        self._await_ready(self._jobs)
        return [job.job for job in self._jobs]

    def run(self) -> PoolResult:
        """Release the jobs and return when the last one has reported its end.

        Processes may not have exited by then: `close` waits for them. Raises InterruptedRunError
        when stopped.
        """
        self._stops = OwnStops()  # what was before the release harms nothing
        self._release = time.monotonic()
        self._launcher.release([job.job for job in self._jobs])
        self._show_nodes()
        self._loop()
        self._show_nodes()
        # They may have failed before it was looked at, or have read copies of what is lost.
        self._note_storage()
        ends = [job.end for job in self._jobs if job.end is not None]
        last = max((end.end_s for end in ends), default=0.0)
        stonewall = (
            self._stonewall
            if self._stonewall is not None
            else min((end.end_s for end in ends), default=0.0)
        )
        jobs = sorted(ends, key=lambda end: end.job)
        packets = self._task.packets and self._task.packets.summary(self._release)
        return PoolResult(
            jobs,
            self._release,
            stonewall,
            last,
            packets,
            self._task.slots,
            self._storage_lost,
            self._stops.stopped_s,
        )

    # -- one job --

    def _spawn_leader(self) -> None:
        """Start the first job, and take what it offers to the others."""
        self._spawn(0)
        self._await_ready(self._jobs)
        if (end := self._jobs[0].end) is not None:
            raise HeadraceError(end.cause or f"the first job ended: {end.exit}")

    def _spawn(self, slot: int) -> None:
        task, number = self._task, self._started
        self._started += 1
        spec = JobSpec(
            task.kind,
            task.name,
            task.options,
            number,
            task.make_input(number, slot),
            task.packets is not None,
            task.network,
            task.log_dir / f"job-{number:04d}.log",
            {**task.environment, **self._offered},
            task.yield_to_kernel,
            at_once=self._release > 0,
        )
        job = _PoolJob(self._launcher.spawn(spec, task.agent(slot)), slot)
        self._jobs.append(job)  # from here on, `close` ends it
        self._running[number] = job
        self._pool_job[job.job] = job
        self._live.started(number, job.job)

    def _await_ready(self, jobs: list[_PoolJob]) -> None:
        for left_s in remaining(_READY_PATIENCE_S):
            if all(job.ready or job.end for job in jobs):
                return
            self._poll(min(1.0, left_s))
        raise HeadraceError(
            f"jobs of workload {self._task.name} did not get ready within {_READY_PATIENCE_S:.0f} s"
        )

    def _more(self) -> bool:
        """Return whether to start another job in a free slot."""
        task = self._task
        if self._storage_lost:
            return False
        if task.jobs_total is not None:
            return self._started < task.jobs_total
        return task.duration_s is not None and time.monotonic() - self._release < task.duration_s

    # -- the loop --

    def _loop(self) -> None:
        shown = 0.0
        while self._running:
            self._poll(0.25)
            now = time.monotonic()
            self._kill_late(now)
            if now - shown > 0.5:
                shown = now
                self._kill_without_storage()
                self._report(now)

    def _kill_without_storage(self) -> None:
        """Kill the jobs when their storage is gone: a hard mount would let them wait for it."""
        self._note_storage()
        for job in self._running.values():
            if self._storage_lost and job.killed_for is None:
                self._kill(job, "storage lost")

    def _note_storage(self) -> None:
        if not self._storage_lost and (lost := self._task.storage_lost()):
            self._storage_lost = f"{lost} while jobs ran"

    def _kill_late(self, now_s: float) -> None:
        """Kill jobs that run for too long, and those that begin at once and do not get ready."""
        for job in self._running.values():
            if job.killed_for is not None:
                continue
            released_s = job.job.released_s
            if released_s and now_s - released_s > self._task.timeout_s:
                self._kill(job, "timeout")
            elif not job.ready and now_s - job.spawned_s > _READY_PATIENCE_S:
                self._kill(job, "not ready")

    def _report(self, now: float) -> None:
        ends = [job.end for job in self._jobs if job.end is not None]
        events = self._events(ends)
        self._task.progress(
            len(ends), len(self._jobs) - len(ends), events / max(now - self._release, 1e-9)
        )
        if self._live.due:
            self._show_nodes()

    def _events(self, ends: Iterable[JobEnd]) -> int:
        """Return the events processed so far."""
        events = sum(end.output.events for end in ends if end.output is not None)
        return events if self._task.packets is None else max(events, self._task.packets.events_done)

    def _show_nodes(self) -> None:
        """Report what runs on each node, if an observer wants it."""
        if (show := self._task.live) is None:
            return
        waiting = Counter(job.job.agent for job in self._jobs if job.waiting_for_packet)
        nodes = self._live.snapshot(waiting)
        events = self._events(job.end for job in self._jobs if job.end is not None)
        show(time.monotonic() - self._release, nodes, events)

    def _poll(self, patience_s: float) -> None:
        """Process all pending messages and exits; wait at most `patience_s`."""
        if self._stop():
            raise InterruptedRunError("stopped")
        with self._stops.waiting(patience_s):
            events = self._launcher.wait(patience_s)
        for event in events:
            if (job := self._pool_job.get(event.job)) is not None:
                self._process(job, event)

    def _process(self, job: _PoolJob, event: Event) -> None:
        match event:
            case Ready():
                job.ready = True
                self._offered.update(event.offers)
            case PacketWanted():
                job.so_far = event.so_far
                self._serve_packet(job)
            case Reported():
                self._finish(job, self._in_time(job, event))
            case Ended():
                self._ended(job, event)

    def _serve_packet(self, job: _PoolJob) -> None:
        packets = self._task.packets
        if packets is None:
            raise RuntimeError("a job fed by files asked for a packet")
        answer = packets.next(job.number, time.monotonic(), job.job.agent.name)
        job.waiting_for_packet = answer == "wait"
        if answer == "wait":
            return
        packet = None
        if isinstance(answer, Packet):
            packet = replace(answer, file=self._task.here(answer.file, job.slot))
        job.had_packet = job.had_packet or packet is not None
        job.dismissed = packet is None
        self._launcher.give(job.job, packet)
        if packet is None and self._stonewall is None:
            self._stonewall = time.monotonic() - self._release
        self._serve_waiting()

    def _serve_waiting(self) -> None:
        """Serve the waiting workers: a packet may have been returned."""
        for job in [*self._running.values()]:
            if job.waiting_for_packet and job.end is None:
                job.waiting_for_packet = False
                self._serve_packet(job)

    def _packets_ended(self, job: _PoolJob, end: JobEnd) -> None:
        """Process the end of a worker; without results, others must process its packets again."""
        packets = self._task.packets
        if packets is None:
            return
        if end.exit == "ok":
            packets.finished(job.number, end.absolute_start_s + end.end_s - end.start_s)
        else:
            packets.died(
                job.number,
                end.cause or end.exit,
                end.absolute_start_s + end.end_s - end.start_s,
                results_kept=job.so_far is not None,
            )
        self._serve_waiting()
        active = [other for other in self._running.values() if not other.dismissed]
        stranded = packets.stranded(other.job.agent.name for other in active)
        useful = job.had_packet and end.exit != "timeout" and self._replaced < self._task.slots
        if self._release and stranded and useful:
            self._replaced += 1
            self._replace(job)

    def _replace(self, dead: _PoolJob) -> None:
        """Start a worker in the slot of a dead one; in another one if its node is lost."""
        slots = dict.fromkeys([dead.slot, *(job.slot for job in self._jobs)])
        for slot in slots:
            try:
                self._spawn(slot)
            except LauncherLostError:
                continue
            return

    def _finish(self, job: _PoolJob, report: Reported, *, node_lost: bool = False) -> None:
        files = job.job.spec.input.files
        base = self._release or report.start_s
        job.end = JobEnd(
            job.number,
            job.slot,
            _printable(files[0]) if files else None,
            report.word,
            None if report.cause is None else _printable(report.cause),
            report.start_s - base,
            report.end_s - base,
            report.output or job.so_far,
            report.ledger,
            report.start_s,
        )
        self._running.pop(job.number, None)
        self._live.ended(job.job, job.end, node_lost=node_lost)
        self._packets_ended(job, job.end)
        if self._release and (self._task.duration_s or self._task.jobs_total):
            self._fill(job.slot)

    def _fill(self, slot: int) -> None:
        """Start the next job of a sustained load in a slot that became free.

        A slot of a lost node stays empty, and the others go on.
        """
        with contextlib.suppress(NodeLostError):
            if self._more():
                self._spawn(slot)
                return
        if self._stonewall is None:
            self._stonewall = time.monotonic() - self._release

    def _ended(self, job: _PoolJob, event: Ended) -> None:
        """Process the exit of a job process; without a report, it is the end of the job."""
        exit = event.exit
        if job.end is None:
            word, cause = self._cause_of_death(job, exit)
            cause = event.cause or cause
            now = time.monotonic()
            start = job.job.released_s or now
            report = Reported(job.job, word, cause, start, now, None, None)
            self._finish(job, report, node_lost=event.cause is not None)
        if job.end is not None:
            job.end.peak_rss_bytes = exit.peak_rss_bytes

    def _in_time(self, job: _PoolJob, report: Reported) -> Reported:
        """Return a report, as of a job that was too late if it came between the end of its time and
        the signal: the job that was killed first may have had what this one waited for.
        """
        limit_s = job.job.released_s + self._task.timeout_s
        if job.killed_for != "timeout" or report.end_s <= limit_s:
            return report
        word, cause = self._too_late
        return replace(report, word=word, cause=cause)

    def _out_of_memory(self) -> int:
        killed = 0
        for agent in self._agents:
            with contextlib.suppress(LauncherLostError):  # its jobs have that as their cause
                killed += agent.out_of_memory()
        return killed

    def _cause_of_death(self, job: _PoolJob, exit: JobExit) -> tuple[str, str]:
        if job.killed_for == "timeout":
            return self._too_late
        if job.killed_for == "storage lost":
            return "killed", self._storage_lost
        if job.killed_for == "not ready":
            return "timeout", f"did not get ready within {_READY_PATIENCE_S:g} s and was killed"
        if exit.signal is not None:
            if exit.signal == signal.SIGKILL and self._out_of_memory() > self._oom_before:
                # Each kill explains one death: two jobs can die before the first is reported.
                self._oom_before += 1
                return (
                    "out-of-memory",
                    "killed by the kernel: the memory limit of the jobs was reached",
                )
            note = self._task.crash_note if exit.signal in _CRASHES else ""
            name = signal_name(exit.signal).removeprefix("signal ")
            return "killed", f"killed by signal {name}" + (f": {note}" if note else "")
        if exit.exit_code is None:
            return "failed", "ended without a report"
        return "failed", f"ended with exit code {exit.exit_code} and no report"

    @property
    def _too_late(self) -> tuple[str, str]:
        return "timeout", f"did not end within {self._task.timeout_s:g} s and was killed"

    def _kill(self, job: _PoolJob, why: str) -> None:
        job.killed_for = why
        self._launcher.kill([job.job])

    def kill(self) -> None:
        """Kill every job that has not reported its end; `close` waits for them."""
        for job in self._running.values():
            self._kill(job, "stopped")

    def close(self) -> None:
        """Kill remaining jobs and wait until every process has ended.

        Safe to call twice. Raises HeadraceError with the ids of processes that do not end.
        """
        if self._closed:
            return
        self._closed = True
        self.kill()
        left = self._launcher.reap([job.job for job in self._jobs], _EXIT_PATIENCE_S)
        for job in self._jobs:
            if job.end is not None and job.job.exit is not None:
                job.end.peak_rss_bytes = job.job.exit.peak_rss_bytes
        if left:
            pids = ", ".join(map(str, sorted(job.pid for job in left)))
            raise HeadraceError(f"jobs do not end: process {pids}")


def _printable(text: str) -> str:
    """Return a text that can be recorded: bytes of names that are not UTF-8 become `\\udcXX`."""
    return text.encode(errors="backslashreplace").decode()
