"""Targets: the storage under test as a job reaches it, one file each. This file is the contract that all keep.

A target comes to be (`prepare`), is set (`apply`), read back (`read_settings`) and goes away (`release`). It knows nothing
of studies, plans or records; whatever it changes on the machine goes through the undo journal in `TargetContext`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from headrace.errors import HeadraceError, Problem
from headrace.registry import parts
from headrace.system.cluster import Cluster, Interface, NodeSettings
from headrace.system.emulator import EmulatedDevice
from headrace.system.journal import Journal
from headrace.system.servers import Server

Provenance = Literal["measured", "emulated", "simulated"]


class TargetOptions(BaseModel):
    """Base of every target's options: the fields of `[target.NAME]`. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    path_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that hold a path: a relative one is relative to the study file."""


@dataclass(frozen=True)
class Location:
    """Where jobs find the storage, and what stands behind it."""

    directory: Path | None
    """A directory that jobs read and write, or None for a target that is reached by URL alone."""
    url: str | None = None
    """URL prefix (`root://host:port//path`), when jobs reach it so."""
    device_names: tuple[str, ...] = ()
    """Kernel names (`loop0`, `vda`) of the block devices whose counters belong to this storage."""
    own_device: bool = False
    """True when nothing but this study uses the device: emptying every cache then disturbs no count of its I/O."""
    network: bool = False
    """True when waiting for it is waiting for a network or a server, not for a local block device."""
    provenance: Provenance = "measured"
    description: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Facts for the record: mount source and options, filesystem, device stack, server, free bytes."""
    node_directories: tuple[Path, ...] = ()
    """The directory as each node that runs jobs has it mounted, by the node's number; empty when all reach it as `directory`."""
    own_drives: bool = False
    """True when each of `node_directories` is a file system of its own, on a drive of the node: what its jobs read has to be put there."""
    interfaces: tuple[Interface, ...] = ()
    """Network interfaces that carry its data."""
    servers: Mapping[str, Server] = field(default_factory=dict[str, Server])
    """Servers that were started for it, by name: what faults strike."""
    cluster: Cluster | None = None
    """Nodes and links that it stands on, when they were built for it: what faults cut."""
    lacking: Callable[[], str] | None = None
    """What its copies lack just now (a server that is away, entries to be healed), in words; empty when all is whole. None for a
    storage that keeps everything once. Raises HeadraceError when nobody can be asked."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Environment variables that jobs need to reach it (endpoint, credentials); in no record."""
    emulated: tuple[EmulatedDevice, ...] = ()
    """Emulated drives that it lies on, in the order of the drives of a RAID: what faults of drives strike."""
    look_again: Callable[[], str] | None = None
    """Takes the file system down as a crash would leave it, checks it, and brings it back; says what the check found. Raises
    HeadraceError when it is beyond repair."""

    @property
    def emulated_by_node(self) -> tuple[tuple[EmulatedDevice, ...], ...]:
        """The emulated drives, those of each node by themselves where each has its own."""
        nodes = len(self.node_directories) if self.own_drives else 1
        each = len(self.emulated) // nodes
        return tuple(self.emulated[number * each : (number + 1) * each] for number in range(nodes))

    def on_node(self, number: int) -> Path | None:
        """The directory on a node that runs jobs."""
        return self.node_directories[number] if self.node_directories else self.directory


@dataclass(frozen=True)
class Held:
    """A file of a data set on a storage that is reached by URL."""

    url: str
    server: str = ""
    """Name of the server that has it, where that is known."""
    local: Path | None = None
    """The same file for a job on the node of that server, which may read it past the server (PROOF does)."""


@dataclass(frozen=True)
class Setting:
    """One setting of the storage, asked and as read back."""

    name: str
    asked: Any
    before: Any
    """As read before Headrace changed it; put back at release."""
    after: Any
    """As read back after setting it. A trial is valid only when it still reads so after the jobs."""
    applied: bool
    reason: str = ""
    """Why it could not be applied."""

    def as_dict(self) -> dict[str, Any]:
        """A JSON-able mapping for the record."""
        return asdict(self)


@dataclass(frozen=True)
class TargetContext:
    """What a target is given to come to be."""

    work_dir: Path
    """A private directory for images, sockets and logs; gone after the study."""
    journal: Journal
    forced_devices: frozenset[str] = frozenset()
    """Device paths that the user named on the command line as free to be overwritten."""
    cluster: Cluster | None = None
    """Nodes and links, when the study has them built: the nodes that run jobs, and those that `Target.nodes_wanted` named."""
    client_nodes: tuple[str, ...] = ()
    """Names of the nodes that run jobs, by number."""


