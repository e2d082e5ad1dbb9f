"""Puts files on storage that is reached by URL; a process of its own, so that it can run on a node of the cluster.

    python -m headrace.readers.upload URL FILE…     (a JSON line a file: its URL; without files: only tries to write)
    python -m headrace.readers.upload --remove URL  (a folder and all in it; it need not be there)

A file that lies there whole stays. Files are written under another name and renamed when whole, where the protocol can rename.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError
from headrace.readers.remote import filesystem_of

_PIECE_BYTES = 4 << 20


def upload(folder: str, file: Path) -> str:
    """Puts one file into a folder, and returns its URL. Raises OSError and whatever the protocol's client raises."""
    url = f"{folder}/{file.name}"
    filesystem, path = filesystem_of(url)
    size = file.stat().st_size
    with contextlib.suppress(FileNotFoundError):
        if filesystem.info(path)["size"] == size:
            return url
    # An object of S3 is there when it is whole, and cannot be renamed.
    renames = not url.startswith("s3://")
    place = f"{path}.partial-{os.getpid()}" if renames else path
    if renames:
        filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
    with file.open("rb") as source, filesystem.open(place, "wb") as target:
        while piece := source.read(_PIECE_BYTES):
            target.write(piece)
    if renames:
        with contextlib.suppress(FileNotFoundError):
            filesystem.rm(path)
        filesystem.mv(place, path)
    return url


def try_writing(folder: str) -> None:
    """Writes a small file and removes it."""
    url = f"{folder}/.headrace-{os.urandom(4).hex()}"
    filesystem, path = filesystem_of(url)
    if not url.startswith("s3://"):
        filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
    with filesystem.open(path, "wb") as file:
        file.write(b"headrace")
    read = filesystem.cat_file(path)
    filesystem.rm(path)
    if read != b"headrace":
        raise OSError("what was written is not what is read")


def remove(folder: str) -> None:
    """Removes a folder and all in it, if it is there."""
    filesystem, path = filesystem_of(folder)
    with contextlib.suppress(FileNotFoundError):
        if filesystem.exists(path):
            filesystem.rm(path, recursive=True)


def _cause(error: BaseException) -> str:
    """An exception of a client in one line, for people: the innermost cause that says something."""
    found: BaseException = error
    while (inner := found.__cause__) is not None:
        found = inner
    text: Any = str(found).strip() or str(error).strip() or type(error).__name__
    return " ".join(str(text).split())[:400]


def main() -> int:
    """Runs the process; 0, or 1 after an error that was told on standard error."""
    removing = sys.argv[1] == "--remove"
    folder, *names = sys.argv[1 + removing :]
    folder, files = folder.rstrip("/"), [Path(name) for name in names]
    try:
        if removing:
            remove(folder)
        elif not files:
            try_writing(folder)
        for file in files:
            print(json.dumps({"url": upload(folder, file)}), flush=True)
    except HeadraceError as error:
        print(error.message, file=sys.stderr)
    except Exception as error:
        print(_cause(error), file=sys.stderr)
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
