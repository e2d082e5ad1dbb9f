"""Launchers: where the jobs of a trial run, one module each. This module is their interface.

A launcher sets up the nodes of a whole plot, starts job processes on them, releases these together,
kills them, and reports what they say and how they end. What a trial is (its jobs, packets,
sustained load, time limits, validity) is the engine's. What must happen on a node goes through the
node's agent.

    with Launchers() as launchers:
        launcher = launchers["local"]
        with launcher.nodes(journal, NodesWanted(client_nodes(site, 1))) as nodes:
            launcher.warm("command", "mine", options)
            job = launcher.spawn(spec, nodes.agents[0])
            launcher.wait(60.0)         # [Ready(job)]
            launcher.release([job])
            launcher.wait(60.0)         # [Reported(job, ...)], then [Ended(job)]
            launcher.reap([job], 10.0)

`tests/system/test_launcher_contract.py` checks these methods for every registered launcher.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from headrace.errors import HeadraceError
from headrace.jobs import JobInput, JobOutput, Packet
from headrace.launchers.batch.options import BatchOptions
from headrace.probes.sampler import Samples, Sampling
from headrace.registry import Plugins, parts
from headrace.system.accounting import UseSoFar
from headrace.system.cluster import Cluster, NodeSettings
from headrace.system.journal import Journal
from headrace.system.machine_facts import MachineFacts
from headrace.system.machine_use import MachineUse, Own
from headrace.system.storage_settings import AppliedSetting, SettingValue, one_per_kernel
from headrace.targets.node_storage import NodeStorage

if TYPE_CHECKING:
    from headrace.meters.node_meters import NodeMeters


class LauncherLostError(HeadraceError):
    """What ran the jobs has died. The jobs died with it."""


class NodeLostError(LauncherLostError):
    """A node cannot be reached any more, or not yet again."""


# -- jobs --


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


# -- events: what `wait` returns --


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


# -- nodes --


@dataclass(frozen=True)
class Clock:
    """How a node's monotonic clock relates to the engine's. Every time that a launcher returns is
    on the engine's clock; what an agent returns is on the node's."""

    offset_s: float = 0.0
    """Seconds to add to a time of the node. Exactly 0 on the engine's kernel, whose processes share
    one monotonic clock."""
    uncertainty_s: float = 0.0
    """Largest error of the offset: half the time that asking the node for its time took."""

    def engine_s(self, node_s: float) -> float:
        """Return a time of the node on the engine's clock."""
        return node_s + self.offset_s


@dataclass(frozen=True)
class AgentEvent:
    """A node was lost, or returned."""

    what: Literal["lost", "returned"]
    at_s: float
    """On the engine's monotonic clock."""
    cause: str


