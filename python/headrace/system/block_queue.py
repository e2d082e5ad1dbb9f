"""Base layer: read and set the queue of a block device: scheduler, queue depth, read-ahead.

Behaviour that is not documented elsewhere, observed on Linux 6.18 (`blk_mq_update_nr_requests`,
`elevator_switch`):

- `nr_requests` is the device's own queue depth only while the scheduler is `none`; with a
  scheduler it is the length of the scheduler's queue. The device's depth, once set, survives a
  change of scheduler, is then no longer shown, and on a loop device even survives detaching.
  Writing the number that is shown does nothing, so a depth is forced by writing another number
  first.
- debugfs shows the true depth (`hctx0/tags`). It is mounted privately for reading: the mount is
  invisible to other processes and disappears with this process.
- Read-ahead belongs to the *file system's* backing device, which for btrfs and network file
  systems is not the disk.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.errors import UnsupportedLevelError
from headrace.system.identity import disk_sequence
from headrace.system.mounts import Mount
from headrace.system.shared_settings import held, set_file

if TYPE_CHECKING:
    from headrace.system.journal import Journal, JournalEntry

_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432  # the same numbers on every architecture
_FSCONFIG_CMD_CREATE = 6
_CLOEXEC = 1
_LEAST_REQUESTS = 4
"""BLKDEV_MIN_RQ: the kernel raises smaller values to this."""
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class QueueState:
    """The state that `restore` sets again. `depth` is None when the depth was not changed."""

    scheduler: str
    nr_requests: int | None
    depth: int | None


def _queue(disk: str) -> Path:
    return Path("/sys/block") / disk / "queue"


def schedulers(disk: str) -> list[str]:
    """Return the schedulers loaded for a disk. Others may be modules that are loaded on request."""
    with contextlib.suppress(OSError):
        return (_queue(disk) / "scheduler").read_text().replace("[", "").replace("]", "").split()
    return []


def read_scheduler(disk: str) -> str | None:
    """Return the scheduler in use, None for a device without a request queue."""
    with contextlib.suppress(OSError):
        text = (_queue(disk) / "scheduler").read_text()
        return text.partition("[")[2].partition("]")[0] or text.strip()
    return None


def read_number(disk: str, name: str) -> int | None:
    """Return a numeric queue attribute (`nr_requests`, `rotational` …), None when missing."""
    with contextlib.suppress(OSError, ValueError):
        return int((_queue(disk) / name).read_text())
    return None


@cache
def _debugfs() -> int | None:
    """Return a handle on a privately mounted debugfs.

    None when the kernel or the user's rights do not allow it.
    """
    context = _libc.syscall(_FSOPEN, b"debugfs", _CLOEXEC)
    if context < 0:
        return None
    try:
        if _libc.syscall(_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0) < 0:
            return None
        handle = _libc.syscall(_FSMOUNT, context, _CLOEXEC, 0)
    finally:
        os.close(context)
    return handle if handle >= 0 else None


def read_depth(disk: str) -> int | None:
    """Return the device's queue depth per hardware queue; None when the kernel does not show it."""
    debugfs = _debugfs()
    if debugfs is not None:
        with contextlib.suppress(OSError, ValueError, StopIteration):
            handle = os.open(f"block/{disk}/hctx0/tags", os.O_RDONLY | os.O_CLOEXEC, dir_fd=debugfs)
            with os.fdopen(handle) as file:
                return int(
                    next(line for line in file if line.startswith("depth=")).partition("=")[2]
                )
    return read_number(disk, "nr_requests") if read_scheduler(disk) == "none" else None


def deepest(disk: str) -> int | None:
    """Return the largest depth that the device's driver offers."""
    with contextlib.suppress(OSError, ValueError):
        return int(Path(f"/sys/block/{disk}/mq/0/nr_tags").read_text())
    return None


def _write(disk: str, name: str, value: object) -> None:
    (_queue(disk) / name).write_text(str(value))


def _force_depth(disk: str, depth: int) -> None:
    """Set the depth of the device. The scheduler must be `none`."""
    if read_number(disk, "nr_requests") == depth:
        _write(disk, "nr_requests", depth - 1 if depth > _LEAST_REQUESTS else depth + 1)
    _write(disk, "nr_requests", depth)


def restore(disk: str, state: QueueState) -> None:
    """Restore a queue to an earlier state. Raises OSError when the kernel refuses."""
    if not _queue(disk).is_dir():
        return
    if state.depth is not None and read_depth(disk) != state.depth:
        _write(disk, "scheduler", "none")
        _force_depth(disk, state.depth)
    if read_scheduler(disk) != state.scheduler:
        _write(disk, "scheduler", state.scheduler)
    if state.nr_requests is not None and read_number(disk, "nr_requests") != state.nr_requests:
        _write(disk, "nr_requests", state.nr_requests)


def put_back(disk: str, sequence: int | None, state: Any) -> str:
    """Restore the queue of a disk to its stored state; return what was done, as a clause.

    A loop device keeps its queue settings after it is detached: they are restored even when another
    file is attached to it now. Raises OSError when the kernel refuses.
    """
    if not _queue(disk).is_dir():
        return "the device is gone"
    if not disk.startswith("loop") and disk_sequence(disk) != sequence:
        return "the device is gone"
    restore(disk, QueueState(**state))
    return "set back"


