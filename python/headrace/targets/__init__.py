"""Targets: the storage under test as jobs reach it, one module per kind. Defines the interface.

Life cycle of a target: `prepare` sets it up, `apply` changes its settings, `read_settings` reads
them back, `release` tears it down. A target does not know about studies, plans or records. Record
every change of the machine in the undo journal of `TargetContext`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict

from headrace.errors import HeadraceError, Problem
from headrace.registry import Plugins, parts
from headrace.targets.setting import Setting as Setting

if TYPE_CHECKING:
    from headrace.provenance import Provenance
    from headrace.scenario import DriveFaultSpec, HostSpec, ServiceSpec, VolumeSpec
    from headrace.site import Site
    from headrace.system.claims import Place
    from headrace.system.cluster import Cluster, NodeSettings
    from headrace.system.emulator import Report
    from headrace.system.journal import Journal
    from headrace.system.network_interface import Interface
    from headrace.system.servers import Server
    from headrace.system.storage_settings import StorageSettings
    from headrace.targets.node_storage import NodeDisk, NodeStorage


class TargetOptions(BaseModel):
    """Base of every target's options: the fields of `[target.NAME]`. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    path_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that hold a path. A relative path is relative to the study file."""


class EmulatedDrive(Protocol):
    """An emulated drive of this machine (`EmulatedDevice`) or of a node."""

    @property
    def name(self) -> str:
        """Kernel name, such as `loop3`."""
        ...

    def report(self) -> Report:
        """Return statistics since the last `reset_report`. Raises HeadraceError."""
        ...

    def reset_report(self) -> None:
        """Reset the statistics at the start of a trial, except those of faults."""
        ...

    def inject(self, fault: DriveFaultSpec) -> int:
        """Inject a fault and return its number. Raises HeadraceError."""
        ...

    def lift(self, fault: int) -> int:
        """End a fault now; return how often it took effect."""
        ...


@dataclass(frozen=True)
class Location:
    """How jobs reach a prepared target, and what it is built on."""

    directory: Path | None
    """Directory that jobs read and write; None for a target that jobs reach by URL only."""
    url: str | None = None
    """URL prefix (`root://host:port//path`), if jobs reach the target by URL."""
    device_names: tuple[str, ...] = ()
    """Kernel names (`loop0`, `vda`) of the block devices whose counters belong to this storage."""
    own_device: bool = False
    """True if only this study uses the device: dropping all caches then does not distort its I/O
    counts."""
    network: bool = False
    """True if waiting for it is waiting for a network or a server, not for a local block device."""
    provenance: Provenance = "measured"
    description: Mapping[str, Any] = field(default_factory=dict[str, object])
    """Facts for the record: mount source and options, filesystem, devices, server, free bytes."""
    node_directories: tuple[Path, ...] = ()
    """The directory as mounted on each node that runs jobs, by node number; empty if all nodes
    reach it as `directory`."""
    users_own: bool = False
    """True if it is a directory of the user's, which stays when the target is released."""
    local_drives: bool = False
    """True if each of `node_directories` is a separate file system on a local drive of the node:
    data sets must be copied to each."""
    elsewhere: bool = False
    """True if the directories are on other machines: their files are reached by the agents of the
    nodes only."""
    node_devices: tuple[tuple[str, ...], ...] = ()
    """Those of `device_names` that each node has, by node number, if each has its own."""
    disks: tuple[NodeDisk, ...] = ()
    """The disks of nodes that are other machines."""
    interfaces: tuple[Interface, ...] = ()
    """Network interfaces that carry its data."""
    servers: Mapping[str, Server] = field(default_factory=dict[str, "Server"])
    """Servers that were started for it, by name. Server faults affect these."""
    ended_clients: Callable[[], str] | None = None
    """Return which clients in user space that mounted it do not run any more, in words; an empty
    string if all run. None for a storage without such clients."""
    cluster: Cluster | None = None
    """Nodes and links that were built for it, if any. Link faults affect these."""
    lacking: Callable[[], str] | None = None
    """Return what the replicas lack at present (a server that is down, entries to be healed), in
    words; an empty string if all are complete. None for a storage without replicas. Raises
    HeadraceError if no server answers."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Environment variables that jobs need to reach it (endpoint, credentials). Never recorded."""
    emulated: tuple[EmulatedDrive, ...] = ()
    """Emulated drives that it is stored on, in the order of the drives of a RAID. Drive faults
    affect these."""
    verify_after_crash: Callable[[], str] | None = None
    """Unmount the file system as a crash would leave it, check it, mount it again, and return what
    the check found. Raises HeadraceError if it cannot be repaired."""

    @property
    def ended(self) -> str:
        """Its servers and clients that do not run any more, in words; empty if all run."""
        ends = {name: server.ended() for name, server in self.servers.items()}
        said = [f"server {name} {how}" for name, how in ends.items() if how]
        clients = self.ended_clients() if self.ended_clients is not None else ""
        return "; ".join([*said, clients] if clients else said)

    @property
    def emulated_by_node(self) -> tuple[tuple[EmulatedDrive, ...], ...]:
        """The emulated drives grouped by node, if each node has its own; otherwise one group."""
        nodes = len(self.node_directories) if self.local_drives else 1
        each = len(self.emulated) // nodes
        return tuple(self.emulated[number * each : (number + 1) * each] for number in range(nodes))

    def on_node(self, number: int) -> Path | None:
        """Return the directory on node `number`."""
        return self.node_directories[number] if self.node_directories else self.directory