class Agent(ABC):
    """What must happen on one node: settings, probes, page cache, CPUs and memory of jobs.

    Arguments and results of its methods are plain data (JSON has a form for each), and so are the
    errors that it raises: HeadraceError and OSError. So the code that does it can run in another
    process or on another machine. Every change is in the undo journal of that process first.
    """

    name: str = ""
    """Name of the node; empty for this machine."""
    kernel: str
    """Identity of the running kernel. Nodes with the same one share page cache and settings."""
    cpus: frozenset[int] | None = None
    """CPUs that jobs on this node may use; None: all that Headrace may use."""

    clock: Clock = Clock()
    """How times of this node become times of the engine; the launcher measures it."""

    @property
    def is_lost(self) -> bool:
        """Whether the node cannot be reached."""
        return False

    def take_events(self) -> list[AgentEvent]:
        """Return what happened to the node since the last call."""
        return []

    def measure_clock(self) -> Clock:
        """Return how the node's clock relates to the engine's now. `clock` stays as it is."""
        return self.clock

    def renew_clock(self) -> None:
        """Measure the node's clock anew, for `clock` and for jobs that are spawned from now on."""
        self.clock = self.measure_clock()

    @abstractmethod
    def machine(self) -> MachineFacts:
        """Return what the node is: host, versions, CPUs, memory."""

    @abstractmethod
    def adopt(self, pid: int) -> None:
        """Put a job's process on the node's CPUs and under its memory limits. Raises HeadraceError.

        The launcher calls it before the job receives its specification.
        """

    @abstractmethod
    def limit_memory(self, size: int, each: bool) -> None:
        """Limit the memory of jobs that are spawned from now on: of `each`, or of all together.

        Raises HeadraceError.
        """

    @abstractmethod
    def lift_memory_limit(self) -> None:
        """End the limit of `limit_memory`. Safe to call twice, and without a limit.

        Raises HeadraceError; a second call retries it.
        """

    @abstractmethod
    def has_file(self, path: str, content: str) -> bool:
        """Return whether the node sees a small file with this content at a path."""

    @abstractmethod
    def out_of_memory(self) -> int:
        """Return how many processes the node's kernel has killed because a limit was reached."""

    @abstractmethod
    def prepare_cache(self, wanted: str, files: Sequence[str], own_device: bool) -> int | None:
        """Bring the node's page cache into the state `wanted`: `cold`, `warm` or `as-is`.

        Returns the bytes of the files still in the cache when cold was requested, None otherwise.
        `own_device`: no other program uses the device. Raises OSError when a file cannot be read.
        """

    @abstractmethod
    def can_drop_page_cache(self) -> bool:
        """Return whether the agent may empty the whole page cache: whether it runs as root."""

    @abstractmethod
    def drop_page_cache(self) -> None:
        """Empty the whole page cache, after writing back what is dirty.

        Raises UnsupportedLevelError without root.
        """

    @abstractmethod
    def network_interfaces(self) -> tuple[str, ...]:
        """Return the network interfaces that are up, without loopback."""

    @abstractmethod
    def devices(self, directory: str) -> tuple[str, ...]:
        """Return the kernel names of the block devices below a directory. Raises HeadraceError."""

    @abstractmethod
    def process_use(self, pids: Sequence[int]) -> dict[int, UseSoFar]:
        """Return what processes of this node have used so far, without those that have ended.

        Never waits for another machine: its answer may be to an earlier question, or missing.
        """

    @property
    @abstractmethod
    def storage(self) -> NodeStorage:
        """What sets up targets that the node has for itself, and handles the files on them."""

    @property
    @abstractmethod
    def meters(self) -> NodeMeters:
        """What reads the power meters of the node itself."""

    # -- probes --

    @abstractmethod
    def lacking_probes(self, kinds: Sequence[str]) -> dict[str, str]:
        """Return what the node lacks for these kinds of probes, by kind. Nothing: not in it."""

    @abstractmethod
    def start_probes(self, sampling: Sampling) -> None:
        """Start probes and sample them until `finish_probes`. Raises the error of a probe.

        `finish_probes` is called in this case, too.
        """

    @abstractmethod
    def finish_probes(self) -> Samples:
        """Stop the probes and return their results: nothing where none were started."""

    # -- use of CPUs by other programs: `headrace.system.machine_use.LoadWatch` --

    @abstractmethod
    def watch_load(self, own: Own) -> int:
        """Begin to measure who uses the CPUs that jobs may use; return how many these are.

        They are those of all nodes of this kernel. `own`: the processes of the run on it.
        """

    @abstractmethod
    def other_load(self) -> float:
        """Return how many of these CPUs other programs used since the last call: a lower bound.

        Never waits for another machine: the answer may be that to the call before.
        """

    @abstractmethod
    def finish_load(self, own: Own) -> MachineUse:
        """Return the use of the CPUs since `watch_load`."""

    # -- settings of the storage: `headrace.system.storage_settings.StorageSettings` --

    @abstractmethod
    def read_settings(self, directory: str) -> dict[str, SettingValue]:
        """Return the current value of every setting of the storage below a directory.

        A value is None if the storage does not have it. Raises HeadraceError when the directory
        cannot be reached.
        """

    @abstractmethod
    def apply_settings(
        self, directory: str, wanted: Mapping[str, str | int]
    ) -> tuple[AppliedSetting, ...]:
        """Apply settings and read each one back.

        Raises HeadraceError as `read_settings` does; a value that cannot be set raises nothing.
        """

    @abstractmethod
    def restore_settings(self, directory: str) -> None:
        """Restore everything that was changed, and forget the directory. Safe to call twice.

        Raises HeadraceError that names what could not be restored; a second call retries it.
        """


