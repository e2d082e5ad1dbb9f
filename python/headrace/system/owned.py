"""Base layer: files and directories created by Headrace, marked so that undo removes only these."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError, RefusedError, UnsupportedLevelError
from headrace.user import user_name

if TYPE_CHECKING:
    from headrace.system.journal import Journal, JournalEntry

_libc = ctypes.CDLL(None, use_errno=True)

OWNER_FILE = ".headrace-owner"
"""File that marks a directory tree of ours; it holds our token."""

OURS = ".headrace" if os.geteuid() == 0 else f".headrace-{user_name()}"
"""The directory that Headrace creates in a target's directory, one per user.

Several users may share a scratch directory.
"""


def refuse_link(ours: Path) -> None:
    """Raise RefusedError when our directory in a target's is a link: what it leads to is another's,
    and would be removed.
    """
    if ours.is_symlink():
        raise RefusedError(
            f"{ours} is a link, not a directory of Headrace's own", hint="remove the link"
        )


def work_directory(journal: Journal, parent: Path | None = None) -> tuple[Path, JournalEntry]:
    """Create a private directory with a new name below `parent`.

    The default is the system's temporary directory. `journal.undo` of its entry removes it with its
    contents, but refuses while something is mounted in it.
    """
    token = os.urandom(8).hex()
    path = (parent or Path(tempfile.gettempdir())).resolve() / f"headrace-{token}"
    entry = journal.begin("remove_tree", path=str(path), token=token)
    try:
        path.mkdir(mode=0o700)
    except OSError as error:
        journal.end(entry)  # where it could not be made, an undo may not be able to look either
        raise HeadraceError(f"{path} cannot be made: {error.strerror}") from error
    try:
        (path / OWNER_FILE).write_text(token)
    except OSError as error:
        journal.undo(entry)
        raise HeadraceError(f"{path} cannot be made: {error.strerror}") from error
    return path, entry


def show_folder(journal: Journal, folder: str, create: bool) -> tuple[str, str, JournalEntry]:
    """Create a work directory in a folder, for others to see: return a file in it, and its content.

    `create`: in the nearest folder above it that exists. Raises HeadraceError.
    """
    place = Path(folder)
    while create and not os.path.lexists(place) and place != place.parent:
        place = place.parent
    try:
        path, entry = work_directory(journal, place)
    except HeadraceError as error:
        why = error.__cause__.strerror if isinstance(error.__cause__, OSError) else error.message
        raise HeadraceError(f"cannot write into {place}: {why}") from error
    path.chmod(0o755)  # other nodes may run as another user
    # Below the folder as named: a link may lead elsewhere on another machine.
    return str(place / path.name / OWNER_FILE), (path / OWNER_FILE).read_text(), entry


_SHORT = 40
"""Bytes of a directory below which the paths of other programs' sockets can be addresses."""


def socket_directory(journal: Journal) -> tuple[Path, JournalEntry]:
    """Create a work directory with a short path, for the sockets of other programs.

    The address of a Unix socket has at most 107 bytes; a temporary directory may have more.
    """
    usual = Path(tempfile.gettempdir()).resolve()
    places = [
        place
        for place in (usual, Path("/tmp"), Path("/var/tmp"), Path("/run"))
        if len(os.fsencode(place)) <= _SHORT and os.access(place, os.W_OK)
    ]
    return work_directory(journal, places[0] if places else usual)


def make_directories(journal: Journal, path: Path) -> list[JournalEntry]:
    """Create a directory and its missing parents.

    Undoing the entries (last first) removes those that are empty. Raises HeadraceError when one
    cannot be created.
    """
    missing: list[Path] = []
    level = path
    while not level.exists():
        missing.append(level)
        level = level.parent
    entries: list[JournalEntry] = []
    for level in reversed(missing):
        entries.append(journal.begin("remove_directory", path=str(level)))
        try:
            level.mkdir()
        except OSError as error:
            for entry in reversed(entries):
                journal.undo(entry)
            raise HeadraceError(
                f"the directory {level} cannot be made: {error.strerror}"
            ) from error
    return entries


