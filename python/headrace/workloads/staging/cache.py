"""A node's cache of input files that its jobs share (pCache).

A file is fetched once and linked into each job; the least recently used file is evicted when space
is needed. The published pCache makes hard links and so must be on the filesystem of the jobs'
scratch. Here, a cache on another filesystem uses symbolic links, and a lock on the file while a job
reads it, so that it is not evicted meanwhile.

Files of the cache: `KEY` (complete), `KEY.lock` (held while it is fetched), `KEY.room` (a sparse
file of the size of the file being fetched, which reserves its space), `lock` (held while the cache
is updated).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError

Fetch = Callable[[Path], tuple[int, float]]
"""Fetches the file to a path; returns its bytes and seconds."""


@dataclass(frozen=True)
class Taken:
    """A file that a job got from the cache."""

    hit: bool
    bytes_copied: int
    copy_s: float
    evicted: int
    """Number of files evicted for it."""
    lease: int | None
    """Descriptor whose lock prevents eviction; close it when the job is done with the file."""


class NodeCache:
    """A directory of at most `capacity` bytes of input files."""

    def __init__(self, directory: Path, capacity: int) -> None:
        """Make the directory. Raises HeadraceError when that fails."""
        self.directory = directory
        self.capacity = capacity
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HeadraceError(
                f"{directory}: the cache cannot be made: {error.strerror}"
            ) from error

    def take(self, source: str, size: int, place: Path, fetch: Fetch) -> Taken:
        """Link the file of `source` (`size` bytes) at `place`; fetch it first if not cached.

        A file larger than the cache is fetched directly to `place`. Raises the exceptions of
        `fetch`.
        """
        if size > self.capacity:
            copied, took_s = fetch(place)
            return Taken(False, copied, took_s, 0, None)
        key = hashlib.sha256(f"{source} {size}".encode()).hexdigest()[:32]
        entry = self.directory / key
        while True:
            with _locked(self.directory / f"{key}.lock"):
                hit = entry.exists()
                copied, took_s, evicted = 0, 0.0, 0
                if not hit:
                    room = self.directory / f"{key}.room"
                    try:
                        evicted = self._make_room(room, size)
                        copied, took_s = fetch(entry)
                    finally:
                        room.unlink(missing_ok=True)
                with contextlib.suppress(FileNotFoundError):
                    # The file may be evicted between the check and the link: then it is fetched
                    # again.
                    return Taken(hit, copied, took_s, evicted, self._link(entry, place))

    def _files(self) -> list[tuple[int, int, Path]]:
        """Return (last use in ns, bytes, path) of every file and of reserved space.

        Reserved space is never the oldest.
        """
        found: list[tuple[int, int, Path]] = []
        with os.scandir(self.directory) as entries:
            for entry in entries:
                if entry.name == "lock" or entry.name.endswith((".lock", ".partial")):
                    continue
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat()
                    found.append((status.st_mtime_ns, status.st_size, Path(entry.path)))
        return found

    def _make_room(self, room: Path, size: int) -> int:
        """Reserve `size` bytes; return the number of evicted files.

        Raises HeadraceError when everything in the cache is in use.
        """
        with _locked(self.directory / "lock"):
            files = self._files()
            held = sum(each for _, each, _ in files)
            evicted = 0
            for _, each, path in sorted(files):
                if held + size <= self.capacity:
                    break
                if path.suffix != ".room" and _evict(path):
                    held -= each
                    evicted += 1
            if held + size > self.capacity:
                raise HeadraceError(
                    f"{self.directory}: no room in the cache: {held} of {self.capacity} bytes are "
                    f"in use, {size} are needed",
                    hint="a larger pcache, at least two input files a slot, or smaller files",
                )
            with room.open("wb") as file:
                file.truncate(size)
        return evicted

    def _link(self, entry: Path, place: Path) -> int | None:
        descriptor = os.open(entry, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if os.fstat(descriptor).st_nlink == 0:
                raise FileNotFoundError(entry)
            os.utime(entry)
            try:
                os.link(entry, place)
            except OSError as error:
                if error.errno not in (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
                    raise
                place.symlink_to(entry.absolute())
                lease, descriptor = descriptor, -1
                return lease
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        return None


def _evict(path: Path) -> bool:
    """Remove a file unless a job is reading it through a symbolic link."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


@contextmanager
def _locked(path: Path) -> Generator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