@dataclass(frozen=True)
class NodesWanted:
    """The nodes that a whole plot needs."""

    clients: tuple[NodeSettings, ...]
    """Nodes that run jobs; a launcher that cannot build nodes ignores their settings."""
    servers: tuple[NodeSettings, ...] = ()
    """Nodes for servers that targets start."""
    reason: str = ""
    """Why jobs need nodes with a network of their own; empty when they do not."""
    only_here: str = ""
    """Why nodes that are other machines cannot use the storage; empty when they can."""
    address: str = ""
    """What follows `KIND://` in `[run] on`; empty when nothing does."""
    python: str = ""
    """Path of the Python with Headrace on other machines; empty: the path of this one."""
    batch: BatchOptions | None = None
    """`[run.batch]`: how nodes are requested from a batch system."""
    silence_s: float = 90.0
    """A node on another machine that is not heard of for this time is lost."""
    patience_s: float | None = None
    """How long nodes on other machines are tried to connect to; None: once."""


@dataclass(frozen=True)
class Nodes:
    """The nodes of a whole plot: an agent for each node that runs jobs, and links, if any."""

    agents: tuple[Agent, ...]
    cluster: Cluster | None = None
    """Nodes of jobs and servers and their links, where the launcher has built them."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the nodes that run jobs; empty when jobs run directly on this machine."""
        return tuple(agent.name for agent in self.agents if agent.name)

    def by_kernel(self) -> tuple[Agent, ...]:
        """Return one agent for each kernel: for what all nodes of a kernel share."""
        return one_per_kernel(self.agents)

    def first(self, count: int) -> Nodes:
        """Return the first of the nodes that run jobs; links and servers stay."""
        return Nodes(self.agents[:count], self.cluster)

    def rates(self) -> dict[str, float | None]:
        """Return the rate of each node's link per direction in bytes per second, servers included.

        None means no limit.
        """
        if self.cluster is None:
            return {}
        return {node.name: node.settings.link.rate_bytes_per_s for node in self.cluster}

    @contextmanager
    def links_open(self) -> Generator[None]:
        """Remove the limits of links while data sets are placed.

        Slow links would only add waiting time.
        """
        if self.cluster is None:
            yield
            return
        rates = {node.name: node.settings.link for node in self.cluster}
        slow = [
            name
            for name, link in rates.items()
            if link.rate_bytes_per_s is not None or link.delay_s
        ]
        for name in slow:
            self.cluster.set_link(name, replace(rates[name], rate_bytes_per_s=None, delay_s=0.0))
        try:
            yield
        finally:
            for name in slow:
                self.cluster.set_link(name, rates[name])


# -- launchers --


