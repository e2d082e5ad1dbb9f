"""Storage of one node: the targets that the node has for itself, and the files on them.

A node's agent does it, in the node's process and with its undo journal. Arguments and results are
plain data, as those of `headrace.launchers.Agent`, and errors are HeadraceError and OSError. Paths
are those of the node.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from headrace.provenance import Provenance
from headrace.system.emulator import Report
from headrace.targets.setting import Setting

PIECE_BYTES = 4 << 20
"""Bytes of a file that are sent to a node in one message."""


@dataclass(frozen=True)
class TargetOfNode:
    """A target as data, from which the node makes it."""

    kind: str
    name: str
    options: dict[str, object]
    """Fields of `[target.NAME]`, those that were written."""
    forced_devices: tuple[str, ...] = ()
    """Device paths that the user allowed to be overwritten."""


@dataclass(frozen=True)
class NodeLack:
    """Something that the node lacks for a target (`headrace.errors.Problem`)."""

    what: str
    remedy: str
    fatal: bool = True
    """False when the target can be set up all the same."""
    level: tuple[str, str] | None = None
    """(factor, level) when only that level is unavailable."""
    without: str = ""
    """What still works, or is lost, without it."""


@dataclass(frozen=True)
class NodeCheck:
    """What a node says of a target before it is set up."""

    lacks: tuple[NodeLack, ...] = ()
    claims: tuple[str, ...] = ()
    """Paths of the node that only one run, and only one node of a machine, may use."""


@dataclass(frozen=True)
class NodeDisk:
    """A disk of the node that is no emulated drive."""

    name: str
    model: str
    size_bytes: int


@dataclass(frozen=True)
class NodeLocation:
    """What the engine needs to know of a target that is set up on a node."""

    directory: str
    device_names: tuple[str, ...] = ()
    own_device: bool = False
    network: bool = False
    provenance: Provenance = "measured"
    description: dict[str, object] = field(default_factory=dict[str, object])
    drives: tuple[str, ...] = ()
    """Kernel names of its emulated drives."""
    disks: tuple[NodeDisk, ...] = ()
    """The disks that it lies on."""


@dataclass(frozen=True)
class WorkloadOfNode:
    """A workload as data, from which the node makes the files that its jobs read, and its check."""

    kind: str
    name: str
    options: dict[str, object]


@dataclass(frozen=True)
class FilesWanted:
    """Files of a data set that a node's folder must hold."""

    directory: str
    """Directory of the target."""
    key: str
    """Name of the data set."""
    manifest: bytes
    """Content of its manifest: sizes and checksums of all its files."""
    names: tuple[str, ...]
    thorough: bool = False
    """Whether contents are compared with the manifest, even of files that have not changed."""


@dataclass(frozen=True)
class FilesLacking:
    """What a folder lacks of the files wanted."""

    folder: str
    """Where they must be."""
    names: tuple[str, ...]
    damaged: tuple[str, ...]
    """Those of `names` that are there with other contents."""


class NodeStorage(ABC):
    """Sets up targets of a node and handles the files on them. A target is known by its name."""

    @property
    def is_lost(self) -> bool:
        """Whether the node cannot be reached."""
        return False

    @abstractmethod
    def check_target(self, target: TargetOfNode) -> NodeCheck:
        """Return what the node lacks for a target, and its free space. Changes nothing."""

    @abstractmethod
    def prepare_target(self, target: TargetOfNode) -> NodeLocation:
        """Set up a target. Raises HeadraceError, after undoing what it did so far.

        UnsupportedLevelError: the node lacks what `check_target` names.
        """

    @abstractmethod
    def apply_target(self, name: str, options: dict[str, object]) -> list[Setting]:
        """Apply settings of a target that is set up, as `Target.apply`."""

    @abstractmethod
    def read_target(self, name: str) -> dict[str, object]:
        """Return the present settings of a target, as `Target.read_settings`."""

    @abstractmethod
    def release_target(self, name: str) -> None:
        """Tear a target down. Safe to call twice. Raises HeadraceError; a second call retries."""

    # -- emulated drives, by number: as in `NodeLocation.drives` --

    @abstractmethod
    def drive_report(self, name: str, drive: int) -> Report:
        """Return the statistics of an emulated drive since the last reset."""

    @abstractmethod
    def reset_drive_report(self, name: str, drive: int) -> None:
        """Reset the statistics of an emulated drive."""

    # -- files --

    @abstractmethod
    def make_scratch(self, directory: str) -> str:
        """Make an empty folder for the jobs' scratch directories on a target; return its path.

        It is removed by `remove_scratch`, and by the undo journal.
        """

    @abstractmethod
    def write_mark(self, scratch: str, token: str) -> None:
        """Write a small file `mark` into a folder of `make_scratch`, for other nodes to find."""

    @abstractmethod
    def remove_scratch(self, directory: str) -> None:
        """Remove the folder of `make_scratch` with its contents. Safe to call twice."""

    @abstractmethod
    def check_workload(self, workload: WorkloadOfNode) -> tuple[NodeLack, ...]:
        """Return what the node lacks for the jobs of a workload. Changes nothing."""

    @abstractmethod
    def prepare_files(
        self, workload: WorkloadOfNode, directory: str, slots: int, seed: int
    ) -> list[str]:
        """Make the files that the jobs of a workload read; return them (`prepare_files` there)."""

    @abstractmethod
    def lacking_files(self, wanted: FilesWanted) -> FilesLacking:
        """Compare the files of a data set with its manifest, and return those that must be sent.

        Raises HeadraceError when they do not fit on the target: no data is written then.
        """

    @abstractmethod
    def write_file(self, folder: str, name: str, offset: int, data: bytes) -> None:
        """Write a piece of a file of `lacking_files`. A file begins at 0; pieces follow in order.

        Raises HeadraceError when space is short; the file is removed then.
        """

    @abstractmethod
    def finish_file(self, folder: str, name: str) -> bool:
        """Give a complete file its name, if its contents are those of the manifest.

        Returns whether they are; the file is removed if not.
        """
