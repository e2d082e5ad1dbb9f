"""A FUSE mount whose files are sent when they are closed, as clients of object storage do.

Run as a program: `python object_mount.py FOLDER MOUNT_POINT`. FOLDER has what was sent.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path
from typing import Any

import mfusepy  # pyright: ignore[reportMissingTypeStubs]


class Objects(mfusepy.Operations):  # pyright: ignore[reportUntypedBaseClass]
    """Files of one folder, without names below it."""

    use_ns = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[int, tuple[Path, bytearray]] = {}

    def _file(self, path: str) -> Path:
        return self._folder / path.lstrip("/")

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        found = {"st_nlink": 1, "st_uid": os.geteuid(), "st_gid": os.getegid()}
        if path == "/":
            return {**found, "st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2}
        pending = [data for file, data in self._open.values() if file == self._file(path)]
        if not pending and not self._file(path).exists():
            raise mfusepy.FuseOSError(errno.ENOENT)
        size = len(pending[-1]) if pending else self._file(path).stat().st_size
        return {**found, "st_mode": stat.S_IFREG | 0o600, "st_size": size}

    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *sorted(os.listdir(self._folder))]  # noqa: PTH208

    def create(self, path: str, mode: int, fi: object = None) -> int:
        number = len(self._open) + 1
        self._open[number] = (self._file(path), bytearray())
        return number

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        self._open[fh][1][offset : offset + len(data)] = data
        return len(data)

    def flush(self, path: str, fh: int) -> int:
        """Send a file that has contents: whoever closed it waits for this."""
        file, data = self._open[fh]
        if data:
            file.write_bytes(data)
        return 0

    def release(self, path: str, fh: int) -> int:
        """Send an empty file: nobody waits for this."""
        file, data = self._open.pop(fh)
        if not data:
            file.write_bytes(b"")
        return 0

    def unlink(self, path: str) -> int:
        self._file(path).unlink(missing_ok=True)
        return 0


if __name__ == "__main__":
    mfusepy.FUSE(
        Objects(Path(sys.argv[1])), sys.argv[2], foreground=True, nothreads=True, hard_remove=True,
        fsname="site:bucket", subtype="rclone",
    )  # fmt: skip
