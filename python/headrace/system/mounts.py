"""Ground: what is mounted where (/proc/self/mountinfo, proc(5)), and mounting and unmounting."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.system.journal import Entry, Journal

_MNT_FORCE = 1
_MNT_DETACH = 2
_UMOUNT_NOFOLLOW = 8
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo."""

    id: int
    device_number: str
    """`major:minor` of files on it (for btrfs and network file systems an anonymous number, no block device)."""
    root: str
    """Path within the file system that is mounted here (not `/` for a bind mount or a btrfs subvolume)."""
    directory: Path
    filesystem: str
    source: str
    """Device path, `server:/export`, or whatever the file system calls its source."""
    options: tuple[str, ...]
    """Options of this mount (`rw`, `noatime` …)."""
    super_options: tuple[str, ...]
    """Options of the file system itself, as it shows them (defaults often are not shown)."""

    @property
    def all_options(self) -> tuple[str, ...]:
        """Both kinds of options, each once, in the order shown."""
        return tuple(dict.fromkeys(self.options + self.super_options))


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def read_mounts(pid: int | str = "self") -> list[Mount]:
    """Every mount that a process sees, in the order in which they were made visible (a later one covers an earlier)."""
    return parse_mountinfo(Path(f"/proc/{pid}/mountinfo").read_text(errors="surrogateescape"))


def parse_mountinfo(text: str) -> list[Mount]:
    """The mounts of a mountinfo file (proc(5)): fields, any number of optional ones, ` - `, three more."""
    found: list[Mount] = []
    for line in text.splitlines():
        here, _, there = line.partition(" - ")
        fields, (filesystem, source, super_options) = here.split(" "), there.split(" ")
        found.append(
            Mount(
                id=int(fields[0]),
                device_number=fields[2],
                root=_unescape(fields[3]),
                directory=Path(_unescape(fields[4])),
                filesystem=filesystem,
                source=_unescape(source),
                options=tuple(fields[5].split(",")),
                super_options=tuple(_unescape(super_options).split(",")),
            )
        )
    return found


def mount_of(path: Path) -> Mount:
    """The mount that a path lies on. Raises HeadraceError when the path cannot be reached."""
    try:
        os.statvfs(path)  # makes an automounted file system come
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise HeadraceError(f"{path}: {error.strerror}") from error
    try:
        info = Path(f"/proc/self/fdinfo/{handle}").read_text()
    finally:
        os.close(handle)
    number = int(next(line for line in info.splitlines() if line.startswith("mnt_id:")).split()[1])
    for mount in read_mounts():
        if mount.id == number:
            return mount
    raise HeadraceError(f"{path} lies on a mount that this process does not see")


def is_mounted(directory: Path, source: str) -> bool:
    """True when the uppermost mount at exactly this directory is the one of this source. Touches no file system."""
    at = [mount for mount in read_mounts() if mount.directory == directory]
    return bool(at) and at[-1].source == source


def users_of(directory: Path) -> list[str]:
    """Processes that have a file, their working directory or root below a directory, as `name (pid)`, as far as visible."""
    prefix = f"{directory}/"
    found: list[str] = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        links = [process / "cwd", process / "root", process / "exe"]
        with contextlib.suppress(OSError):
            links.extend((process / "fd").iterdir())
        for link in links:
            with contextlib.suppress(OSError):
                if f"{link.readlink()}/".startswith(prefix):
                    found.append(f"{(process / 'comm').read_text().strip()} ({process.name})")
                    break
    return found


def abort(directory: Path, source: str) -> None:
    """Gives up whatever waits for an answer of a network file system's server, and takes it out of view.

    Raises HeadraceError when the kernel refuses."""
    while is_mounted(directory, source):
        if _libc.umount2(os.fsencode(directory), _UMOUNT_NOFOLLOW | _MNT_FORCE | _MNT_DETACH) != 0:
            raise HeadraceError(f"{directory} cannot be let go of: {os.strerror(ctypes.get_errno())}")


def unmount(directory: Path, source: str, *, lazy: bool = False, patience_s: float = 8.0) -> int:
    """Unmounts `source` from `directory`, as often as it is mounted there; returns how often. Another's mount is left alone.

    While it is busy this waits up to `patience_s`; then, with `lazy`, it is only detached from view (for a network
    file system whose server is dead), else HeadraceError names who keeps it busy.
    """
    count = 0
    deadline = time.monotonic() + patience_s
    flags = _UMOUNT_NOFOLLOW
    while is_mounted(directory, source):
        if _libc.umount2(os.fsencode(directory), flags) == 0:
            count += 1
            continue
        number = ctypes.get_errno()
        if number != errno.EBUSY:
            raise HeadraceError(f"{directory} cannot be unmounted: {os.strerror(number)}")
        if time.monotonic() > deadline:
            if not lazy:
                users = ", ".join(users_of(directory)) or "nobody that can be seen"
                raise HeadraceError(f"{directory} cannot be unmounted, it is in use by {users}")
            flags |= _MNT_DETACH
        time.sleep(0.02)
    return count


def mount(
    journal: Journal, source: str, directory: Path, filesystem: str, options: Sequence[str] = ()
) -> Entry:
    """Mounts `source` on a directory that is there; `journal.undo` of the entry unmounts it.

    Raises HeadraceError with what mount(8) said.
    """
    from headrace.system.processes import (
        run_program,
    )  # it needs the journal, whose undo actions need this file

    argv = ["mount", "-t", filesystem]
    if options:
        argv += ["-o", ",".join(options)]
    entry = journal.begin("unmount", directory=str(directory), source=source)
    try:
        run_program(journal, [*argv, source, str(directory)])
    except HeadraceError:
        journal.undo(entry)
        raise
    return entry
