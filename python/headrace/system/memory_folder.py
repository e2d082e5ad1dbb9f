"""Base layer: folders in memory for files that a process needs for a moment.

A process that is killed cannot remove its folder: the next one does. A folder in use is locked
(flock(2)), and the kernel takes the lock away with the process.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from headrace.errors import NO_SPACE, NoSpaceError, system_words

_ROOM_BYTES = 64 << 20
"""Free space from which a folder in memory is used: containers may give them little."""
_FEW_INODES = 16
_LOCKED_AFTER_S = 60.0
"""A younger folder may not be locked yet."""


@contextmanager
def memory_folder(purpose: str) -> Generator[Path]:
    """Yield a new folder in memory, or where there is none in the folder for temporary files.

    Those that killed processes of this user have left, for the same purpose, are removed. Raises
    NoSpaceError when there is no space for the files.
    """
    prefix = f"headrace-{purpose}-"
    memory = Path("/dev/shm")
    for left in memory.glob(f"{prefix}*"):
        _remove_if_left(left)
    place = memory if _has_room(memory) else Path(tempfile.gettempdir())
    if place != memory:
        for left in place.glob(f"{prefix}*"):
            _remove_if_left(left)
    try:
        with _locked_folder(prefix, place) as folder:
            yield folder
    except OSError as error:
        if error.errno not in (*NO_SPACE, errno.EFBIG):
            raise
        hint = "free some space there, or set TMPDIR to a folder with space"
        if error.errno == errno.EFBIG:
            hint = "raise the limit for the size of files (ulimit -f)"
        message = f"a temporary file cannot be written to {place}: {system_words(error)}"
        raise NoSpaceError(message, hint=hint) from error


def _has_room(place: Path) -> bool:
    """Return whether files can be written to a folder, and there is space for them."""
    if not place.is_dir() or not os.access(place, os.W_OK):
        return False
    found = os.statvfs(place)
    inodes = found.f_favail if found.f_files else _FEW_INODES  # 0 of 0: there is no limit
    return found.f_bavail * found.f_frsize >= _ROOM_BYTES and inodes >= _FEW_INODES


@contextmanager
def _locked_folder(prefix: str, place: Path) -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix=prefix, dir=place) as name:
        handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield Path(name)
        finally:
            os.close(handle)


def _remove_if_left(folder: Path) -> None:
    with contextlib.suppress(OSError):  # another process removes it, or it is another user's
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            found = os.fstat(handle)
            if found.st_uid == os.geteuid() and time.time() - found.st_mtime > _LOCKED_AFTER_S:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(handle)
