"""Base layer: read the mount table (/proc/self/mountinfo, proc(5)), mount and unmount."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError
from headrace.system.processes import run_program
from headrace.system.waiting import wait_until

if TYPE_CHECKING:
    from headrace.system.journal import Journal, JournalEntry

_MNT_FORCE = 1
_MNT_DETACH = 2
_UMOUNT_NOFOLLOW = 8
IN_MEMORY = ("tmpfs", "ramfs", "hugetlbfs", "devtmpfs")
"""File systems that have their files in memory only."""
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo."""

    id: int
    device_number: str
    """`major:minor` of its files (for btrfs and network file systems an anonymous number)."""
    root: str
    """Mounted path within the file system (not `/` for a bind mount or a btrfs subvolume)."""
    directory: Path
    filesystem: str
    source: str
    """Device path, `server:/export`, or any other name that the file system uses."""
    options: tuple[str, ...]
    """Options of this mount (`rw`, `noatime` …)."""
    super_options: tuple[str, ...]
    """Options of the file system itself, as it shows them (often without defaults)."""

    @property
    def shown_source(self) -> str:
        """The source without the password that a URL may have (`ftp://me:…@host`)."""
        return re.sub(r"(://[^/:@]*):[^/@]*@", r"\1@", self.source)

    @property
    def all_options(self) -> tuple[str, ...]:
        """Both kinds of options, each once, in the order shown."""
        return tuple(dict.fromkeys(self.options + self.super_options))


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def read_mounts(pid: int | str = "self") -> list[Mount]:
    """Return the mounts visible to a process, in mount order (later ones cover earlier ones)."""
    return parse_mountinfo(Path(f"/proc/{pid}/mountinfo").read_text(errors="surrogateescape"))


def parse_mountinfo(text: str) -> list[Mount]:
    """Return the mounts of a mountinfo file (proc(5)).

    A line has fields, any number of optional fields, ` - `, and three more fields.
    """
    return list(_parsed(text))


@lru_cache(maxsize=4)
def _parsed(text: str) -> tuple[Mount, ...]:
    """Return the mounts once for a text: each trial reads the same table several times."""
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
                # A comma of an option's value is escaped, too.
                super_options=tuple(_unescape(each) for each in super_options.split(",")),
            )
        )
    return tuple(found)


def deepest_above(path: str, mounts: Iterable[Mount]) -> Mount | None:
    """Return the deepest mount above a path, the last one of several there; by names only."""
    found, length = None, -1
    for mount in mounts:  # a later one at the same place lies above
        directory = str(mount.directory).rstrip("/")
        if len(directory) >= length and f"{path}/".startswith(f"{directory}/"):
            found, length = mount, len(directory)
    return found


def mount_of(path: Path) -> Mount:
    """Return the mount of a path. Raises HeadraceError when the path cannot be reached."""
    try:
        os.statvfs(path)  # triggers an automount
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
    raise HeadraceError(f"{path} is on a mount that this process does not see")


def is_mounted(directory: Path, source: str) -> bool:
    """Return True when the topmost mount at exactly this directory has this source.

    Does not access the file system.
    """
    at = [mount for mount in read_mounts() if mount.directory == directory]
    return bool(at) and at[-1].source == source


def users_of(directory: Path) -> list[str]:
    """Return visible processes that use a file or directory below a directory, as `name (pid)`.

    Checked are open files, working directory, root and executable.
    """
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
                    name = (process / "comm").read_text(errors="replace").strip()
                    found.append(f"{name} ({process.name})")
                    break
    return found


def abort(directory: Path, source: str) -> None:
    """Abort all waits for a network file system's server, and detach the mount.

    Raises HeadraceError when the kernel refuses.
    """
    while is_mounted(directory, source):
        if _libc.umount2(os.fsencode(directory), _UMOUNT_NOFOLLOW | _MNT_FORCE | _MNT_DETACH) != 0:
            raise HeadraceError(
                f"{directory} cannot be let go of: {os.strerror(ctypes.get_errno())}"
            )


PATIENCE_S = 8.0
"""For those who use a mount to let go of it."""


def unmount(
    directory: Path, source: str, *, lazy: bool = False, patience_s: float = PATIENCE_S
) -> int:
    """Unmount every mount of `source` at `directory`; return their number.

    Mounts of other sources are left alone. While it is busy this waits up to `patience_s`; then,
    with `lazy`, it is only detached (for a network file system whose server is dead), else
    HeadraceError names the processes that use it.
    """
    count = 0
    flags = _UMOUNT_NOFOLLOW

    def gone() -> bool:
        nonlocal count
        while is_mounted(directory, source):
            if _libc.umount2(os.fsencode(directory), flags) == 0:
                count += 1
                continue
            number = ctypes.get_errno()
            if number != errno.EBUSY:
                raise HeadraceError(f"{directory} cannot be unmounted: {os.strerror(number)}")
            return False
        return True

    if not wait_until(gone, patience_s, 0.02):
        flags |= _MNT_DETACH
        if not lazy or not wait_until(gone, patience_s, 0.02):
            users = ", ".join(users_of(directory)) or "nobody that can be seen"
            raise HeadraceError(f"{directory} cannot be unmounted, it is in use by {users}")
    return count


def mount(
    journal: Journal, source: str, directory: Path, filesystem: str, options: Sequence[str] = ()
) -> JournalEntry:
    """Mount `source` on an existing directory; `journal.undo` of the entry unmounts it.

    Raises HeadraceError with the message of mount(8).
    """
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
