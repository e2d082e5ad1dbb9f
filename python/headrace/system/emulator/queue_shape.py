"""The queue of the block device, as the kernel would have it for such a drive."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError
from headrace.system import block_queue
from headrace.system.journal import Entry, Journal

_TRANSFER_KIB = 1024
"""Largest request: what one FUSE message carries. A SATA drive under Linux has 1280."""
_READ_AHEAD_BYTES = 128 << 10
"""The kernel's default (VM_READAHEAD_PAGES)."""
_DEEPEST = 128
"""What a loop device offers."""
_LEAST = 4
"""BLKDEV_MIN_RQ: the kernel takes no smaller depth. A drive with fewer commands of its own queues the rest itself."""


@dataclass(frozen=True)
class QueueShape:
    """What the block layer is told."""

    depth: int
    """Requests at once, 4 to 128."""
    scheduler: str
    read_ahead_bytes: int
    rotational: bool
    dirty_bytes: int | None = None
    """Unwritten pages of the device that the page cache may hold; 5 % of the memory when None."""


def _depth_of(drive: dict[str, Any]) -> int:
    if drive["kind"] == "ssd":
        return int(drive.get("queue_depth", 32))
    return int(drive.get("queue", {}).get("depth", 32))


def queue_shape(storage: dict[str, Any]) -> QueueShape:
    """The shape for a `StorageSpec`: what Linux makes of a drive with its queue and rotational flag.

    A drive with one queue gets mq-deadline (`elevator_get_default`), one with deeper queues (NVMe) and a RAID none.
    The read-ahead of a striped RAID is two stripes at least (drivers/md/raid0.c, raid5.c, raid10.c).
    """
    drives = storage["drives"]
    raid = storage.get("raid")
    count = int(raid["drives"]) if raid else 1
    one = max(_depth_of(drive) for drive in drives)
    read_ahead = _READ_AHEAD_BYTES
    if raid and raid["level"] != 1:
        read_ahead = max(read_ahead, 2 * int(raid.get("chunk_bytes", 64 << 10)) * count)
    rotational = all(drive["kind"] == "hdd" for drive in drives)
    return QueueShape(
        depth=max(_LEAST, min(_DEEPEST, one * count)),
        scheduler="mq-deadline" if raid is None and one <= 256 else "none",
        read_ahead_bytes=read_ahead,
        rotational=rotational,
    )


def _write(journal: Journal, path: Path, value: object, entries: list[Entry]) -> None:
    before = path.read_text().strip()
    if before == str(value):
        return
    entries.append(journal.begin("write_setting", path=str(path), value=before))
    path.write_text(str(value))


def apply_shape(journal: Journal, name: str, shape: QueueShape) -> list[Entry]:
    """Sets the queue of a loop device that nobody uses yet; everything is journalled, for a loop device keeps its queue
    when it is attached to another file. Raises HeadraceError when the kernel makes something else of it."""
    entries: list[Entry] = []
    folder = Path("/sys/block") / name / "queue"
    queue = block_queue.Queue(journal, name)
    # The true depth is set while there is no scheduler, and survives the change to one.
    queue.set_scheduler("none")
    _write(journal, folder / "rotational", int(shape.rotational), entries)
    _write(journal, folder / "max_sectors_kb", _TRANSFER_KIB, entries)
    depth = queue.set_depth(shape.depth)
    offered = block_queue.schedulers(name)
    wanted = shape.scheduler if shape.scheduler in offered else "none"
    queue.set_scheduler(wanted)
    _write(journal, folder / "read_ahead_kb", shape.read_ahead_bytes // 1024, entries)
    _limit_dirty(journal, name, shape.dirty_bytes, entries)
    entries[:0] = queue.entries
    if depth != shape.depth:
        raise HeadraceError(f"{name} takes a queue depth of {depth}, not {shape.depth}")
    return entries


def _limit_dirty(journal: Journal, name: str, given: int | None, entries: list[Entry]) -> None:
    """Bounds what the page cache may hold unwritten: with all memory full of it, nothing could be freed but by way of
    the emulator itself. Linux 6.2 and later; else the kernel's common limits hold."""
    bdi = Path("/sys/block") / name / "bdi"
    if not (bdi / "max_bytes").exists():
        return
    pages = int(Path("/proc/meminfo").read_text().split("MemTotal:")[1].split()[0]) * 1024
    _write(journal, bdi / "strict_limit", 1, entries)
    # Its share is what stands behind the bytes, and can be put back exactly.
    entries.append(
        journal.begin(
            "write_setting", path=str(bdi / "max_ratio"), value=(bdi / "max_ratio").read_text().strip()
        )
    )
    (bdi / "max_bytes").write_text(str(given if given is not None else max(64 << 20, pages // 20)))
