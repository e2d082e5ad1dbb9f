"""Ground: the queue of a block device: scheduler, queue depth, read-ahead, as the kernel has them and set anew.

What is not written down elsewhere, and was seen on Linux 6.18 (`blk_mq_update_nr_requests`, `elevator_switch`):

- `nr_requests` is the device's own queue depth only while the scheduler is `none`; with a scheduler it is the length of
  the scheduler's queue. The device's depth, once set, survives a change of scheduler, is then no longer shown, and on a
  loop device even survives detaching. Writing the number that is shown does nothing, so a depth is forced by
  writing another number first.
- debugfs shows the true depth (`hctx0/tags`). It is mounted privately for the reading: nobody sees it, and nothing is
  left when we die.
- Read-ahead belongs to the *file system's* backing device, which for btrfs and network file systems is not the disk.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import UnsupportedLevelError
from headrace.system.identity import disk_sequence
from headrace.system.mounts import Mount

if TYPE_CHECKING:
    from headrace.system.journal import Entry, Journal

_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432  # the same numbers on every architecture
_FSCONFIG_CMD_CREATE = 6
_CLOEXEC = 1
_LEAST_REQUESTS = 4
"""BLKDEV_MIN_RQ: the kernel makes this of anything smaller."""
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class QueueState:
    """What `restore` puts back. `depth` is None when the depth was not touched."""

    scheduler: str
    nr_requests: int | None
    depth: int | None


def _queue(disk: str) -> Path:
    return Path("/sys/block") / disk / "queue"


def schedulers(disk: str) -> list[str]:
    """Schedulers that the kernel has loaded for a disk (a further one may be a module that is loaded when asked for)."""
    with contextlib.suppress(OSError):
        return (_queue(disk) / "scheduler").read_text().replace("[", "").replace("]", "").split()
    return []


def read_scheduler(disk: str) -> str | None:
    """The scheduler in use, or None for a device without a queue of requests."""
    with contextlib.suppress(OSError):
        text = (_queue(disk) / "scheduler").read_text()
        return text.partition("[")[2].partition("]")[0] or text.strip()
    return None


def read_number(disk: str, name: str) -> int | None:
    """A numeric queue attribute (`nr_requests`, `rotational`, `logical_block_size` …), or None when there is none."""
    with contextlib.suppress(OSError, ValueError):
        return int((_queue(disk) / name).read_text())
    return None


@cache
def _debugfs() -> int | None:
    """A handle on a debugfs that is mounted nowhere, or None where the kernel or our rights do not allow it."""
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
    """How many requests the device takes at once (for each hardware queue); None when the kernel does not say."""
    debugfs = _debugfs()
    if debugfs is not None:
        with contextlib.suppress(OSError, ValueError, StopIteration):
            handle = os.open(f"block/{disk}/hctx0/tags", os.O_RDONLY | os.O_CLOEXEC, dir_fd=debugfs)
            with os.fdopen(handle) as file:
                return int(next(line for line in file if line.startswith("depth=")).partition("=")[2])
    return read_number(disk, "nr_requests") if read_scheduler(disk) == "none" else None


def deepest(disk: str) -> int | None:
    """The largest depth that the device's driver offers."""
    with contextlib.suppress(OSError, ValueError):
        return int(Path(f"/sys/block/{disk}/mq/0/nr_tags").read_text())
    return None


def _write(disk: str, name: str, value: object) -> None:
    (_queue(disk) / name).write_text(str(value))


def _force_depth(disk: str, depth: int) -> None:
    """Sets the depth of the device. The scheduler must be `none`."""
    if read_number(disk, "nr_requests") == depth:
        _write(disk, "nr_requests", depth - 1 if depth > _LEAST_REQUESTS else depth + 1)
    _write(disk, "nr_requests", depth)


def restore(disk: str, state: QueueState) -> None:
    """Puts a queue back as it was. Raises OSError when the kernel refuses."""
    if not _queue(disk).is_dir():
        return
    if state.depth is not None and read_depth(disk) != state.depth:
        _write(disk, "scheduler", "none")
        _force_depth(disk, state.depth)
    if read_scheduler(disk) != state.scheduler:
        _write(disk, "scheduler", state.scheduler)
    if state.nr_requests is not None and read_number(disk, "nr_requests") != state.nr_requests:
        _write(disk, "nr_requests", state.nr_requests)


