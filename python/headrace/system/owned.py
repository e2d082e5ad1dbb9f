"""Ground: files and folders that Headrace makes, so marked that undo removes them and never anyone else's."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError, RefusedError, UnsupportedLevelError

if TYPE_CHECKING:
    from headrace.system.journal import Entry, Journal

_libc = ctypes.CDLL(None, use_errno=True)

OWNER_FILE = ".headrace-owner"
"""A directory tree of ours holds this file with our token in it."""


def work_directory(journal: Journal, parent: Path | None = None) -> tuple[Path, Entry]:
    """Makes a private directory with a new name below `parent` (the system's place for temporary files when None).

    `journal.undo` of its entry removes it with everything in it, but refuses while something is mounted in it.
    """
    token = os.urandom(8).hex()
    path = (parent or Path(tempfile.gettempdir())).resolve() / f"headrace-{token}"
    entry = journal.begin("remove_tree", path=str(path), token=token)
    try:
        path.mkdir(mode=0o700)
        (path / OWNER_FILE).write_text(token)
    except OSError as error:
        journal.undo(entry)
        raise HeadraceError(f"{path} cannot be made: {error.strerror}") from error
    return path, entry


def make_directories(journal: Journal, path: Path) -> list[Entry]:
    """Makes a directory and the missing ones above it. Undoing its entries (last first) removes those that are empty.

    Raises HeadraceError when one cannot be made.
    """
    missing: list[Path] = []
    level = path
    while not level.exists():
        missing.append(level)
        level = level.parent
    entries: list[Entry] = []
    for level in reversed(missing):
        entries.append(journal.begin("remove_directory", path=str(level)))
        try:
            level.mkdir()
        except OSError as error:
            for entry in reversed(entries):
                journal.undo(entry)
            raise HeadraceError(f"the directory {level} cannot be made: {error.strerror}") from error
    return entries


def make_file(journal: Journal, path: Path, size: int) -> Entry:
    """Makes a file of `size` bytes whose space is taken at once where the file system can do that, else sparse.

    It gets its name only when it is whole, and only when nothing has that name. Raises RefusedError when something
    does, HeadraceError when there is no room.
    """
    token = os.urandom(8).hex()
    unfinished = path.with_name(f".{path.name}.headrace-{token}")
    first = journal.begin("remove_file", path=str(unfinished), token=token)
    try:
        handle = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _take_space(handle, size)
            found = os.fstat(handle)
        finally:
            os.close(handle)
        second = journal.begin("remove_file", path=str(path), inode=found.st_ino, device=found.st_dev)
        try:
            os.link(unfinished, path)
        except FileExistsError as error:
            journal.end(second)
            raise RefusedError(f"{path} is there already") from error
        except OSError:  # a file system without hard links
            if path.exists():
                journal.end(second)
                raise RefusedError(f"{path} is there already") from None
            unfinished.rename(path)
    except OSError as error:
        journal.undo(first)
        raise HeadraceError(f"the file {path} of {size} bytes cannot be made: {error.strerror}") from error
    except RefusedError:
        journal.undo(first)
        raise
    journal.undo(first)
    return second


def fill(journal: Journal, directory: Path, free: int) -> Entry:
    """Takes all the space of the file system that a directory lies on, but for `free` bytes, by a file that is reserved
    and not written where the file system can do that (ext3 and NFS before 4.2 cannot); undoing the entry gives it back.

    Raises UnsupportedLevelError when it would have to write more than 16 GiB, or cannot at all.
    """
    token = os.urandom(8).hex()
    path = directory / f".headrace-fill-{token}"
    entry = journal.begin("remove_file", path=str(path), token=token)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            try:
                size = _reserve_all(handle)
            except OSError as error:
                if error.errno != errno.EOPNOTSUPP:
                    raise
                size = _write_all(handle)
            os.ftruncate(handle, max(0, size - free))
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        journal.undo(entry)
        raise UnsupportedLevelError(f"{directory} cannot be filled: {error.strerror}") from error
    return entry


def _reserve_all(handle: int) -> int:
    """Reserves what there is: asks for less and less until it says no, since what counts as free differs by user."""
    size, step = 0, 1 << os.fstatvfs(handle).f_blocks.bit_length() + os.fstatvfs(handle).f_frsize.bit_length()
    while step >= 4096:
        if _reserve(handle, size, step):
            size += step
        else:
            step //= 2
    return size


def _write_all(handle: int) -> int:
    found = os.fstatvfs(handle)
    if found.f_bfree * found.f_frsize > 16 << 30:
        raise OSError(errno.EOPNOTSUPP, "it cannot reserve space, and has too much to be written full")
    size = 0
    for piece in (1 << 20, 1 << 16, 1 << 12):
        while (
            True
        ):  # what the file system had set aside for its own tables shows only once the data is on disk
            before = size
            with contextlib.suppress(OSError):
                while True:
                    size += os.write(handle, bytes(piece))
            os.fsync(handle)
            if size == before:
                break
    return size


def _reserve(handle: int, start: int, length: int) -> bool:
    """Reserves space in a file without writing it. False when there is no room; raises OSError where it cannot be done."""
    if _libc.fallocate(handle, 0, ctypes.c_int64(start), ctypes.c_int64(length)) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return False
    raise OSError(number, os.strerror(number))


def _take_space(handle: int, size: int) -> None:
    try:
        if not _reserve(handle, 0, size):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise
        os.truncate(handle, size)  # the file system cannot reserve space
