"""Jobs on this machine, forked from a process that has already imported everything.

One thread and one selector over the jobs' channels. While jobs run it sleeps; a job costs it one
message when it is ready, one per packet and one at the end.
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from typing_extensions import override

from headrace import probes
from headrace.errors import HeadraceError, MissingError, UnsupportedLevelError
from headrace.jobs import Packet
from headrace.launchers import (
    Agent,
    Ended,
    Event,
    Job,
    JobExit,
    JobSpec,
    Launcher,
    Launchers,
    Nodes,
    NodesWanted,
    PacketWanted,
    Ready,
    Reported,
)
from headrace.launchers.caches import prepare_cache, read_urls
from headrace.launchers.channel import Channel
from headrace.launchers.fork_server import Exit, ForkServer, ForkServerDiedError
from headrace.probes.sampler import Sampler, Samples, Sampling
from headrace.system import page_cache
from headrace.system.accounting import UseSoFar, process_use
from headrace.system.cgroups import MemoryLimit
from headrace.system.children import kill_family
from headrace.system.emulator import yield_to_kernel
from headrace.system.journal import Journal
from headrace.system.machine_facts import MachineFacts, machine_facts
from headrace.system.machine_use import (
    LoadWatch,
    MachineUse,
    Own,
    started_processes,
    usable_cpus,
)
from headrace.system.memory_limits import MemoryLimits
from headrace.system.storage import storage_of
from headrace.system.storage_settings import AppliedSetting, KernelSettings, SettingValue
from headrace.system.waiting import remaining

if TYPE_CHECKING:  # a node process imports them when it has a target or a meter
    from headrace.launchers.node_storage import LocalNodeStorage
    from headrace.meters.node_meters import LocalNodeMeters

_REPORT_PATIENCE_S = 1.0
"""Time for the fork server to report the ends of processes that have ended."""
_REST_PATIENCE_S = 1.0
"""Time for the rest of a message of a job that has ended: a child may hold its channel open."""
_END_PATIENCE_S = 10.0


class LocalAgent(Agent):
    """A node whose jobs are processes of this machine."""

    namespace: str | None = None
    """Network namespace that its jobs enter; None: that of the machine."""


class MachineAgent(LocalAgent):
    """A node that shares this machine's kernel: the machine itself, or a network namespace.

    Everything is done in this process.
    """

    load_cpus: frozenset[int] | None = None
    """CPUs of all nodes of this kernel together; None: all that Headrace may use."""

    carriers: frozenset[int] = frozenset()
    """Processes that only carry the messages of this one: a worker of Dask."""

    def __init__(self, journal: Journal, memory: MemoryLimit | None = None) -> None:
        """`memory`: the limit of all programs of the node."""
        self._journal = journal
        self._node_storage: LocalNodeStorage | None = None
        self._limits = MemoryLimits(journal, memory)
        self._sampler: Sampler | None = None
        self._load: LoadWatch | None = None
        self._settings = KernelSettings(journal)
        self._meters: LocalNodeMeters | None = None
        self.kernel = self._settings.kernel

    @property
    @override
    def storage(self) -> LocalNodeStorage:
        if self._node_storage is None:
            from headrace.launchers.node_storage import LocalNodeStorage

            self._node_storage = LocalNodeStorage(self._journal, self._settings)
        return self._node_storage

    @property
    @override
    def meters(self) -> LocalNodeMeters:
        if self._meters is None:
            from headrace.meters.node_meters import LocalNodeMeters

            self._meters = LocalNodeMeters()
        return self._meters

    def close(self) -> None:
        """Tear down the targets that were set up here."""
        if self._node_storage is not None:
            self._node_storage.close()

    @override
    def machine(self) -> MachineFacts:
        return machine_facts()

    @override
    def adopt(self, pid: int) -> None:
        self._limits.adopt(pid)

    @override
    def limit_memory(self, size: int, each: bool) -> None:
        if each:
            self._limits.limit_each(size)
        else:
            self._limits.limit(size)

    @override
    def lift_memory_limit(self) -> None:
        self._limits.lift()

    @override
    def has_file(self, path: str, content: str) -> bool:
        # Listing a directory makes a network file system ask its server for it anew.
        with contextlib.suppress(OSError), os.scandir(Path(path).parent) as entries:
            next(entries, None)
        try:
            return Path(path).read_text() == content
        except (OSError, ValueError):
            return False

    @override
    def out_of_memory(self) -> int:
        return self._limits.killed()

    @override
    def page_cache_drops(self) -> int | None:
        return page_cache.drops()

    @override
    def prepare_cache(self, wanted: str, files: Sequence[str], own_device: bool) -> int | None:
        return prepare_cache(wanted, files, own_device)

    @override
    def read_urls(self, urls: Sequence[str], environment: Mapping[str, str]) -> None:
        read_urls(self._journal, urls, environment, self._command)

    def _command(self, argv: Sequence[str]) -> Sequence[str]:
        """Return the command that runs `argv` in the network of the node's jobs."""
        return argv

    @override
    def can_drop_page_cache(self) -> bool:
        return page_cache.can_drop_all()

    @override
    def drop_page_cache(self) -> None:
        try:
            page_cache.drop_all()
        except MissingError as error:
            raise UnsupportedLevelError(f"{self.name}: {error.message}") from error

    @override
    def network_interfaces(self) -> tuple[str, ...]:
        states = psutil.net_if_stats()
        return tuple(sorted(name for name, each in states.items() if each.isup and name != "lo"))

    @override
    def devices(self, directory: str) -> tuple[str, ...]:
        return storage_of(Path(directory)).device_names

    @override
    def process_use(self, pids: Sequence[int]) -> dict[int, UseSoFar]:
        return {pid: use for pid in pids if (use := process_use(pid)) is not None}

    @override
    def lacking_probes(self, kinds: Sequence[str]) -> dict[str, str]:
        known = probes.kinds()
        found = {kind: known[kind]().check() for kind in kinds}
        return {kind: problems[0].what for kind, problems in found.items() if problems}

    @override
    def start_probes(self, sampling: Sampling) -> None:
        self._sampler = sampling.sampler()
        self._sampler.start(sampling.watch)

    @override
    def finish_probes(self) -> Samples:
        if self._sampler is None:
            return Samples()
        samples = self._sampler.finish()
        self._sampler = None
        return samples

    @override
    def watch_load(self, own: Own) -> int:
        cpus = self.load_cpus or usable_cpus()
        self._load = LoadWatch(cpus, self._with_started(own))
        return len(cpus)

    @override
    def other_load(self) -> float:
        return self._watched_load().others_now()

    @override
    def finish_load(self, own: Own) -> MachineUse:
        return self._watched_load().finish(self._with_started(own))

    def _with_started(self, own: Own) -> Own:
        """Add this process, what carries its messages, and what it started: servers, drives.

        Other nodes on this kernel have processes of their own (workers of Dask on one machine).
        """
        started = started_processes(self._journal)
        own = own.with_node_processes()
        return replace(
            own,
            servers=own.servers | started.servers,
            marks=own.marks | started.marks,
            pids=own.pids | started.pids | self.carriers,
        )

    def _watched_load(self) -> LoadWatch:
        if self._load is None:
            raise RuntimeError("watch_load was not called")
        return self._load

    @override
    def read_settings(self, directory: str) -> dict[str, SettingValue]:
        return self._settings.read_settings(directory)

    @override
    def apply_settings(
        self, directory: str, wanted: Mapping[str, str | int]
    ) -> tuple[AppliedSetting, ...]:
        return self._settings.apply_settings(directory, wanted)

    @override
    def restore_settings(self, directory: str) -> None:
        self._settings.restore_settings(directory)


