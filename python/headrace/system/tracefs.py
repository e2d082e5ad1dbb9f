"""Base layer: private tracefs instances, which record block events of chosen devices.

Each instance has its own buffers. They do not need debugfs, which secure boot locks down. The
instance, and the mount when tracefs was not mounted, are in the undo journal. See
Documentation/trace/ftrace.rst, "Instances".
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError, MissingError
from headrace.system.kernel_filesystems import glimpse, known, mounted, reach
from headrace.system.waiting import retry

if TYPE_CHECKING:
    from headrace.system.journal import Journal, JournalEntry

PREFIX = "headrace-"
BUFFER_BYTES_PER_CPU = 8 << 20
"""Lasts a third of a second at 100 000 requests per second.

The recorder empties it 50 times per second.
"""

EVENTS = (
    "block_bio_queue",
    "block_bio_backmerge",
    "block_bio_frontmerge",
    "block_rq_issue",
    "block_rq_requeue",
    "block_rq_complete",
    "block_bio_complete",
)
"""The tracepoints that `headrace-blocktrace` reads (crates/blocktrace/src/recording.rs)."""


@dataclass(frozen=True)
class TracedDevice:
    """A disk whose requests are traced, or a partition of one."""

    name: str
    """Kernel name of the disk."""
    number: tuple[int, int]
    """Major and minor of the disk."""
    also: tuple[tuple[int, int], ...] = ()
    """Those of its partitions: requests queued through a partition have its number."""
    sectors: tuple[int, int] | None = None
    """First sector and the one past the last, when only a partition is traced."""


@dataclass(frozen=True)
class Instance:
    """An instance that does not record yet."""

    directory: Path
    entry: JournalEntry

    def switch(self, *, on: bool) -> None:
        """Start or stop recording. Raises HeadraceError when the kernel refuses."""
        _write(self.directory / "tracing_on", "1" if on else "0")


def lacking() -> tuple[str, str] | None:
    """Return (what tracing lacks, remedy), or None."""
    if os.geteuid() != 0:
        return "tracing block requests needs root", "run as root"
    if not known("tracefs"):
        return (
            "this kernel has no tracefs",
            "use a kernel with CONFIG_FTRACE and CONFIG_BLK_DEV_IO_TRACE",
        )
    found = mounted("tracefs")
    if found is not None and not (found / "events" / "block").is_dir():
        return "this kernel has no block events", "use a kernel with CONFIG_BLK_DEV_IO_TRACE"
    return None


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise HeadraceError(f"{path} does not take {text!r}: {error.strerror}") from error


def make_instance(journal: Journal, directory: Path, devices: list[TracedDevice]) -> Instance:
    """Create an instance with the block events of some devices enabled, switched off.

    Its clock is the monotonic one. tracefs is mounted on `directory`, an empty one of ours, when it
    is not mounted elsewhere. Undoing the entry removes the instance. Raises MissingError without
    tracefs or the right to use it, HeadraceError when the kernel refuses.
    """
    if (found := lacking()) is not None:
        raise MissingError(found[0], hint=found[1])
    root = reach(journal, "tracefs", directory)
    name = f"{PREFIX}{os.urandom(6).hex()}"
    entry = journal.begin("remove_trace_instance", name=name)
    made = root / "instances" / name
    try:
        made.mkdir()
        _write(made / "tracing_on", "0")
        _write(made / "trace_clock", "mono")
        _write(made / "options" / "overwrite", "0")
        _write(made / "buffer_size_kb", str(BUFFER_BYTES_PER_CPU // 1024))
        for event in EVENTS:
            if not (made / "events" / "block" / event).is_dir():
                raise MissingError(
                    f"this kernel has no event {event}",
                    hint="use a kernel with CONFIG_BLK_DEV_IO_TRACE",
                )
            _write(made / "events" / "block" / event / "filter", filter_text(devices))
            _write(made / "events" / "block" / event / "enable", "1")
    except OSError as error:
        journal.undo(entry)
        raise HeadraceError(f"no instance of tracefs can be made: {error.strerror}") from error
    except HeadraceError:
        journal.undo(entry)
        raise
    return Instance(made, entry)


def filter_text(devices: list[TracedDevice]) -> str:
    """Return the event filter for some devices; the kernel's numbers are `major << 20 | minor`."""
    wanted: list[str] = []
    for device in devices:
        numbers = (device.number, *device.also)
        text = " || ".join(f"dev == {major << 20 | minor}" for major, minor in numbers)
        if device.sectors is not None:
            low, high = device.sectors
            # A flush has no sector and passes every filter.
            text = f"({text}) && (nr_sector == 0 || (sector >= {low} && sector < {high}))"
        wanted.append(f"({text})")
    return " || ".join(wanted)


def remove_instance(name: str, patience_s: float = 5.0) -> bool:
    """Remove an instance of ours; return False when it does not exist.

    Raises OSError when it stays, ValueError when its name is not ours.
    """
    if not name.startswith(PREFIX) or "/" in name:
        raise ValueError(f"{name} is not an instance of Headrace")
    with glimpse("tracefs") as root:
        return _remove(root / "instances" / name, patience_s)


def _remove(directory: Path, patience_s: float) -> bool:
    def remove() -> bool:
        try:
            directory.rmdir()
        except FileNotFoundError:
            return False
        return True

    with contextlib.suppress(OSError):
        (directory / "tracing_on").write_text("0")
    # Its reader may just be closing it.
    return retry(remove, OSError, patience_s, 0.02)
