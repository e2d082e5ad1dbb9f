"""Base layer: settings of the storage below a directory, as one kernel has them.

Scheduler and queue depth belong to the disks, read-ahead to the file system. Arguments and results
are plain data: the agent of a node answers the same calls for another process or machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from headrace.errors import HeadraceError, UnsupportedLevelError
from headrace.system import block_queue
from headrace.system.block_queue import Queue
from headrace.system.identity import boot_id
from headrace.system.setting_names import NAMES
from headrace.system.storage import Storage, storage_of

if TYPE_CHECKING:
    from headrace.system.journal import Journal, JournalEntry

SettingValue = str | int | None


@dataclass(frozen=True)
class AppliedSetting:
    """One setting after it was requested."""

    name: str
    after: SettingValue
    """Value read back."""
    reason: str = ""
    """Why it could not be applied; empty when it was."""


class OnKernel(Protocol):
    """Something that belongs to a node."""

    @property
    def name(self) -> str:
        """Name of the node; empty for this machine."""
        ...

    @property
    def kernel(self) -> str:
        """Identity of the node's kernel."""
        ...

    @property
    def is_lost(self) -> bool:
        """Whether the node cannot be reached."""
        ...


class StorageSettings(OnKernel, Protocol):
    """Sets, reads and restores the settings of storage, on one kernel. An agent does it."""

    def read_settings(self, directory: str) -> dict[str, SettingValue]:
        """Return the current value of every setting of the storage below a directory.

        A value is None if the storage does not have it. Raises HeadraceError when the directory
        cannot be reached.
        """
        ...

    def apply_settings(
        self, directory: str, wanted: Mapping[str, str | int]
    ) -> tuple[AppliedSetting, ...]:
        """Apply settings and read each one back. A change is in the undo journal of its machine.

        Raises HeadraceError as `read_settings` does; a value that cannot be set raises nothing.
        """
        ...

    def restore_settings(self, directory: str) -> None:
        """Restore everything that was changed, and forget the directory. Safe to call twice.

        Raises HeadraceError that names what could not be restored; a second call retries it.
        """
        ...


Kind = TypeVar("Kind", bound=OnKernel)


def one_per_kernel(each: Iterable[Kind]) -> tuple[Kind, ...]:
    """Return the first of each kernel: for what all nodes of a kernel share."""
    found: dict[str, Kind] = {}
    for one in each:
        found.setdefault(one.kernel, one)
    return tuple(found.values())


def common(values: Mapping[str, Any]) -> Any:
    """Return the common value of all disks or nodes, or as text each one's value if they differ."""
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    return ", ".join(f"{name}: {value}" for name, value in values.items()) or None


class KernelSettings:
    """The settings of storage on the kernel of this process."""

    name = ""
    is_lost = False

    def __init__(self, journal: Journal) -> None:
        self.kernel = boot_id()
        self._journal = journal
        self._managed: dict[str, _Managed] = {}
        """By directory."""

    def read_settings(self, directory: str) -> dict[str, SettingValue]:
        """See StorageSettings."""
        return self._of(directory).read()

    def apply_settings(
        self, directory: str, wanted: Mapping[str, str | int]
    ) -> tuple[AppliedSetting, ...]:
        """See StorageSettings."""
        managed = self._of(directory)
        return tuple(managed.apply(name, wanted[name]) for name in NAMES if name in wanted)

    def restore_settings(self, directory: str) -> None:
        """See StorageSettings."""
        if (managed := self._managed.get(directory)) is not None:
            managed.restore()
            del self._managed[directory]

    def _of(self, directory: str) -> _Managed:
        if directory not in self._managed:
            storage = storage_of(Path(directory))
            queues = {disk: Queue(self._journal, disk) for disk in storage.disks}
            self._managed[directory] = _Managed(self._journal, storage, queues)
        return self._managed[directory]


@dataclass
class _Managed:
    """The storage below one directory."""

    journal: Journal
    storage: Storage
    queues: dict[str, Queue]
    entries: list[JournalEntry] = field(default_factory=list["JournalEntry"])
    """Those of the read-ahead."""

    def read(self) -> dict[str, SettingValue]:
        return {
            "scheduler": common({disk: block_queue.read_scheduler(disk) for disk in self.queues}),
            "queue_depth": common({disk: block_queue.read_depth(disk) for disk in self.queues}),
            "read_ahead": block_queue.read_read_ahead(self.storage.mount),
        }

    def apply(self, name: str, wanted: str | int) -> AppliedSetting:
        try:
            after = self._set(name, wanted)
        except (UnsupportedLevelError, OSError) as error:
            return AppliedSetting(name, self.read()[name], str(error))
        reason = "" if after == wanted else f"requested {wanted}, but the kernel made {after} of it"
        return AppliedSetting(name, after, reason)

    def _set(self, name: str, wanted: str | int) -> SettingValue:
        if name == "scheduler":
            return self._each(lambda queue: queue.set_scheduler(str(wanted)))
        if name == "queue_depth":
            return self._each(lambda queue: queue.set_depth(int(wanted)))
        after, entry = block_queue.set_read_ahead(self.journal, self.storage.mount, int(wanted))
        if entry is not None:
            self.entries.append(entry)
        return after

    def _each(self, change: Callable[[Queue], SettingValue]) -> SettingValue:
        if not self.queues:
            storage = self.storage
            if storage.network is not None:
                raise UnsupportedLevelError(
                    f"{storage.directory} is on {storage.network.kind}: its disks are the server's"
                )
            raise UnsupportedLevelError(
                f"{storage.directory} ({storage.mount.filesystem}) is on no block device"
            )
        return common({disk: change(queue) for disk, queue in self.queues.items()})

    def restore(self) -> None:
        failed: list[str] = []
        for step in (
            lambda: self.journal.put_back(self.entries),
            *(queue.restore for queue in self.queues.values()),
        ):
            try:
                step()
            except HeadraceError as error:
                failed.append(error.message)
        if failed:
            raise HeadraceError("; ".join(failed), hint="headrace undo")
