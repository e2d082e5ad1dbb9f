"""Run the jobs of one trial: release them together, serve packets, sustain load, enforce timeouts.

All jobs are started and warmed up before the release. The pool uses one thread and one selector
over the jobs' channels. While jobs run it sleeps; it costs them one message per job or packet.
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.engine.measure.fork_server import Channel, Exit, ForkServer, ForkServerDiedError
from headrace.engine.measure.job import JobOrder
from headrace.engine.measure.packets import Packetiser
from headrace.errors import HeadraceError, InterruptedRunError
from headrace.records.trial_record import PacketsRecord
from headrace.workloads import JobInput, JobOutput, Packet

_READY_PATIENCE_S = 120.0
_EXIT_PATIENCE_S = 10.0
_REPORT_PATIENCE_S = 1.0


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


@dataclass
class _PoolJob:
    number: int
    slot: int
    pid: int
    process: int
    """A pidfd: readable when the process has ended."""
    channel: Channel
    input: JobInput
    ready: bool = False
    released_at: float = 0.0
    waiting_for_packet: bool = False
    had_packet: bool = False
    dismissed: bool = False
    """Whether it has received the message that no packet is left."""
    end: JobEnd | None = None
    gone: Exit | None = None
    killed_for: str | None = None

    def forget_process(self) -> None:
        """Close the pidfd of a process that has ended. Safe to call twice."""
        if self.process >= 0:
            os.close(self.process)
            self.process = -1


@dataclass
class PoolTask:
    """Everything that the pool needs to run the jobs of a trial."""

    kind: str
    name: str
    options: dict[str, Any]
    slots: int
    """Sum over all nodes."""
    network: bool
    make_input: Callable[[int, int], JobInput]
    """(job, slot) -> input of that job."""
    log_dir: Path
    timeout_s: float
    packets: Packetiser | None = None
    duration_s: float | None = None
    """Sustained load for this time; None: a batch."""
    jobs_total: int | None = None
    """Sustained load until this many jobs have started."""
    adopt: Callable[[int, int], None] | None = None
    """Called with each new pid and its slot before the job starts (memory limit, CPUs)."""
    home: Callable[[int], str] = field(default=lambda slot: "")
    """Node of a slot; packets of files on that node are preferred."""
    here: Callable[[str, int], str] = field(default=lambda file, slot: file)
    """Path of a data set file on the node of a slot."""
    namespace: Callable[[int], str | None] = field(default=lambda slot: None)
    """Network namespace for the job of a slot; None: that of the machine."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Environment variables that jobs need to reach the storage."""
    out_of_memory: Callable[[], int] | None = None
    """Return how many processes the kernel has killed for lack of memory so far."""
    progress: Callable[[int, int, float], None] = field(default=lambda done, running, rate: None)