@dataclass(frozen=True)
class Held:
    """A file of a data set on a storage that jobs reach by URL."""

    url: str
    server: str = ""
    """Name of the server that holds it, if known."""
    local: Path | None = None
    """Path of the same file for jobs on that server's node, which can bypass the server (as PROOF
    does)."""


@dataclass(frozen=True)
class TargetContext:
    """What a target needs for its set-up."""

    work_dir: Path
    """Private directory for images, sockets and logs; removed after the study."""
    journal: Journal
    forced_devices: frozenset[str] = frozenset()
    """Device paths that the user allowed on the command line to be overwritten."""
    cluster: Cluster | None = None
    """Nodes and links, if the study has them built: the nodes that run jobs and those of
    `Target.nodes_wanted`."""
    client_nodes: tuple[str, ...] = ()
    """Names of the nodes that run jobs, by number."""
    agents: tuple[StorageSettings, ...] = ()
    """The agents of the nodes that run jobs, by number. They set what belongs to a node's kernel.
    Empty for storage of servers, which is on this machine."""
    storages: tuple[NodeStorage, ...] = ()
    """The storage of the nodes that run jobs, by number, for targets that each node has for itself
    on a machine of its own."""
    stop: Callable[[], bool] = field(default=lambda: False)
    """Return whether the run must stop; polled while files are copied to the target."""

    def storage_settings(self) -> tuple[StorageSettings, ...]:
        """Return what sets the storage of the nodes that run jobs, one for each kernel."""
        from headrace.system.storage_settings import KernelSettings, one_per_kernel

        return one_per_kernel(self.agents) or (KernelSettings(self.journal),)

    def on_node(self, number: int) -> TargetContext:
        """Return the context of storage that only node `number` uses."""
        one = slice(number, number + 1)
        return replace(self, agents=self.agents[one], storages=self.storages[one])


@dataclass(frozen=True)
class ModelledStorage:
    """A target as input of the simulator: parts of a scenario."""

    place: Mapping[str, str]
    """Location of the jobs' files: `{"volume": NAME}` on each node, or `{"service": NAME}`."""
    node_volumes: tuple[VolumeSpec, ...] = ()
    """Volumes that every node has for it."""
    servers: tuple[HostSpec, ...] = ()
    """Hosts without job slots."""
    services: tuple[ServiceSpec, ...] = ()
    site_drive: str | None = None
    """The drive of `[site.node]`, by name, that its volume is on; None: on no drive of the site."""
    in_turn: bool = False
    """Whether a data set's files are put on its servers in turn."""
    description: Mapping[str, Any] = field(default_factory=dict[str, object])
    """For the record: the catalog entries that it consists of."""