@dataclass(frozen=True)
class ModelledStorage:
    """A target as the simulator takes it: parts of a scenario (crates/simulator, `Scenario`), JSON-able."""

    place: Mapping[str, str]
    """Where files of jobs lie: `{"volume": NAME}` of each node, or `{"service": NAME}`."""
    node_volumes: tuple[dict[str, Any], ...] = ()
    """Volumes that every node has for it."""
    servers: tuple[dict[str, Any], ...] = ()
    """Hosts without job slots."""
    services: tuple[dict[str, Any], ...] = ()
    description: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """For the record: catalog entries that it is made of."""


class Target(ABC):
    """One kind of storage. A subclass is one file: `kind`, `Options`, and these methods."""

    kind: ClassVar[str]
    Options: ClassVar[type[TargetOptions]]
    settings: ClassVar[frozenset[str]] = frozenset()
    """Option fields that can be changed while the target stands (easy factors). All others need a new `prepare`."""
    url_prefix: ClassVar[str] = ""
    """How its URLs begin (`hdfs://`), when it is reached by URL alone: only workloads with `reads_urls` run on it."""

    def __init__(self, name: str, options: Any) -> None:
        self.name = name
        self.options = options

    @abstractmethod
    def check(self, forced_devices: frozenset[str]) -> list[Problem]:
        """What this machine lacks for this target, without changing anything."""

    def unsupported(self) -> str | None:
        """Why these options cannot be had on this machine though the target itself can, or None."""
        return None

    def needs_cluster(self) -> bool:
        """Whether it starts servers, which stand on nodes and links of a cluster that the engine builds before `prepare`."""
        return False

    def nodes_wanted(self, site: Any) -> tuple[NodeSettings, ...]:
        """The nodes of its servers in that cluster, besides those that run jobs; `site` is the study's Site or None."""
        return ()

    def on_own_drive(self, number: int) -> Target | None:
        """The same storage on a drive of node `number`'s own, when a study has several nodes built; None for one that they share."""
        return None

    @abstractmethod
    def free_bytes(self) -> int | None:
        """Bytes that data sets may take on it, before it is prepared; None when that cannot be known."""

    def memory_bytes(self) -> int:
        """Memory of this machine that it takes at most while it stands: what emulated drives keep their data in."""
        return 0

    @abstractmethod
    def prepare(self, context: TargetContext) -> Location:
        """Makes the storage be there. Raises HeadraceError; has cleaned up behind itself when it does."""

    def apply(self, options: Any, context: TargetContext) -> list[Setting]:
        """Sets those of `settings` that `options` asks for (None = leave), each read back. Never raises for a level
        that cannot be had: that is a `Setting` with `applied=False` and the reason."""
        return []

    def read_settings(self) -> dict[str, Any]:
        """Every one of `settings` as it stands now, for the check after the trial."""
        return {}

    def upload(
        self, files: Sequence[Path], folder: str, context: TargetContext, say: Callable[[str], None]
    ) -> list[Held]:
        """Puts files on a storage that has a URL and no directory, into a folder of it; those that lie there whole stay.

        Raises HeadraceError when there is no room or no permission."""
        raise HeadraceError(f"target {self.name}: data sets cannot be put on a target of kind {self.kind!r}")

    def clear(self, folder: str, context: TargetContext) -> None:
        """Removes a folder of a storage that has a URL and no directory, with all that jobs left there; it need not be there.

        Raises HeadraceError."""
        raise HeadraceError(f"target {self.name}: jobs cannot write to a target of kind {self.kind!r}")

    def drop_caches(self, context: TargetContext) -> None:
        """Empties caches of its servers and clients that are not the kernel's, before a cold trial. Raises HeadraceError."""

    @abstractmethod
    def release(self, context: TargetContext) -> None:
        """Puts everything back. Safe to call twice and after a failed `prepare`."""

    def model(self, site: Any) -> ModelledStorage:
        """The same storage as part of a scenario in virtual time; `site` is the study's Site or None. Pure.

        As it stands here it serves every kind that lies on a node's own drives: the drive that the options name, or else the one that
        the site's nodes have under the target's name. Raises HeadraceError, saying what would have to be given."""
        from headrace.targets.modelled import local_storage

        return local_storage(self, site)


def kinds() -> dict[str, type[Target]]:
    """Every registered target by kind."""
    return parts("headrace.targets", Target)  # pyright: ignore[reportReturnType, reportArgumentType, reportAbstractUsage]