def make_tree(journal: Journal, path: Path, entries: list[JournalEntry]) -> None:
    """Create an empty directory with our mark, and its missing parents; remove what is there.

    Appends to `entries` as it goes, so that a caller can undo them after any error. Undoing them
    (last first) removes the directory with its contents, and the parents that are empty. Raises
    RefusedError when our directory around it is a link.
    """
    refuse_link(path.parent)
    entries += make_directories(journal, path.parent)
    if path.exists():  # left by a run that was killed
        shutil.rmtree(path)
    token = os.urandom(8).hex()
    entries.append(journal.begin("remove_tree", path=str(path), token=token))
    path.mkdir()
    (path / OWNER_FILE).write_text(token)


def make_file(journal: Journal, path: Path, size: int) -> JournalEntry:
    """Create a file of `size` bytes, preallocated where the file system supports it, else sparse.

    It gets its name only when it is complete, and only when that name is free. Raises RefusedError
    when the name exists, HeadraceError when there is not enough space.
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
        second = journal.begin(
            "remove_file", path=str(path), inode=found.st_ino, device=found.st_dev
        )
        try:
            os.link(unfinished, path)
        except FileExistsError as error:
            journal.end(second)
            raise RefusedError(f"{path} already exists") from error
        except OSError:  # a file system without hard links
            if path.exists():
                journal.end(second)
                raise RefusedError(f"{path} already exists") from None
            unfinished.rename(path)
    except OSError as error:
        journal.undo(first)
        raise HeadraceError(
            f"the file {path} of {size} bytes cannot be made: {error.strerror}"
        ) from error
    except RefusedError:
        journal.undo(first)
        raise
    journal.undo(first)
    return second


def try_writing(journal: Journal, directory: Path) -> None:
    """Write a small file and remove it: storage can refuse what the permissions allow.

    Raises OSError. The file has contents and is closed before it is removed: quotas refuse bytes,
    and clients of object storage (rclone) send a file when it is closed, even one removed before.
    """
    token = os.urandom(8).hex()
    path = directory / f".headrace-{token}"
    entry = journal.begin("remove_file", path=str(path), token=token)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, token.encode())
        finally:
            os.close(handle)
        path.unlink()
    except OSError:
        journal.undo(entry)
        raise
    journal.end(entry)


def fill(journal: Journal, directory: Path, free: int) -> JournalEntry:
    """Fill the file system of a directory except for `free` bytes.

    Undoing the entry frees the space. It is reserved without writing where the file system supports
    that (ext3 and NFS before 4.2 do not). Raises UnsupportedLevelError when more than 16 GiB would
    have to be written, or filling fails.
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
    """Reserve all free space and return its size.

    The request is halved after each failure, because the usable free space differs by user.
    """
    size, step = (
        0,
        1 << os.fstatvfs(handle).f_blocks.bit_length() + os.fstatvfs(handle).f_frsize.bit_length(),
    )
    while step >= 4096:
        if _reserve(handle, size, step):
            size += step
        else:
            step //= 2
    return size


def _write_all(handle: int) -> int:
    found = os.fstatvfs(handle)
    if found.f_bfree * found.f_frsize > 16 << 30:
        raise OSError(
            errno.EOPNOTSUPP, "it cannot reserve space, and has too much to be written full"
        )
    size = 0
    for piece in (1 << 20, 1 << 16, 1 << 12):
        # Space that the file system held back for metadata becomes available only after fsync
        while True:
            before = size
            with contextlib.suppress(OSError):
                while True:
                    size += os.write(handle, bytes(piece))
            os.fsync(handle)
            if size == before:
                break
    return size


def _reserve(handle: int, start: int, length: int) -> bool:
    """Reserve space in a file without writing it. Return False when there is not enough.

    Raises OSError when the file system does not support it.
    """
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