class Target(ABC):
    """One kind of storage. A subclass is one module that defines `kind`, `Options` and these
    methods."""

    kind: ClassVar[str]
    label: ClassVar[str] = ""
    """The product's name as commonly written (`GlusterFS`), for reports; empty if the kind is no
    product."""
    Options: ClassVar[type[TargetOptions]]
    settings: ClassVar[frozenset[str]] = frozenset()
    """Option fields that can change on a prepared target (easy factors). All others need a new
    `prepare`."""
    virtual_only: ClassVar[bool] = False
    """True if it exists in virtual time only: `headrace simulate` alone takes it."""
    url_prefix: ClassVar[str] = ""
    """Scheme of its URLs (`hdfs://`), if jobs reach it by URL only: it then needs workloads with
    `reads_urls`."""

    def __init__(self, name: str, options: Any) -> None:
        self.name = name
        self.options = options

    @abstractmethod
    def check(self, forced_devices: frozenset[str]) -> list[Problem]:
        """Return what this machine lacks for this target. Changes nothing."""

    def check_storage(self) -> list[Problem]:
        """Return why storage that the study names, and that exists without it, cannot be used now.

        `plan` shows these; `check` has them, too. Asks an existing server. Changes nothing.
        """
        return []

    def claims(self) -> list[Place]:
        """Return what no two runs may use at once: a folder, an image file, a device."""
        return []

    def unsupported(self) -> str | None:
        """Return why this machine cannot provide these options, although it can run the target;
        otherwise None."""
        return None

    def needs_cluster(self) -> bool:
        """Return whether it starts servers. They run on nodes that the engine builds before
        `prepare`."""
        return False

    def only_here(self) -> str | None:
        """Return why nodes that are other machines cannot use it; None if they can."""
        return None

    def nodes_wanted(self, site: Site | None) -> tuple[NodeSettings, ...]:
        """Return the nodes that its servers need besides the nodes that run jobs; `site` is the
        study's Site or None."""
        return ()

    def on_local_drive(self, number: int) -> Target | None:
        """Return the same storage on a local drive of node `number`, for a study with several
        nodes; None if all nodes share one storage."""
        return None

    def on_each_node(self) -> bool:
        """Return whether nodes that are other machines have it each for itself: their agents then
        set it up there."""
        return False

    @abstractmethod
    def free_bytes(self) -> int | None:
        """Return how many bytes data sets can take, before `prepare`; None if unknown."""

    def memory_bytes(self) -> int:
        """Return the most memory of this machine that it takes while set up: the data of emulated
        drives."""
        return 0

    @abstractmethod
    def prepare(self, context: TargetContext) -> Location:
        """Set up the storage. Raises HeadraceError, after undoing what it did so far."""

    def apply(self, options: Any, context: TargetContext) -> list[Setting]:
        """Apply those of `settings` that `options` gives (None: leave unchanged) and read each one
        back. A level that the machine does not have raises nothing: it is a `Setting` with
        `applied=False` and the reason."""
        return []

    def read_settings(self) -> dict[str, object]:
        """Return the current value of each of `settings`, for the check after the trial."""
        return {}

    def upload(
        self, files: Sequence[Path], folder: str, context: TargetContext, say: Callable[[str], None]
    ) -> list[Held]:
        """Copy files into a folder of a storage that has a URL and no directory. Complete files
        that are already there stay.

        Raises HeadraceError if space or permission is missing.
        """
        raise HeadraceError(
            f"target {self.name}: data sets cannot be put on a target of kind {self.kind!r}"
        )

    def locate(self, files: Sequence[str], context: TargetContext) -> Mapping[str, tuple[str, ...]]:
        """Return which servers hold each file: names of nodes, or host names and addresses.

        Files whose location is not known are left out. Raises HeadraceError when the storage does
        not answer.
        """
        return {}

    def clear(self, folder: str, context: TargetContext) -> None:
        """Remove a folder, with all that jobs left in it, from a storage that has a URL and no
        directory. The folder may be missing.

        Raises HeadraceError.
        """
        raise HeadraceError(
            f"target {self.name}: jobs cannot write to a target of kind {self.kind!r}"
        )

    def drop_caches(self, context: TargetContext) -> None:
        """Empty the caches of its servers and clients, except the kernel's, before a cold trial.
        Raises HeadraceError."""

    @abstractmethod
    def release(self, context: TargetContext) -> None:
        """Tear the target down and restore the machine. Safe to call twice and after a failed
        `prepare`."""

    def stored_per_byte(self) -> float:
        """Return how many bytes its drives store per byte of data: more than 1 with copies."""
        return 1.0

    def model(self, site: Site | None) -> ModelledStorage:
        """Return the same storage as part of a scenario in virtual time; `site` is the study's Site
        or None. Pure.

        Raises HeadraceError that names a missing option, or for a kind without a model.
        """
        raise HeadraceError(
            f"target {self.name}: a target of kind {self.kind!r} has no model; measure it"
        )


def kinds() -> Plugins[Target]:
    """Return every registered target class by kind."""
    return parts("headrace.targets", Target)  # pyright: ignore[reportReturnType, reportArgumentType, reportAbstractUsage]