class Queue:
    """The queue of one whole disk, changed through the journal."""

    def __init__(self, journal: Journal, disk: str) -> None:
        self.disk = disk
        self._journal = journal
        self._entries: list[JournalEntry] = []

    @property
    def entries(self) -> tuple[JournalEntry, ...]:
        """The journal entries that restore it, oldest first."""
        return tuple(self._entries)

    def _begin(self, depth: int | None, is_set: Callable[[], bool]) -> None:
        """Hold the queue: its current state is restored after the last run that changed it."""
        if any(entry.args["depth"] or depth is None for entry in self._entries):
            return  # the first entries restore everything that later changes affect
        sequence = disk_sequence(self.disk)
        key = f"queue of {self.disk}{'' if depth is None else ' and depth'}"
        if not self.disk.startswith("loop"):
            key += f" {sequence}"

        def now() -> dict[str, object]:
            scheduler = read_scheduler(self.disk) or "none"
            return asdict(QueueState(scheduler, read_number(self.disk, "nr_requests"), depth))

        with held(key, now, is_set, disk=self.disk, disk_sequence=sequence) as token:
            if token is not None:
                self._entries.append(
                    self._journal.begin(
                        "restore_queue",
                        disk=self.disk,
                        disk_sequence=sequence,
                        key=key,
                        token=token,
                        depth=depth is not None,
                    )
                )

    def set_scheduler(self, wanted: str) -> str:
        """Set the scheduler and return it as read back.

        Raises UnsupportedLevelError with the reason.
        """
        now = read_scheduler(self.disk)
        if now is None:
            raise UnsupportedLevelError(f"{self.disk} has no scheduler")
        if not os.access(_queue(self.disk) / "scheduler", os.W_OK):
            if now == wanted:
                return now
            raise UnsupportedLevelError(f"setting the scheduler of {self.disk} needs root")
        self._begin(None, lambda: read_scheduler(self.disk) == wanted)
        if read_scheduler(self.disk) == wanted:
            return wanted
        try:
            _write(self.disk, "scheduler", wanted)
        except OSError as error:
            offered = ", ".join(schedulers(self.disk))
            raise UnsupportedLevelError(
                f'this kernel has no scheduler "{wanted}" for {self.disk}; it offers {offered}'
            ) from error
        return read_scheduler(self.disk) or ""

    def set_depth(self, wanted: int) -> int:
        """Set the device's queue depth and return it as read back; the scheduler is kept.

        Raises UnsupportedLevelError.
        """
        most = deepest(self.disk)
        if most is None:
            raise UnsupportedLevelError(
                f"{self.disk} has no queue of requests whose depth could be set"
            )
        if not _LEAST_REQUESTS <= wanted <= most:
            raise UnsupportedLevelError(
                f"{self.disk} takes a queue depth from {_LEAST_REQUESTS} to {most}, not {wanted}"
            )
        now = read_depth(self.disk)
        if not os.access(_queue(self.disk) / "nr_requests", os.W_OK):
            if now == wanted:
                return wanted
            raise UnsupportedLevelError(f"setting the queue depth of {self.disk} needs root")
        self._begin(now if now is not None else most, lambda: read_depth(self.disk) == wanted)
        if read_depth(self.disk) == wanted:
            return wanted
        scheduler = read_scheduler(self.disk) or "none"
        try:
            if scheduler != "none":
                _write(self.disk, "scheduler", "none")
            try:
                _force_depth(self.disk, wanted)
                shown = read_number(self.disk, "nr_requests")
            finally:
                if scheduler != "none":
                    _write(self.disk, "scheduler", scheduler)
        except OSError as error:
            raise UnsupportedLevelError(
                f"{self.disk} takes no queue depth of {wanted}: {error.strerror}"
            ) from error
        found = read_depth(self.disk)
        return found if found is not None else shown or 0

    def restore(self) -> None:
        """Restore everything. Safe to call twice. Raises HeadraceError that names what failed."""
        self._journal.put_back(self._entries)


def read_ahead_file(mount: Mount) -> Path | None:
    """Return the read-ahead file of a mounted file system; None when it has none (tmpfs)."""
    folder = Path("/sys/class/bdi")
    if mount.filesystem == "btrfs":
        for device in Path("/sys/fs/btrfs").glob("*/devices/*"):
            if device.name == Path(mount.source).resolve().name:
                return device.parent.parent / "bdi" / "read_ahead_kb"
        return None
    number = mount.device_number
    for name in (number, f"{number}-fuseblk", f"{number}-fuse"):
        if (folder / name).is_dir():
            return folder / name / "read_ahead_kb"
    # A partition has no backing device of its own; it uses its disk's.
    disk = Path("/sys/dev/block") / number / ".." / "dev"
    with contextlib.suppress(OSError):
        if (folder / disk.read_text().strip()).is_dir():
            return folder / disk.read_text().strip() / "read_ahead_kb"
    return None


def read_read_ahead(mount: Mount) -> int | None:
    """Return the read-ahead of a mounted file system in bytes, None when it has none."""
    file = read_ahead_file(mount)
    return int(file.read_text()) * 1024 if file is not None else None


def set_read_ahead(journal: Journal, mount: Mount, size: int) -> tuple[int, JournalEntry | None]:
    """Set the read-ahead of a mounted file system in bytes.

    Return it as read back, and the entry that restores it (None when nothing had to be changed).
    Raises UnsupportedLevelError with the reason.
    """
    file = read_ahead_file(mount)
    if file is None:
        raise UnsupportedLevelError(
            f"{mount.filesystem} on {mount.directory} has no read-ahead that could be set"
        )
    if size % 1024:
        raise UnsupportedLevelError(f"read-ahead is set in whole KiB, not {size} bytes")
    if not os.access(file, os.W_OK):
        if int(file.read_text()) * 1024 == size:
            return size, None
        raise UnsupportedLevelError("setting the read-ahead needs root")
    try:
        entry = set_file(journal, file, str(size // 1024))
    except OSError as error:
        raise UnsupportedLevelError(
            f"the kernel takes no read-ahead of {size} bytes: {error.strerror}"
        ) from error
    return int(file.read_text()) * 1024, entry