class Queue:
    """The queue of one whole disk, changed through the journal."""

    def __init__(self, journal: Journal, disk: str) -> None:
        self.disk = disk
        self._journal = journal
        self._entries: list[Entry] = []
        self.scheduler_before = read_scheduler(disk)
        self.depth_before = read_depth(disk)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The journal's entries that put it back, oldest first."""
        return tuple(self._entries)

    def _begin(self, depth: int | None) -> None:
        state = QueueState(read_scheduler(self.disk) or "none", read_number(self.disk, "nr_requests"), depth)
        if any(entry.args["state"]["depth"] is not None or depth is None for entry in self._entries):
            return  # the first entries put everything back that later changes touch
        self._entries.append(
            self._journal.begin(
                "restore_queue", disk=self.disk, disk_sequence=disk_sequence(self.disk), state=asdict(state)
            )
        )

    def set_scheduler(self, wanted: str) -> str:
        """Sets the scheduler and returns it as read back. Raises UnsupportedLevelError with the reason."""
        now = read_scheduler(self.disk)
        if now is None:
            raise UnsupportedLevelError(f"{self.disk} has no scheduler")
        if now == wanted:
            return now
        if not os.access(_queue(self.disk) / "scheduler", os.W_OK):
            raise UnsupportedLevelError(f"setting the scheduler of {self.disk} needs root")
        self._begin(None)
        try:
            _write(self.disk, "scheduler", wanted)
        except OSError as error:
            offered = ", ".join(schedulers(self.disk))
            raise UnsupportedLevelError(
                f'this kernel has no scheduler "{wanted}" for {self.disk}; it offers {offered}'
            ) from error
        return read_scheduler(self.disk) or ""

    def set_depth(self, wanted: int) -> int:
        """Sets the device's queue depth and returns it as read back. The scheduler stays. Raises UnsupportedLevelError."""
        most = deepest(self.disk)
        if most is None:
            raise UnsupportedLevelError(f"{self.disk} has no queue of requests whose depth could be set")
        if not _LEAST_REQUESTS <= wanted <= most:
            raise UnsupportedLevelError(
                f"{self.disk} takes a queue depth from {_LEAST_REQUESTS} to {most}, not {wanted}"
            )
        now = read_depth(self.disk)
        if now == wanted:
            return wanted
        if not os.access(_queue(self.disk) / "nr_requests", os.W_OK):
            raise UnsupportedLevelError(f"setting the queue depth of {self.disk} needs root")
        scheduler = read_scheduler(self.disk) or "none"
        self._begin(now if now is not None else most)
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
        """Puts everything back. Safe to call twice."""
        while self._entries:
            self._journal.undo(self._entries.pop())


def read_ahead_file(mount: Mount) -> Path | None:
    """Where the kernel keeps the read-ahead of a mounted file system; None when it has none (tmpfs)."""
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
    # A partition has no backing device of its own: it is its disk's.
    disk = Path("/sys/dev/block") / number / ".." / "dev"
    with contextlib.suppress(OSError):
        if (folder / disk.read_text().strip()).is_dir():
            return folder / disk.read_text().strip() / "read_ahead_kb"
    return None


def read_read_ahead(mount: Mount) -> int | None:
    """Read-ahead of a mounted file system in bytes, or None when it has none."""
    file = read_ahead_file(mount)
    return int(file.read_text()) * 1024 if file is not None else None


def set_read_ahead(journal: Journal, mount: Mount, size: int) -> tuple[int, Entry | None]:
    """Sets the read-ahead of a mounted file system in bytes; returns it as read back and the entry that puts it back
    (None when nothing had to be changed). Raises UnsupportedLevelError with the reason."""
    file = read_ahead_file(mount)
    if file is None:
        raise UnsupportedLevelError(
            f"{mount.filesystem} on {mount.directory} has no read-ahead that could be set"
        )
    if size % 1024:
        raise UnsupportedLevelError(f"read-ahead is set in whole KiB, not {size} bytes")
    before = file.read_text().strip()
    if int(before) * 1024 == size:
        return size, None
    if not os.access(file, os.W_OK):
        raise UnsupportedLevelError("setting the read-ahead needs root")
    entry = journal.begin("write_setting", path=str(file), value=before)
    try:
        file.write_text(str(size // 1024))
    except OSError as error:
        journal.end(entry)
        raise UnsupportedLevelError(
            f"the kernel takes no read-ahead of {size} bytes: {error.strerror}"
        ) from error
    return int(file.read_text()) * 1024, entry