class JobPool:
    """The jobs of one trial."""

    def __init__(self, fork_server: ForkServer, task: PoolTask, stop: Callable[[], bool]) -> None:
        self._fork_server = fork_server
        self._task = task
        self._stop = stop
        self._jobs: list[_PoolJob] = []
        self._selector = selectors.DefaultSelector()
        self._selector.register(fork_server, selectors.EVENT_READ, None)
        self._started = 0
        self._release = 0.0
        self._stonewall: float | None = None
        self._closed = False
        self._replaced = 0
        """Workers started to replace dead ones whose packets no other worker could take."""
        self._oom_before = task.out_of_memory() if task.out_of_memory else 0

    def get_ready(self) -> list[int]:
        """Start one job per slot and return the process ids when all are ready for release.

        Raises InterruptedRunError when stopped, HeadraceError when jobs cannot start.
        """
        task = self._task
        problem = self._fork_server.warm(task.kind, task.name, task.options)
        if problem is not None:
            raise HeadraceError(f"workload {task.name} could not be warmed: {problem}")
        for slot in range(task.slots):
            self._spawn(slot)
        self._await_ready(self._jobs)
        return [job.pid for job in self._jobs]

    def run(self) -> PoolResult:
        """Release the jobs and return when the last one has reported its end.

        Processes may not have exited by then: `close` waits for them. Raises InterruptedRunError
        when stopped.
        """
        self._release = time.monotonic()
        for job in self._jobs:
            self._go(job)
        self._loop()
        ends = [job.end for job in self._jobs if job.end is not None]
        last = max((end.end_s for end in ends), default=0.0)
        stonewall = (
            self._stonewall
            if self._stonewall is not None
            else min((end.end_s for end in ends), default=0.0)
        )
        jobs = sorted(ends, key=lambda end: end.job)
        packets = None if self._task.packets is None else self._task.packets.summary()
        return PoolResult(jobs, self._release, stonewall, last, packets)

    # -- one job --

    def _spawn(self, slot: int) -> _PoolJob:
        task, number = self._task, self._started
        self._started += 1
        given = task.make_input(number, slot)
        pid, channel = self._fork_server.spawn()
        job = _PoolJob(number, slot, pid, os.pidfd_open(pid), channel, given)
        self._jobs.append(job)  # from here on, `close` ends it
        self._selector.register(channel, selectors.EVENT_READ, job)
        if task.adopt is not None:
            task.adopt(pid, slot)
        log = task.log_dir / f"job-{number:04d}.log"
        channel.send(
            JobOrder(
                task.kind,
                task.name,
                task.options,
                number,
                given,
                task.packets is not None,
                task.network,
                log,
                task.namespace(slot),
                task.environment,
            )
        )
        return job

    def _await_ready(self, jobs: list[_PoolJob]) -> None:
        deadline = time.monotonic() + _READY_PATIENCE_S
        while not all(job.ready or job.end for job in jobs):
            self._poll(1.0)
            if time.monotonic() > deadline:
                raise HeadraceError(
                    f"jobs of workload {self._task.name} did not get ready within "
                    f"{_READY_PATIENCE_S:.0f} s"
                )

    def _go(self, job: _PoolJob) -> None:
        job.released_at = time.monotonic()
        with contextlib.suppress(OSError):
            job.channel.send(("go",))

    def _more(self) -> bool:
        """Return whether to start another job in a free slot."""
        task = self._task
        if task.jobs_total is not None:
            return self._started < task.jobs_total
        return task.duration_s is not None and time.monotonic() - self._release < task.duration_s

    # -- the loop --

    def _running(self) -> list[_PoolJob]:
        return [job for job in self._jobs if job.end is None]

    def _loop(self) -> None:
        shown = 0.0
        while running := self._running():
            self._poll(0.25)
            now = time.monotonic()
            for job in running:
                if (
                    job.end is None
                    and job.released_at
                    and now - job.released_at > self._task.timeout_s
                ):
                    self._kill(job, "timeout")
            if now - shown > 0.5:
                shown = now
                self._report(now)

    def _report(self, now: float) -> None:
        ends = [job.end for job in self._jobs if job.end is not None]
        events = sum(end.output.events for end in ends if end.output is not None)
        if self._task.packets is not None:
            events = max(events, self._task.packets.events_done)
        self._task.progress(
            len(ends), len(self._jobs) - len(ends), events / max(now - self._release, 1e-9)
        )

    def _poll(self, patience_s: float) -> None:
        """Process all pending messages and exits; wait at most `patience_s`."""
        if self._stop():
            raise InterruptedRunError("stopped")
        for key, _ in self._selector.select(patience_s):
            if key.data is None:
                continue
            self._receive(key.data)
        for gone in self._fork_server.take_exits():
            for job in self._jobs:
                if job.pid == gone.pid:
                    self._gone(job, gone)

    def _receive(self, job: _PoolJob) -> None:
        try:
            message, _ = job.channel.receive()
        except (EOFError, OSError):
            self._hang_up(job)
            return
        word = message[0]
        if word == "ready":
            job.ready = True
            if self._release:
                self._go(job)
        elif word == "next":
            self._serve_packet(job)
        elif word == "done":
            _, start, end, output, ledger = message
            self._finish(job, "ok", None, start, end, output, ledger)
        else:  # failed, killed, out-of-memory
            _, start, end, cause, ledger = message
            self._finish(job, word, cause, start, end, None, ledger)

    def _serve_packet(self, job: _PoolJob) -> None:
        packets = self._task.packets
        if packets is None:
            raise RuntimeError("a job fed by files asked for a packet")
        answer = packets.next(job.number, time.monotonic(), self._task.home(job.slot))
        job.waiting_for_packet = answer == "wait"
        if answer == "wait":
            return
        if isinstance(answer, Packet):
            answer = replace(answer, file=self._task.here(answer.file, job.slot))
        job.had_packet = job.had_packet or answer is not None
        job.dismissed = answer is None
        with contextlib.suppress(OSError):  # a job that has died is reported by its exit
            job.channel.send(answer)
        if answer is None and self._stonewall is None:
            self._stonewall = time.monotonic() - self._release
        self._serve_waiting()

    def _serve_waiting(self) -> None:
        """Serve the waiting workers: a packet may have been returned."""
        for job in self._jobs:
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
            packets.died(job.number, end.cause or end.exit)
        self._serve_waiting()
        left = any(other.end is None and not other.dismissed for other in self._jobs)
        useful = job.had_packet and end.exit != "timeout" and self._replaced < self._task.slots
        if self._release and not left and packets.events_left and useful:
            self._replaced += 1
            self._spawn(job.slot)

    def _finish(
        self,
        job: _PoolJob,
        exit_word: str,
        cause: str | None,
        start: float,
        end: float,
        output: Any,
        ledger: Any,
    ) -> None:
        file = job.input.files[0] if job.input.files else None
        base = self._release or start
        job.end = JobEnd(
            job.number,
            job.slot,
            file,
            exit_word,
            cause,
            start - base,
            end - base,
            output,
            ledger,
            start,
        )
        if job.gone is not None:
            job.end.peak_rss_bytes = job.gone.peak_rss_bytes
        self._hang_up(job)
        self._packets_ended(job, job.end)
        if self._release and self._more():
            self._spawn(job.slot)
        elif (
            self._release
            and self._stonewall is None
            and (self._task.duration_s or self._task.jobs_total)
        ):
            self._stonewall = time.monotonic() - self._release

    def _hang_up(self, job: _PoolJob) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(job.channel)
            job.channel.close()

    def _gone(self, job: _PoolJob, gone: Exit) -> None:
        """Process the exit of a job process.

        Its last report may still be in the channel: read it first.
        """
        job.gone = gone
        job.forget_process()
        while job.end is None and job.channel.sock.fileno() >= 0:
            self._receive(job)
        if job.end is None:
            word, cause = self._cause_of_death(job, gone)
            now = time.monotonic()
            self._finish(job, word, cause, job.released_at or now, now, None, None)
        if job.end is not None:
            job.end.peak_rss_bytes = gone.peak_rss_bytes

    def _cause_of_death(self, job: _PoolJob, gone: Exit) -> tuple[str, str]:
        if job.killed_for == "timeout":
            return "timeout", f"did not end within {self._task.timeout_s:g} s and was killed"
        if gone.status is None:
            return "failed", "ended without a report"
        if os.WIFSIGNALED(gone.status):
            number = os.WTERMSIG(gone.status)
            count = self._task.out_of_memory() if self._task.out_of_memory else 0
            if number == signal.SIGKILL and count > self._oom_before:
                # Each kill explains one death: two jobs can die before the first is reported.
                self._oom_before += 1
                return (
                    "out-of-memory",
                    "killed by the kernel: the memory limit of the jobs was reached",
                )
            return "killed", f"killed by signal {signal.Signals(number).name}"
        return "failed", f"ended with exit code {os.WEXITSTATUS(gone.status)} and no report"

    def _kill(self, job: _PoolJob, why: str) -> None:
        job.killed_for = why
        for kill in (
            lambda: signal.pidfd_send_signal(job.process, signal.SIGKILL),
            # Includes its child processes; the process group may not exist yet.
            lambda: os.killpg(job.pid, signal.SIGKILL),
        ):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill()

    def kill(self) -> None:
        """Kill every job that has not reported its end; `close` waits for them."""
        for job in self._running():
            self._kill(job, "stopped")
            self._hang_up(job)

    def close(self) -> None:
        """Kill remaining jobs by process id and wait until every process has ended.

        Safe to call twice. Raises HeadraceError with the ids of processes that do not end.
        """
        if self._closed:
            return
        self._closed = True
        self.kill()
        try:
            left = self._wait_for_exits(_EXIT_PATIENCE_S)
        finally:
            self._selector.close()
        if left:
            raise HeadraceError(f"jobs do not end: process {', '.join(map(str, sorted(left)))}")

    def _wait_for_exits(self, patience_s: float) -> set[int]:
        """Wait until all jobs have ended. Return the process ids of those still running."""
        waiting = {job.process: job for job in self._jobs if job.gone is None}
        processes = select.poll()
        for descriptor in waiting:
            processes.register(descriptor, select.POLLIN)
        deadline = time.monotonic() + patience_s
        while waiting and (left_s := deadline - time.monotonic()) > 0:
            for descriptor, _ in processes.poll(1000 * left_s):
                processes.unregister(descriptor)
                del waiting[descriptor]
        self._take_resource_usage(_REPORT_PATIENCE_S)
        for job in self._jobs:
            job.forget_process()
        return {job.pid for job in waiting.values()}

    def _take_resource_usage(self, patience_s: float) -> None:
        """Read the resource usage of ended processes from the fork server, unless it has died."""
        missing = {job.pid: job for job in self._jobs if job.gone is None}
        deadline = time.monotonic() + patience_s
        with contextlib.suppress(ForkServerDiedError):
            while missing and (left_s := deadline - time.monotonic()) > 0:
                for gone in self._fork_server.take_exits():
                    job = missing.pop(gone.pid, None)
                    if job is not None and job.end is not None:
                        job.gone, job.end.peak_rss_bytes = gone, gone.peak_rss_bytes
                if missing:
                    select.select([self._fork_server], [], [], left_s)
