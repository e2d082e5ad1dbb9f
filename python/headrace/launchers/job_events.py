"""Jobs of a launcher, and what it reports of them: `Launcher.wait` returns the events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.jobs import JobInput, JobOutput

if TYPE_CHECKING:
    from headrace.launchers.agent import Agent


@dataclass(frozen=True)
class JobSpec:
    """Everything that a job process needs to know."""

    kind: str
    """Kind of the workload."""
    name: str
    options: dict[str, object]
    """Options of the workload, JSON-compatible."""
    job: int
    """Number of the job within the trial."""
    input: JobInput
    packets: bool
    """Whether the job requests packets while it runs."""
    network: bool
    """Whether it reads its files over the network, for its ledger."""
    log: Path
    """File for its standard output and standard error."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Variables that it needs to reach the storage."""
    yield_to_kernel: bool = False
    """Whether it leaves the CPU at once to the kernel's path to an emulated drive."""
    at_once: bool = False
    """Whether it begins as soon as it is ready, and is not released."""

    @property
    def by_url(self) -> bool:
        """Whether it reads its files by URL, so that no device of its node serves them."""
        return self.network and bool(self.input.schemes)


@dataclass(frozen=True)
class JobExit:
    """How a job's process ended. Code and signal are both None when nobody knows."""

    exit_code: int | None
    signal: int | None
    """Number of the signal that ended it."""
    user_s: float
    system_s: float
    peak_rss_bytes: int


@dataclass(eq=False)
class Job:
    """A job process. The launcher fills in when it was released and how it ended."""

    spec: JobSpec
    agent: Agent
    pid: int
    """Process id on its node; 0 as long as another machine has not said it."""
    released_s: float = 0.0
    """On the engine's monotonic clock; 0 before the release."""
    exit: JobExit | None = None
    """None until the end of the process was reported."""


@dataclass(frozen=True)
class Ready:
    """The job has done its imports and waits for the release, or begins (`JobSpec.at_once`)."""

    job: Job
    offers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Variables for the jobs that are spawned after it (`Workload.get_ready`)."""


@dataclass(frozen=True)
class PacketWanted:
    """The job waits for a packet: answer with `Launcher.give`."""

    job: Job
    so_far: JobOutput | None = None
    """Its output of all packets before; None if it reports its output only at its end."""


@dataclass(frozen=True)
class Reported:
    """The last message of a job: its result, or why it has none. The process ends soon after."""

    job: Job
    word: str
    """ok, failed, killed, out-of-memory."""
    cause: str | None
    start_s: float
    """On the engine's monotonic clock (`Agent.clock`), as are `end_s` and the output's phases."""
    end_s: float
    output: JobOutput | None
    ledger: Any


@dataclass(frozen=True)
class Ended:
    """The process has ended. All its messages were returned before this."""

    job: Job
    exit: JobExit
    cause: str | None = None
    """Why nothing is known of its end: its node was lost."""


Event = Ready | PacketWanted | Reported | Ended