@dataclass(eq=False)
class _LocalJob(Job):
    channel: Channel | None = None
    """None when nothing more is expected from it."""
    process: int = -1
    """A pidfd: readable when the process has ended; -1 when it is no longer needed."""


class Local(Launcher):
    """Runs jobs on this machine."""

    kind = "local"

    def __init__(self, others: Launchers) -> None:
        super().__init__(others)
        self._fork_server: ForkServer | None = None
        """Started for the first job: many a node has none."""
        self._selector = selectors.EpollSelector()
        self._watched: Channel | None = None
        self._jobs: dict[int, _LocalJob] = {}
        """Jobs that were not reaped, by process id."""
        self._closed = False

    def _started(self) -> ForkServer:
        if self._fork_server is None:
            self._fork_server = ForkServer()
            self._watch(self._fork_server)
        return self._fork_server

    def _watch(self, fork_server: ForkServer) -> None:
        """Wait for its messages, too; it has a new channel after it was started anew."""
        channel = fork_server.channel
        if channel is self._watched:
            return
        if self._watched is not None:
            self._selector.unregister(self._watched)
        self._selector.register(channel, selectors.EVENT_READ, None)
        self._watched = channel

    @override
    @classmethod
    def refuses(cls, wanted: NodesWanted) -> str | None:
        return wanted.reason or None

    @override
    @contextmanager
    def nodes(self, journal: Journal, wanted: NodesWanted) -> Generator[Nodes]:
        if (why_not := self.refuses(wanted)) is not None:
            raise HeadraceError(f'on = "{self.kind}": {why_not}')
        yield Nodes((MachineAgent(journal),))

    @override
    def warm(self, kind: str, name: str, options: dict[str, object]) -> str | None:
        fork_server = self._started()
        problem = fork_server.warm(kind, name, options)
        self._watch(fork_server)
        return problem

    @override
    def pids(self, agent: Agent) -> frozenset[int]:
        return frozenset() if self._fork_server is None else frozenset({self._fork_server.pid})

    # -- one job --

    @override
    def spawn(self, spec: JobSpec, agent: Agent) -> Job:
        if not isinstance(agent, LocalAgent):
            raise TypeError(f"launcher {self.kind}: {agent.name} is not a node of this machine")
        pid, channel = self._started().spawn(spec.input.schemes)
        job = self._jobs[pid] = _LocalJob(spec, agent, pid, channel=channel)
        try:
            job.process = os.pidfd_open(pid)
            self._selector.register(channel, selectors.EVENT_READ, job)
            agent.adopt(pid)
            if spec.yield_to_kernel:
                # Jobs that keep every CPU busy would delay the kernel's path to an emulated drive.
                yield_to_kernel(pid)
            with contextlib.suppress(OSError):  # a job that has died is reported by its exit
                channel.send((spec, agent.namespace, agent.clock.offset_s))
        except BaseException:
            self.kill([job])
            self.reap([job], _END_PATIENCE_S)
            raise
        return job

    @override
    def release(self, jobs: Iterable[Job]) -> None:
        # One time for all: where the end of one job ends others, too, all have the same time limit.
        now_s = time.monotonic()
        for job in self._own(jobs):
            if job.channel is not None:
                job.released_s = now_s
                with contextlib.suppress(OSError):
                    job.channel.send(("go",))

    @override
    def give(self, job: Job, packet: Packet | None) -> None:
        for own in self._own([job]):
            if own.channel is not None:
                with contextlib.suppress(OSError):
                    own.channel.send(packet)

    @override
    def kill(self, jobs: Iterable[Job]) -> None:
        for job in self._own(jobs):
            if job.exit is not None:  # the process id may be another's by now
                continue
            kill_family(job.pid, job.process)

    def _own(self, jobs: Iterable[Job]) -> list[_LocalJob]:
        return [job for job in jobs if isinstance(job, _LocalJob)]

    # -- what jobs say and how they end --

    def fileno(self) -> int:
        """File descriptor, for select: readable when `wait` returns something at once."""
        return self._selector.fileno()

    @override
    def wait(self, timeout_s: float) -> list[Event]:
        events: list[Event] = []
        for key, _ in self._selector.select(timeout_s):
            if key.data is not None:
                self._receive(key.data, events)
        exits = [] if self._fork_server is None else self._fork_server.take_exits()
        for gone in exits:
            job = self._jobs.get(gone.pid)
            if job is not None:
                self._ended(job, gone, events)
        return events

    def _receive(self, job: _LocalJob, events: list[Event]) -> None:
        if job.channel is None:
            return
        try:
            message, _ = job.channel.receive()
        except (EOFError, OSError):
            self._hang_up(job)
            return
        word = message[0]
        if word == "ready":
            if job.spec.at_once:
                job.released_s = time.monotonic()
            events.append(Ready(job, message[1]))
        elif word == "next":
            events.append(PacketWanted(job, message[1]))
        else:
            events.append(Reported(job, *message))
            self._hang_up(job)

    def _ended(self, job: _LocalJob, gone: Exit, events: list[Event]) -> None:
        """Return the last messages of a job, which may still be in its channel, and its end."""
        exit = job.exit = _exit_of(gone)
        self._forget_process(job)
        while job.channel is not None:
            # All that it sent is here. A child of it may hold the other end open, so that the end
            # of the stream never comes.
            if not select.select([job.channel], [], [], 0)[0]:
                self._hang_up(job)
                break
            job.channel.sock.settimeout(_REST_PATIENCE_S)
            self._receive(job, events)
        events.append(Ended(job, exit))

    def _hang_up(self, job: _LocalJob) -> None:
        if job.channel is not None:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(job.channel)
            job.channel.close()
            job.channel = None

    def _forget_process(self, job: _LocalJob) -> None:
        if job.process >= 0:
            os.close(job.process)
            job.process = -1

    # -- the end --

    @override
    def reap(self, jobs: Sequence[Job], patience_s: float) -> list[Job]:
        own = self._own(jobs)
        try:
            for job in own:
                self._hang_up(job)
            left = self._wait_for_processes(own, patience_s)
            self._take_resource_usage(own, _REPORT_PATIENCE_S)
        finally:
            for job in own:
                self._forget_process(job)
                if self._jobs.get(job.pid) is job:
                    del self._jobs[job.pid]
        return left

    def _wait_for_processes(self, jobs: Sequence[_LocalJob], patience_s: float) -> list[Job]:
        """Wait until processes have ended. Return the jobs of those still running."""
        waiting = {job.process: job for job in jobs if job.process >= 0}
        processes = select.poll()
        for descriptor in waiting:
            processes.register(descriptor, select.POLLIN)
        for left_s in remaining(patience_s):
            if not waiting:
                break
            for descriptor, _ in processes.poll(1000 * left_s):
                processes.unregister(descriptor)
                del waiting[descriptor]
        return list(waiting.values())

    def _take_resource_usage(self, jobs: Sequence[_LocalJob], patience_s: float) -> None:
        """Read the resource usage of ended processes from the fork server, unless it has died."""
        missing = {job.pid: job for job in jobs if job.exit is None}
        fork_server = self._fork_server
        if fork_server is None:
            return
        with contextlib.suppress(ForkServerDiedError):
            for left_s in remaining(patience_s):
                if not missing:
                    break
                for gone in fork_server.take_exits():
                    if (job := missing.pop(gone.pid, None)) is not None:
                        job.exit = _exit_of(gone)
                if missing:
                    select.select([fork_server], [], [], left_s)

    @override
    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            jobs = list(self._jobs.values())
            self.kill(jobs)
            self.reap(jobs, _END_PATIENCE_S)
        finally:
            self._selector.close()
            if self._fork_server is not None:
                self._fork_server.close()


def _exit_of(gone: Exit) -> JobExit:
    code = number = None
    if gone.status is not None and os.WIFSIGNALED(gone.status):
        number = os.WTERMSIG(gone.status)
    elif gone.status is not None:
        code = os.WEXITSTATUS(gone.status)
    return JobExit(code, number, gone.user_s, gone.system_s, gone.peak_rss_bytes)
