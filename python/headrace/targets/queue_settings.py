"""Targets: scheduler, queue depth and read-ahead, for local storage (`path`, `block`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from headrace.errors import HeadraceError, UnsupportedLevelError
from headrace.system import block_queue
from headrace.system.block_queue import Queue
from headrace.system.journal import Entry, Journal
from headrace.system.storage import Storage
from headrace.targets import Setting

NAMES = frozenset({"scheduler", "queue_depth", "read_ahead"})


class QueueOptions(Protocol):
    """The options that request these settings; None leaves one unchanged."""

    @property
    def scheduler(self) -> str | None: ...
    @property
    def queue_depth(self) -> int | None: ...
    @property
    def read_ahead(self) -> int | None: ...


def _one(values: dict[str, Any]) -> Any:
    """Return the common value of all disks, or a list of each disk's value if they differ."""
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    return ", ".join(f"{disk}: {value}" for disk, value in values.items()) or None


class QueueSettings:
    """Sets, reads and restores the settings of the disks and the file system behind one target."""

    def __init__(self, journal: Journal, storage: Storage) -> None:
        self._journal = journal
        self._storage = storage
        self._queues = {disk: Queue(journal, disk) for disk in storage.disks}
        self._entries: list[Entry] = []
        self._before = self.read()

    def read(self) -> dict[str, Any]:
        """Return the current value of every setting; None if the storage does not have it."""
        return {
            "scheduler": _one({disk: block_queue.read_scheduler(disk) for disk in self._queues}),
            "queue_depth": _one({disk: block_queue.read_depth(disk) for disk in self._queues}),
            "read_ahead": block_queue.read_read_ahead(self._storage.mount),
        }

    def apply(self, options: QueueOptions) -> list[Setting]:
        """Apply the requested settings and read each one back. The depth comes first: setting it
        switches to the scheduler `none` for a moment."""
        found: list[Setting] = []
        if (depth := options.queue_depth) is not None:
            found.append(
                self._set(
                    "queue_depth", depth, lambda: self._each(lambda queue: queue.set_depth(depth))
                )
            )
        if (scheduler := options.scheduler) is not None:
            found.append(
                self._set(
                    "scheduler",
                    scheduler,
                    lambda: self._each(lambda queue: queue.set_scheduler(scheduler)),
                )
            )
        if (size := options.read_ahead) is not None:
            found.append(self._set("read_ahead", size, lambda: self._set_read_ahead(size)))
        return found

    def _each(self, change: Callable[[Queue], Any]) -> Any:
        if not self._queues:
            storage = self._storage
            if storage.network is not None:
                raise UnsupportedLevelError(
                    f"{storage.directory} is on {storage.network.kind}: its disks are the server's"
                )
            raise UnsupportedLevelError(
                f"{storage.directory} ({storage.mount.filesystem}) lies on no block device"
            )
        return _one({disk: change(queue) for disk, queue in self._queues.items()})

    def _set_read_ahead(self, size: int) -> int:
        after, entry = block_queue.set_read_ahead(self._journal, self._storage.mount, size)
        if entry is not None:
            self._entries.append(entry)
        return after

    def _set(self, name: str, asked: Any, change: Callable[[], Any]) -> Setting:
        try:
            after = change()
        except (UnsupportedLevelError, OSError) as error:
            return Setting(
                name, asked, self._before[name], self.read()[name], applied=False, reason=str(error)
            )
        if after != asked:
            reason = f"asked for {asked}, the kernel made {after} of it"
            return Setting(name, asked, self._before[name], after, applied=False, reason=reason)
        return Setting(name, asked, self._before[name], after, applied=True)

    def restore(self) -> None:
        """Restore everything. Safe to call twice. Raises HeadraceError that names what could not be
        restored; a second call retries it."""
        failed: list[str] = []
        for step in (
            lambda: self._journal.put_back(self._entries),
            *(queue.restore for queue in self._queues.values()),
        ):
            try:
                step()
            except HeadraceError as error:
                failed.append(error.message)
        if failed:
            raise HeadraceError("; ".join(failed), hint="headrace undo")
