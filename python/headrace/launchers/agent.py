"""The agent of a node: what must happen where the jobs run, and the node's clock."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.meters.node_meters import NodeMeters
    from headrace.probes.sampler import Samples, Sampling
    from headrace.system.accounting import UseSoFar
    from headrace.system.machine_facts import MachineFacts
    from headrace.system.machine_use import MachineUse, Own
    from headrace.system.storage_settings import AppliedSetting, SettingValue
    from headrace.targets.node_storage import NodeStorage


class LauncherLostError(HeadraceError):
    """What ran the jobs has died. The jobs died with it."""


class NodeInUseError(LauncherLostError):
    """Another run uses what jobs need on a node. It may be had later."""


class NoNodesError(HeadraceError):
    """A batch system did not give nodes. They may be had later."""


class TooFewNodesError(NoNodesError):
    """A queue did not give all nodes in time. Fewer nodes may be had."""


class NodeLostError(LauncherLostError):
    """A node cannot be reached any more, or not yet again."""


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
    has_own_mounts: bool = False
    """Whether a path can lead elsewhere on the node than in the engine's process."""
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
    def page_cache_drops(self) -> int | None:
        """Return how often the node's page cache was dropped since the boot; None if not known."""

    @abstractmethod
    def prepare_cache(self, wanted: str, files: Sequence[str], own_device: bool) -> int | None:
        """Bring the node's page cache into the state `wanted`: `cold`, `warm` or `as-is`.

        Returns the bytes of the files still in the cache when cold was requested, None otherwise.
        `own_device`: no other program uses the device. Raises OSError when a file cannot be read.
        """

    @abstractmethod
    def read_urls(self, urls: Sequence[str], environment: Mapping[str, str]) -> None:
        """Read files of servers whole, as jobs of the node reach them: what servers have in memory
        is then as after a first job.

        `environment`: variables of the protocol's client. Raises HeadraceError with the client's
        message.
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