class Launcher(ABC):
    """One way to run jobs. A subclass is one module that defines `kind` and these methods.

    It lives as long as a run of a study, and runs the jobs of one trial at a time.
    """

    kind: ClassVar[str]
    elsewhere: ClassVar[bool] = False
    """True if its nodes are other machines, so that a node's own storage is set up by its agent."""
    nodes_at_once: ClassVar[bool] = True
    """False if nodes may have to wait for a queue: they are not started for a check alone."""
    starts_python: ClassVar[bool] = False
    """True if it starts Python on the nodes: the one that `[run] python` names."""
    address_form: ClassVar[str] = ""
    """How `[run] on` names it, if it needs an address: `dask://HOST:PORT`."""

    def __init__(self, others: Launchers) -> None:
        """`others`: the launchers of the same run, for one that builds on another."""

    @classmethod
    def misread(cls, address: str) -> str | None:
        """Return what is wrong with what follows `KIND://`; None when nothing is."""
        return None

    @classmethod
    def refuses_batch(cls, batch: BatchOptions | None) -> str | None:
        """Return why `[run.batch]` does not fit this launcher; None when it does."""
        return None if batch is None else f'on = "{cls.kind}" is no batch system'

    @classmethod
    def refuses_python(cls, python: str) -> str | None:
        """Return why a path of `[run] python` cannot be started; None when it can."""
        return None

    @classmethod
    def refuses(cls, wanted: NodesWanted) -> str | None:
        """Return why no machine could run these nodes with it; None when it can."""
        return None

    @classmethod
    def check(cls, wanted: NodesWanted) -> tuple[str, str] | None:
        """Return what is lacking for these nodes, and the remedy; None when nothing.

        May contact other machines; changes nothing.
        """
        return None

    @abstractmethod
    def nodes(self, journal: Journal, wanted: NodesWanted) -> AbstractContextManager[Nodes]:
        """Set up the nodes of a whole plot, and tear them down. Raises HeadraceError.

        Every change of a machine is in that machine's undo journal first.
        """

    def regain(self, agents: Sequence[Agent], patience_s: float) -> None:
        """Connect again to those of these nodes that were lost. Waits at most `patience_s`, and
        half as long each time until one has returned.

        Nothing of the target or of a workload is set up there. Raises NodeLostError.
        """

    @abstractmethod
    def warm(self, kind: str, name: str, options: dict[str, object]) -> str | None:
        """Prepare for jobs of this workload, so that a job starts at once and unmeasured.

        Returns the workload's error, or None. Starts anew what has died since. Raises
        LauncherLostError.
        """

    @abstractmethod
    def spawn(self, spec: JobSpec, agent: Agent) -> Job:
        """Start the process of a job on a node. It gets ready and waits for its release.

        Or `wait` raises why it cannot be started. No process is left when it raises. Raises
        LauncherLostError and what the agent raises.
        """

    @abstractmethod
    def release(self, jobs: Iterable[Job]) -> None:
        """Let ready jobs begin, all together. A job that has ended is passed over."""

    @abstractmethod
    def give(self, job: Job, packet: Packet | None) -> None:
        """Answer a job that wants a packet; None: no packet is left."""

    @abstractmethod
    def wait(self, timeout_s: float) -> list[Event]:
        """Return what has happened, as soon as something has; nothing after `timeout_s`.

        Raises LauncherLostError, and the error of a job that could not be started.
        """

    @abstractmethod
    def kill(self, jobs: Iterable[Job]) -> None:
        """Kill jobs with the processes that they started. Does not wait. Safe to call twice."""

    @abstractmethod
    def reap(self, jobs: Sequence[Job], patience_s: float) -> list[Job]:
        """Wait until the processes of jobs have ended, and fill in `Job.exit` where it is known.

        Returns the jobs that still run after `patience_s`. Messages of these jobs are discarded.
        Does not raise when what ran the jobs has died.
        """

    @abstractmethod
    def pids(self, agent: Agent) -> frozenset[int]:
        """Return the processes on a node that its jobs descend from."""

    @abstractmethod
    def close(self) -> None:
        """End the launcher and every job. Safe to call twice."""

    def __enter__(self) -> Launcher:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Launchers:
    """The launchers of one run by kind: each starts at its first use, all are closed together."""

    def __init__(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """`stopped`: whether the user has stopped the run, for launchers that wait for nodes."""
        self.stopped = stopped
        self._open: dict[str, Launcher] = {}
        self._stack = ExitStack()

    def __getitem__(self, kind: str) -> Launcher:
        if kind not in self._open:
            made = kinds()[kind](self)
            self._open[kind] = self._stack.enter_context(made)
        return self._open[kind]

    def __enter__(self) -> Launchers:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._open.clear()


def split_on(on: str) -> tuple[str, str]:
    """Return kind and address of `[run] on`: ("dask", "HOST:PORT") of `dask://HOST:PORT`."""
    kind, _, address = on.partition("://")
    return kind, address


def kinds() -> Plugins[Launcher]:
    """Return every registered launcher class by kind."""
    return parts("headrace.launchers", Launcher)  # pyright: ignore[reportReturnType, reportArgumentType, reportAbstractUsage]
