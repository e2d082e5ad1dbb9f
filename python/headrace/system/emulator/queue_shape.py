"""The queue settings of an emulated block device: those that Linux gives to such a drive."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.raid import read_ahead_of_md
from headrace.scenario import DriveSpec, StorageSpec
from headrace.system import block_queue
from headrace.system.journal import Journal, JournalEntry
from headrace.system.shared_settings import set_file

_TRANSFER_KIB = 1024
"""Largest request: the size of one FUSE message. A SATA drive under Linux has 1280."""
_READ_AHEAD_BYTES = 128 << 10
"""The kernel's default (VM_READAHEAD_PAGES)."""
_DEEPEST = 128
"""Queue depth of a loop device."""
_LEAST = 4
"""BLKDEV_MIN_RQ, the kernel's minimum. A drive with fewer commands queues the others itself."""


@dataclass(frozen=True)
class QueueShape:
    """Settings of the block layer."""

    depth: int
    """Requests at once, 4 to 128."""
    scheduler: str
    read_ahead_bytes: int
    rotational: bool
    dirty_bytes: int | None = None
    """Limit on the device's dirty pages in the page cache; 5 % of the memory when None."""


def _depth_of(drive: DriveSpec) -> int:
    if drive["kind"] == "ssd":
        return int(drive.get("queue_depth", 32))
    return int(drive.get("queue", {}).get("depth", 32))


def queue_shape(storage: StorageSpec) -> QueueShape:
    """Return Linux's queue settings for a `StorageSpec`, by its queue and rotational flag.

    A drive with one queue gets mq-deadline (`elevator_get_default`), as does a RAID behind a
    controller; one with deeper queues (NVMe) and a RAID by md get none.
    """
    drives = storage["drives"]
    raid = storage.get("raid")
    count = int(raid["drives"]) if raid else 1
    one = max(_depth_of(drive) for drive in drives)
    read_ahead = _READ_AHEAD_BYTES
    controller = (raid or {}).get("controller")
    if raid and controller is None:
        chunk_bytes = int(raid.get("chunk_bytes", 64 << 10))
        read_ahead = max(read_ahead, read_ahead_of_md(raid["level"], count, chunk_bytes))
    depth = one * count if controller is None else int(str(controller["queue_depth"]))
    has_one_queue = controller is not None or (raid is None and one <= 256)
    rotational = all(drive["kind"] == "hdd" for drive in drives)
    return QueueShape(
        depth=max(_LEAST, min(_DEEPEST, depth)),
        scheduler="mq-deadline" if has_one_queue else "none",
        read_ahead_bytes=read_ahead,
        rotational=rotational,
    )


def _write(journal: Journal, path: Path, value: object, entries: list[JournalEntry]) -> None:
    if (entry := set_file(journal, path, str(value))) is not None:
        entries.append(entry)


def apply_shape(journal: Journal, name: str, shape: QueueShape) -> list[JournalEntry]:
    """Set the queue of an unused loop device.

    Every change is journalled, because a loop device keeps its queue settings when it is attached
    to another file. Raises HeadraceError when the kernel sets another value.
    """
    entries: list[JournalEntry] = []
    folder = Path("/sys/block") / name / "queue"
    queue = block_queue.Queue(journal, name)
    # The true depth can be set only without a scheduler, and survives a change of scheduler.
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


def _limit_dirty(
    journal: Journal, name: str, given: int | None, entries: list[JournalEntry]
) -> None:
    """Limit the device's dirty pages in the page cache.

    With all memory full of dirty pages, memory could be freed only through the emulator itself.
    Needs Linux 6.2; otherwise the kernel's global limits apply.
    """
    bdi = Path("/sys/block") / name / "bdi"
    if not (bdi / "max_bytes").exists():
        return
    pages = int(Path("/proc/meminfo").read_text().split("MemTotal:")[1].split()[0]) * 1024
    _write(journal, bdi / "strict_limit", 1, entries)
    # The kernel stores the limit in bytes as this ratio, which can be restored exactly.
    limit = given if given is not None else max(64 << 20, pages // 20)
    ratio = (bdi / "max_ratio").read_text().strip()
    entry = set_file(journal, bdi / "max_ratio", ratio, before=ratio, is_set=lambda: False)
    entries.extend([] if entry is None else [entry])
    (bdi / "max_bytes").write_text(str(limit))
