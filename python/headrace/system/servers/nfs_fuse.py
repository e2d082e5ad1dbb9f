"""Base layer: a user-space NFS client, a FUSE file system over the library nfs-rs (NFS 3 and 4.1).

    python -m headrace.system.servers.nfs_fuse '{"server": "10.77.0.2", "export": "/export", …}'

It is for machines whose kernel has no NFS client. Like the kernel's client it caches attributes for
a few seconds, reads through the page cache with its read-ahead in requests of `rsize`, buffers
writes, and commits them at fsync, close and after a number of bytes. Requests to a server that does
not answer are retried for `patience_s` (hard mounts: for ever).
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import math
import os
import stat
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import mfusepy
import nfs_rs

from headrace.system.servers.nfs_fuse_settings import ClientSettings
from headrace.system.waiting import retry

Value = TypeVar("Value")

_UNANSWERED = (nfs_rs.NfsConnectionError, nfs_rs.NfsTimeoutError, nfs_rs.NfsRetryableError)
_GATHER_BYTES = 4 << 20
"""Written bytes that are buffered before they are sent and committed."""
_CONNECT_TIMEOUT_S = 5.0
_CALL_TIMEOUT_S = 60.0
"""Timeout of one library call.

A write call sends the whole buffer, which takes long on a slow, shared link.
"""
_PAUSE_S = 0.2
_UTIME_NOW, _UTIME_OMIT = (1 << 30) - 1, (1 << 30) - 2
"""Nanosecond values that mean "now" and "unchanged" (utimensat(2))."""


class _OpenFile:
    """An open file and its buffered writes."""

    def __init__(self, path: str, file: Any) -> None:
        self.path = path
        self.file = file
        self.lock = threading.Lock()
        self.start = 0
        self.pieces: list[bytes] = []
        self.size = 0

    def gather(self, data: bytes, offset: int) -> bool:
        """Buffer data that continues the buffer; return False when it does not fit."""
        if self.size and (
            offset != self.start + self.size or self.size + len(data) > _GATHER_BYTES
        ):
            return False
        if not self.size:
            self.start = offset
        self.pieces.append(data)
        self.size += len(data)
        return True

    def take(self) -> tuple[bytes, int]:
        """Return and clear the buffer."""
        data, start = b"".join(self.pieces), self.start
        self.pieces, self.size = [], 0
        return data, start


class NfsFilesystem(mfusepy.Operations):
    """FUSE operations, forwarded to the server."""

    use_ns = True

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        # Over version 4 this library cannot list an export's top directory, but can list it below
        # the server's root.
        self._prefix = settings.export.rstrip("/") if settings.version == 4 else ""
        self._client = self._connect("/" if settings.version == 4 else settings.export)
        self._space: Any = None if settings.version == 4 else self._client
        self._numbers = itertools.count(1)
        self._open: dict[int, _OpenFile] = {}
        self._lock = threading.Lock()
        # Fails now, and not in a job, when the export does not exist.
        self._client.stat(self._at("/"))

    def _connect(self, export: str) -> Any:
        settings = self._settings
        call_s = min(_CALL_TIMEOUT_S, settings.patience_s or _CALL_TIMEOUT_S)
        ports: dict[str, Any] = {}
        if settings.nfs_port is not None:
            ports["nfs_port"] = settings.nfs_port
        if settings.mount_port is not None and settings.version == 3:
            ports["mount_port"] = settings.mount_port
        return nfs_rs.Client.connect(
            f"nfs://{settings.server}{export}",
            versions=["4.1" if settings.version == 4 else "3"],
            uid=os.getuid(),
            gid=os.getgid(),
            connect_timeout=min(_CONNECT_TIMEOUT_S, call_s),
            operation_timeout=call_s,
            **ports,
        )

    def _at(self, path: str) -> str:
        return (self._prefix + path.rstrip("/")) or "/"

    def _ask(self, call: Callable[[], Value]) -> Value:
        """Call the library, with retries while the server does not answer.

        Failures are raised as OSError.
        """
        patience_s = self._settings.patience_s
        try:
            return retry(
                call, _UNANSWERED, math.inf if patience_s is None else patience_s, _PAUSE_S
            )
        except _UNANSWERED as error:
            raise OSError(errno.EIO, str(error)) from error
        except nfs_rs.NfsError as error:
            raise OSError(error.errno or errno.EIO, str(error)) from error

    # -- files --

    def _keep(self, path: str, file: Any) -> int:
        with self._lock:
            number = next(self._numbers)
            self._open[number] = _OpenFile(path, file)
        return number

    def open(self, path: str, flags: int) -> int:
        """Open an existing file."""
        mode = "rb" if flags & os.O_ACCMODE == os.O_RDONLY else "r+b"
        if flags & os.O_TRUNC:
            self._ask(lambda: self._client.truncate(self._at(path), 0))
        return self._keep(path, self._ask(lambda: self._client.open(self._at(path), mode)))

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        """Create a file."""
        file = self._ask(lambda: self._client.open(self._at(path), "w+b"))
        self._ask(lambda: self._client.chmod(self._at(path), stat.S_IMODE(mode)))
        return self._keep(path, file)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """Read in one request of at most rsize."""
        opened = self._open[fh]
        self._send_all_of(path)
        return self._ask(lambda: opened.file.read_at(offset, size))

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        """Buffer data; send the buffer first when the data does not continue it."""
        opened = self._open[fh]
        with opened.lock:
            if not opened.gather(data, offset):
                self._send(opened)
                opened.gather(data, offset)
        return len(data)

    def _send(self, opened: _OpenFile) -> None:
        """Send and commit the buffer; the caller holds the file's lock."""
        if not opened.size:
            return
        data, start = opened.take()
        self._ask(lambda: opened.file.write_at(data, start))

    def _send_all_of(self, path: str | None = None) -> None:
        """Send the buffers of all open files (of a path)."""
        with self._lock:
            waiting = [
                file for file in self._open.values() if file.size and path in (None, file.path)
            ]
        for opened in waiting:
            with opened.lock:
                self._send(opened)

    def flush(self, path: str, fh: int) -> int:
        """Send the buffer at every close, so that the data is on the server, as NFS guarantees."""
        opened = self._open[fh]
        with opened.lock:
            self._send(opened)
        return 0

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        """Send and commit."""
        return self.flush(path, fh)

    def release(self, path: str, fh: int) -> int:
        """Close."""
        self.flush(path, fh)
        with self._lock:
            opened = self._open.pop(fh)
        with contextlib.suppress(nfs_rs.NfsError):
            opened.file.close()
        return 0

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        """Truncate or extend."""
        self._send_all_of(path)
        self._ask(lambda: self._client.truncate(self._at(path), length))
        return 0

    # -- names --

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        """Return attributes."""
        self._send_all_of(path)
        found = self._ask(lambda: self._client.stat(self._at(path)))
        kind = {
            nfs_rs.FileType.FILE: stat.S_IFREG,
            nfs_rs.FileType.DIRECTORY: stat.S_IFDIR,
            nfs_rs.FileType.SYMLINK: stat.S_IFLNK,
        }.get(found.type, stat.S_IFREG)
        return {
            "st_mode": kind | stat.S_IMODE(found.mode),
            "st_nlink": found.nlink,
            "st_size": found.size,
            "st_blocks": -(-found.used // 512),
            "st_uid": found.uid or 0,
            "st_gid": found.gid or 0,
            "st_ino": found.fileid,
            "st_atime": found.atime,
            "st_mtime": found.mtime,
            "st_ctime": found.ctime,
        }

    def readdir(self, path: str, fh: int) -> list[tuple[str, dict[str, int], int]]:
        """Return the names in a directory.

        A name without an inode number would count as removed (getdents(2)); any number works.
        """
        names = [".", "..", *self._ask(lambda: self._client.listdir(self._at(path)))]
        return [(name, {"st_ino": 1}, 0) for name in names]

    def mkdir(self, path: str, mode: int) -> int:
        """Create a directory."""
        self._ask(lambda: self._client.mkdir(self._at(path)))
        self._ask(lambda: self._client.chmod(self._at(path), stat.S_IMODE(mode)))
        return 0

    def rmdir(self, path: str) -> int:
        """Remove a directory."""
        self._ask(lambda: self._client.rmdir(self._at(path)))
        return 0

    def unlink(self, path: str) -> int:
        """Remove a file."""
        self._ask(lambda: self._client.unlink(self._at(path)))
        return 0

    def rename(self, old: str, new: str) -> int:
        """Rename."""
        self._send_all_of(old)
        self._ask(lambda: self._client.rename(self._at(old), self._at(new)))
        return 0

    def link(self, target: str, source: str) -> int:
        """Create another name for a file: `target` is the new one."""
        self._ask(lambda: self._client.link(self._at(source), self._at(target)))
        return 0

    def symlink(self, target: str, source: str) -> int:
        """Create a symbolic link at `target`."""
        self._ask(lambda: self._client.symlink(source, self._at(target)))
        return 0

    def readlink(self, path: str) -> str:
        """Return the target of a symbolic link."""
        return str(self._ask(lambda: self._client.readlink(self._at(path))))

    def chmod(self, path: str, mode: int) -> int:
        """Set permissions."""
        self._ask(lambda: self._client.chmod(self._at(path), stat.S_IMODE(mode)))
        return 0

    def chown(self, path: str, uid: int, gid: int) -> int:
        """Set the owner."""
        now = self._ask(lambda: self._client.stat(self._at(path)))
        unset = 0xFFFFFFFF
        owner = now.uid if uid in (-1, unset) else uid
        group = now.gid if gid in (-1, unset) else gid
        self._ask(lambda: self._client.chown(self._at(path), owner, group))
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        """Set times, in nanoseconds."""
        self._send_all_of(path)
        found = self._ask(lambda: self._client.stat(self._at(path)))
        now = time.time_ns()
        stand_for = {_UTIME_NOW: (now, now), _UTIME_OMIT: (found.atime, found.mtime)}
        asked = times or (_UTIME_NOW, _UTIME_NOW)
        wanted = tuple(stand_for.get(each, (each, each))[place] for place, each in enumerate(asked))
        self._ask(lambda: self._client.utime(self._at(path), ns=(wanted[0], wanted[1])))
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        """Return space."""
        if self._space is None:
            self._space = self._ask(lambda: self._connect(self._settings.export))
        found = self._ask(lambda: self._space.fs_stat())
        block = 4096
        return {
            "f_bsize": block,
            "f_frsize": block,
            "f_blocks": found.total_bytes // block,
            "f_bfree": found.free_bytes // block,
            "f_bavail": found.available_bytes // block,
            "f_files": found.total_files,
            "f_ffree": found.free_files,
            "f_favail": found.available_files,
            "f_namemax": 255,
        }

    def init_with_config(self, conn_info: Any, config_3: Any) -> None:
        """Set request sizes, like the mount options rsize and wsize."""
        conn_info.max_write = self._settings.wsize_bytes
        conn_info.max_read = self._settings.rsize_bytes
        config_3.use_ino = 1
        config_3.auto_cache = 1
        config_3.attr_timeout = config_3.entry_timeout = self._settings.attribute_s
        config_3.negative_timeout = 0.0
        config_3.nullpath_ok = 0

    def destroy(self, path: str) -> None:
        """Send all buffers at unmounting."""
        self._send_all_of()
        with contextlib.suppress(nfs_rs.NfsError):
            self._client.close()


def main() -> None:
    """Mount, and serve until unmounted or killed."""
    settings = ClientSettings(**json.loads(sys.argv[1]))
    try:
        filesystem = NfsFilesystem(settings)
    except (nfs_rs.NfsError, OSError) as error:
        sys.exit(f"{settings.server}:{settings.export}: {error}")
    mfusepy.FUSE(
        filesystem,
        settings.directory,
        foreground=True,
        fsname=f"{settings.server}:{settings.export}",
        subtype="nfs",
        allow_other=True,
        default_permissions=True,
        max_read=settings.rsize_bytes,
    )


if __name__ == "__main__":
    main()
