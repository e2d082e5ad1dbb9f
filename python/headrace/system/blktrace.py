"""Ground: the kernel's blktrace of a disk: whether its files in debugfs may be read here, and ending a trace that a killed recorder left.

A kernel that is locked down (secure boot) lets nobody read them: there tracefs is the way (`headrace.system.tracefs`).
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
    from headrace.system.journal import Entry, Journal

_STOP, _TEARDOWN = 0x1275, 0x1276
"""BLKTRACESTOP and BLKTRACETEARDOWN of include/uapi/linux/fs.h: _IO(0x12, 117) and _IO(0x12, 118)."""
_LOCKDOWN = Path("/sys/kernel/security/lockdown")


def lacking() -> tuple[str, str] | None:
    """(what is missing for blktrace, what to do), or None. That the kernel is locked down can only be seen where securityfs is mounted."""
    if os.geteuid() != 0:
        return "tracing block requests needs root", "run as root"
    if not known("debugfs"):
        return "this kernel has no debugfs, where blktrace's files lie", "use a kernel with CONFIG_DEBUG_FS"
    with contextlib.suppress(OSError):
        if "[none]" not in _LOCKDOWN.read_text():
            return (
                "this kernel is locked down (secure boot): blktrace's files cannot be read",
                "capture through tracefs, or start the kernel with lockdown=none",
            )
    return None


def expect_trace(journal: Journal, directory: Path, disk: str) -> tuple[Path, Entry]:
    """Where debugfs is mounted (on `directory`, when it was nowhere), and the entry that ends a trace of this disk which is about to begin.

    Raises MissingError for what is missing, HeadraceError when another traces the disk.
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


def trace_is_ours(journal: Journal, entry: Entry, root: Path) -> None:
    """Notes which trace of the disk is ours, now that it is there."""
    journal.add(entry, inode=_number(root, entry.args["disk"]))


def _number(root: Path, disk: str) -> int | None:
    """A number that the kernel gives each trace anew: the inode of its count of lost events."""
    try:
        return (root / "block" / disk / "dropped").stat().st_ino
    except OSError:
        return None


def end_trace(disk: str, inode: int | None) -> str:
    """Ends a trace of ours, when it is the one of this number; says what was done. Raises OSError when it stays."""
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
