"""Copies of a data set's files on a target: reflinks where supported, else full copies.

They are never hard links. A copy has an inode of its own, so no job and no fault can change the
source file through it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import os
from pathlib import Path

import xxhash

from headrace.datasets.integrity import Tick, no_tick

_FICLONE = 0x40049409
"""ioctl(target, FICLONE, source): linux/fs.h, man 2 ioctl_ficlone."""
_CANNOT_CLONE = (
    errno.EOPNOTSUPP,
    errno.EXDEV,
    errno.EINVAL,
    errno.ENOTTY,
    errno.ENOSYS,
    errno.EPERM,
)
_PIECE_BYTES = 4 << 20


class DamagedSourceError(Exception):
    """The source file does not have the expected checksum."""


def copy_file(source: Path, place: Path, *, xxh3: str | None, tick: Tick = no_tick) -> str | None:
    """Copy `source` to `place`, synced and complete before it has that name. Return its checksum.

    Return None for a reflink, whose data are not read. `xxh3` is the expected checksum; another one
    raises DamagedSourceError. Raises OSError, and the exceptions of `tick`; no partial copy is
    left.
    """
    _remove_unfinished(place)
    partial = place.with_name(f".{place.name}.partial-{os.getpid()}")
    try:
        with source.open("rb") as reader, partial.open("xb") as writer:
            found = None
            if not _cloned(reader.fileno(), writer.fileno()):
                digest = xxhash.xxh3_128()
                while piece := reader.read(_PIECE_BYTES):
                    tick()
                    digest.update(piece)
                    writer.write(piece)
                found = digest.hexdigest()
                if xxh3 is not None and found != xxh3:
                    raise DamagedSourceError(source)
            writer.flush()
            os.fsync(writer.fileno())
        partial.replace(place)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()
    return found


def _remove_unfinished(place: Path) -> None:
    """Remove a copy that a killed process of this machine left unfinished."""
    for left in place.parent.glob(f".{glob.escape(place.name)}.partial-*"):
        pid = left.name.rpartition("-")[2]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            with contextlib.suppress(OSError):
                left.unlink()


def _cloned(source: int, target: int) -> bool:
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as error:
        if error.errno in _CANNOT_CLONE:
            return False
        raise
    return True
