"""Base layer: blktrace: check access to its debugfs files, end traces of killed recorders.

A kernel that is locked down (secure boot) does not let any process read these files; tracefs works
there (`headrace.system.tracefs`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError, MissingError
from headrace.system.kernel_filesystems import glimpse, known, reach

if TYPE_CHECKING:
    from headrace.system.journal import Journal, JournalEntry

_STOP, _TEARDOWN = 0x1275, 0x1276
"""BLKTRACESTOP and BLKTRACETEARDOWN of include/uapi/linux/fs.h: _IO(0x12, 117) and _IO(0x12, 118).
"""
_LOCKDOWN = Path("/sys/kernel/security/lockdown")


def lacking() -> tuple[str, str] | None:
    """Return (what blktrace lacks, remedy), or None.

    A lockdown of the kernel is only visible where securityfs is mounted.
    """
    if os.geteuid() != 0:
        return "tracing block requests needs root", "run as root"
    if not known("debugfs"):
        return (
            "this kernel has no debugfs, which blktrace needs",
            "use a kernel with CONFIG_DEBUG_FS",
        )
    with contextlib.suppress(OSError):
        if "[none]" not in _LOCKDOWN.read_text():
            return (
                "this kernel is locked down (secure boot): blktrace's files cannot be read",
                "capture through tracefs, or start the kernel with lockdown=none",
            )
    return None


def expect_trace(journal: Journal, directory: Path, disk: str) -> tuple[Path, JournalEntry]:
    """Prepare to trace a disk; return debugfs's mount directory and the entry that ends the trace.

    debugfs is mounted on `directory` when it is not mounted elsewhere. Raises MissingError for what
    is missing, HeadraceError when another process traces the disk.
    """
    if (found := lacking()) is not None:
        raise MissingError(found[0], hint=found[1])
    root = reach(journal, "debugfs", directory)
    if _number(root, disk) is not None:
        raise HeadraceError(
            f"another blktrace is at work on {disk}",
            hint=f"end it (blktrace -d /dev/{disk} -k), or capture through tracefs",
        )
    return root, journal.begin("end_block_trace", disk=disk)


def trace_is_ours(journal: Journal, entry: JournalEntry, root: Path) -> None:
    """Record which trace of the disk is ours, after it has started."""
    journal.add(entry, inode=_number(root, entry.args["disk"]))


def _number(root: Path, disk: str) -> int | None:
    """Return a number that is unique to each trace: the inode of its count of lost events."""
    try:
        return (root / "block" / disk / "dropped").stat().st_ino
    except OSError:
        return None


def end_trace(disk: str, inode: int | None) -> str:
    """End the trace with this number; return what was done. Raises OSError when it stays."""
    with glimpse("debugfs") as root:
        found = _number(root, disk)
    if found is None:
        return "not there"
    if found != inode:
        return "left alone: it is another's"
    device = os.open(Path("/dev") / disk, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with contextlib.suppress(OSError):  # it has stopped already
            fcntl.ioctl(device, _STOP)
        fcntl.ioctl(device, _TEARDOWN)
    finally:
        os.close(device)
    return "ended"
