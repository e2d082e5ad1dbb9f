"""Watches jobs: looks at counters at every interval, samples states of threads between the looks.

The number of samples per second is bounded for all jobs together, so the cost does not grow with
their number: the more jobs, the rarer is each one's sample.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.system.accounting import (
    NS_PER_TICK,
    CounterFile,
    delay_accounting,
    delays_misplaced,
)
from headrace.system.taskstats import TaskDelays, TaskstatsSocket, listening_socket
from headrace.system.waiting import remaining
from headrace.watching.births import Births
from headrace.watching.clients import ClientSample, StorageClients
from headrace.watching.finders import Finder
from headrace.watching.foreign_io import ForeignIo
from headrace.watching.job import JobMeter
from headrace.watching.own_groups import MovedBytes
from headrace.watching.places import Places
from headrace.watching.process import read_processes
from headrace.watching.process_table import hides_others
from headrace.watching.sampling import ThreadSamples
from headrace.watching.states import StateReader
from headrace.watching.used import JobSample

_SAMPLES_PER_S = 100.0


@dataclass(frozen=True)
class NodeSample:
    """All jobs at one look."""

    time_s: float
    """On the monotonic clock."""
    interval_s: float
    jobs: tuple[JobSample, ...]
    cost_s: float
    """CPU time of the watching process in the interval."""
    foreign_cpus: float | None = None
    """CPUs that neither the jobs nor the watch use; None at the first look."""
    notes: tuple[str, ...] = field(default=())
    clients: tuple[ClientSample, ...] = field(default=())
    """Clients of network storage, of all programs of the node."""
    foreign_io: Mapping[str, MovedBytes] = field(default_factory=dict[str, MovedBytes])
    """Bytes of other programs by disk, in the interval."""

    @property
    def by_loss(self) -> list[JobSample]:
        """The jobs, those first that wait most."""
        return sorted(self.jobs, key=lambda job: -job.last.spent.lost_s)


class Watcher:
    """Watches the jobs that a finder names. A context manager."""

    def __init__(
        self,
        finder: Finder,
        *,
        samples_per_s: float = _SAMPLES_PER_S,
        seed: int | None = None,
        pressure: bool = True,
    ) -> None:
        """`samples_per_s`: states of threads, of all jobs together. 100 cost up to 1.2 % of a CPU;
        the standard uncertainty of a share is at most 0.5 / sqrt(samples of the job). `pressure`:
        read that of control groups, three files a job."""
        self._finder = finder
        self._pressure = pressure
        self._jobs: dict[str, JobMeter] = {}
        self._ended: dict[str, frozenset[int]] = {}
        self._taskstats: TaskstatsSocket | None = None
        self._samples = ThreadSamples(StateReader(Places()), samples_per_s, random.Random(seed))
        self._clients = StorageClients()
        self._foreign_io = ForeignIo()
        self._misplaced = delays_misplaced()
        self._births = Births()
        # The first process of every container and machine runs always.
        self._hidden = hides_others()
        self._last_s = 0.0
        self._cpu_s = 0.0
        self._busy: tuple[float, float] | None = None

    def __enter__(self) -> Watcher:
        """Find the jobs and begin. Raises what `Finder.find` raises."""
        self._taskstats = listening_socket()
        self._samples.lives_told = self._taskstats is not None
        try:
            self.look()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files. Safe to call twice."""
        for job in self._jobs.values():
            job.close()
        self._jobs.clear()
        self._foreign_io.close()
        self._births.close()
        if self._taskstats is not None:
            self._taskstats.close()
            self._taskstats = None

    @property
    def living(self) -> int:
        """Number of jobs that have processes."""
        return len(self._jobs)

    def watch(self, interval_s: float, stop: Callable[[], bool] = lambda: False) -> NodeSample:
        """Sample until the interval is over, then look at all counters.

        Ends early when `stop` returns True, or when no job is left.
        """
        before_s = interval_s
        for left_s in remaining(interval_s):
            self._samples.take(before_s - left_s)
            before_s = left_s
            if stop() or (not self._jobs and self._finder.ends):
                break
            time.sleep(min(self._samples.pause_s, left_s))
        return self.look()

    # -- looks --

    def look(self) -> NodeSample:
        """Look at the counters of every job now."""
        now_s = time.monotonic()
        ended, complete = self._taskstats.ended() if self._taskstats is not None else ([], True)
        self._find()
        of_jobs = self._owners(ended)
        samples = self._look_at_jobs(of_jobs)
        self._samples.list_threads(self._jobs.values())
        clients = self._clients.look(
            next(iter(job.processes)) for job in self._jobs.values() if job.processes
        )
        cpu_s, before_cpu_s = time.process_time(), self._cpu_s
        interval_s = now_s - self._last_s if self._last_s else 0.0
        self._last_s, self._cpu_s = now_s, cpu_s
        notes = () if complete else ("the kernel dropped reports of ended processes",)
        if self._hidden:
            notes += ("/proc hides the processes of other users (hidepid): they are left out",)
        cost_s = cpu_s - before_cpu_s
        foreign = self._foreign(samples, cost_s)
        foreign_io = self._foreign_io.look(samples)
        return NodeSample(
            now_s, interval_s, tuple(samples), cost_s, foreign, notes, clients, foreign_io
        )

    def _look_at_jobs(self, ended: Mapping[str, list[TaskDelays]]) -> list[JobSample]:
        """Read the counters of all processes by one call, then look at each job."""
        delays, forked = delay_accounting(), self._births.parents()
        jobs = [*self._jobs.items()]
        for _, job in jobs:
            job.follow(forked)
        readings, times_ns = read_processes(
            [reader for _, job in jobs for reader in job.processes.values()],
            delays and not self._misplaced,
            self._taskstats is not None,
        )
        samples: list[JobSample] = []
        begin = 0
        for key, job in jobs:
            end = begin + len(job.processes)
            now_ns = times_ns[begin] if begin < end else time.monotonic_ns()
            job.delays = delays
            sample = job.look(now_ns, readings[begin:end], ended.get(key, []))
            begin = end
            samples.append(sample)
            if sample.ended:
                job.close()
                del self._jobs[key]
                self._ended[key] = job.found.pids
        return samples

    def _foreign(self, samples: Sequence[JobSample], cost_s: float) -> float | None:
        """Return the CPUs used by what is not watched since the last look."""
        try:
            with CounterFile("/proc/stat", 256) as file:
                # user, nice, system, idle, iowait, irq, softirq (proc(5)); guests are part of user.
                ticks = [int(word) for word in file.read().split(maxsplit=8)[1:8]]
        except OSError:
            ticks = []
        if not ticks:  # some containers hide it
            return None
        now_s, busy_s = time.monotonic(), (sum(ticks) - ticks[3] - ticks[4]) * NS_PER_TICK / 1e9
        (before_s, before_busy_s), self._busy = self._busy or (0.0, 0.0), (now_s, busy_s)
        if not before_s or now_s <= before_s:
            return None
        ours_s = cost_s + sum(job.last.cpu_s for job in samples)
        return max(0.0, (busy_s - before_busy_s - ours_s) / (now_s - before_s))

    def _find(self) -> None:
        for found in self._finder.find():
            known = self._ended.get(found.key)
            # A slot or service has its name again when its next job comes, with other processes.
            if found.key not in self._jobs and (known is None or not found.pids <= known):
                self._jobs[found.key] = JobMeter(
                    found, self._taskstats, misplaced=self._misplaced, pressure=self._pressure
                )
            job = self._jobs.get(found.key)
            if job is not None and (job.found is not found or not job.processes):
                job.found = found
                if not found.pids <= job.processes.keys():
                    job.join(found.pids)

    def _owners(self, ended: Sequence[TaskDelays]) -> dict[str, list[TaskDelays]]:
        """Return the ended threads of each job: of its processes, and of what they started."""
        if not ended:
            return {}
        owner = {pid: key for key, job in self._jobs.items() for pid in job.processes}
        found: dict[str, list[TaskDelays]] = {}
        left = list(ended)
        grown = True
        while grown and left:
            # A parent's exit can be reported before or after its children's.
            rest: list[TaskDelays] = []
            for thread in left:
                process = thread.process or thread.pid
                key = owner.get(process) or owner.get(thread.parent)
                if key is None:
                    rest.append(thread)
                else:
                    owner[process] = key
                    found.setdefault(key, []).append(thread)
            grown, left = len(rest) < len(left), rest
        return found
