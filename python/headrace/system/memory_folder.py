"""Base layer: folders in memory for files that a process needs for a moment.

A process that is killed cannot remove its folder: the next one does. A folder in use is locked
(flock(2)), and the kernel takes the lock away with the process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_LOCKED_AFTER_S = 60.0
"""A younger folder may not be locked yet."""


@contextmanager
def memory_folder(purpose: str) -> Generator[Path]:
    """Yield a new folder in memory, or where there is none in the folder for temporary files.

    Those that killed processes of this user have left, for the same purpose, are removed.
    """
    prefix = f"headrace-{purpose}-"
    memory = Path("/dev/shm")
    usable = memory.is_dir() and os.access(memory, os.W_OK)
    place = memory if usable else Path(tempfile.gettempdir())
    for left in place.glob(f"{prefix}*"):
        _remove_if_left(left)
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
