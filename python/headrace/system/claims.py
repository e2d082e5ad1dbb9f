"""Base layer: exclusive claims on places of the machine: target and result folders, image files.

A place is claimed by a lock on a file named after the place's resolved path; the kernel releases
the lock when the process dies. The files belong to the user: runs of different users use separate
folders in a target.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import tempfile
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError, RefusedError


@dataclass(frozen=True)
class Place:
    """The claimed path, and its name in messages."""

    path: Path
    name: str
    """Such as `the folder of target disk`."""


def _folder() -> Path:
    """Return the directory of this user's locks, the same for every process. Raises HeadraceError
    when there is none that the user owns."""
    if os.geteuid() == 0 and os.access("/run", os.W_OK):
        return _own(Path("/run/headrace/claims"))
    name, problem = f"headrace-claims-{os.geteuid()}", HeadraceError("")
    # $TMPDIR is last: batch systems give each job another one.
    for folder in dict.fromkeys(("/tmp", "/var/tmp", tempfile.gettempdir())):
        try:
            return _own(Path(folder, name))
        except HeadraceError as error:
            problem = error
    raise problem


def _own(place: Path) -> Path:
    """Make a directory that is this user's alone. Raises HeadraceError."""
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = place.lstat()
    except OSError as error:
        raise HeadraceError(f"{place} cannot be made: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise RefusedError(f"{place} belongs to another user", hint="remove it, or set TMPDIR")
    return place


@contextmanager
def claimed(places: Iterable[Place]) -> Generator[None]:
    """Claim places for the duration of the block; a duplicate place is claimed once.

    Raises RefusedError, with the id of the process that holds it, when another run uses a place.
    """
    resolved = {place.path.resolve(): place for place in places}
    with ExitStack() as stack:
        for path, place in resolved.items():
            stack.enter_context(_claim(path, place))
        yield


@contextmanager
def _claim(path: Path, place: Place) -> Generator[None]:
    file = _folder() / hashlib.sha256(os.fsencode(path)).hexdigest()[:32]
    handle = _lock(file, f"{place.name} ({path})")
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        file.unlink(missing_ok=True)
        os.close(handle)


def _lock(file: Path, what: str) -> int:
    """Open and lock the file that currently has this name.

    Raises RefusedError when another process holds `what`.
    """
    while True:
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(file.stat(), os.fstat(handle)):
                    return handle
        except BlockingIOError:
            process = os.pread(handle, 20, 0).decode() or "that is just beginning"
            os.close(handle)
            raise in_use(what, process) from None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # its holder has just ended and removed it


def in_use(what: str, process: str) -> RefusedError:
    """Return the error for a resource that another run of Headrace uses."""
    return RefusedError(
        f"{what} is in use by another headrace, process {process}",
        hint="wait for it, or stop it first",
    )
