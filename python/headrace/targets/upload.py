"""Upload files to storage that is reached by URL, compare, read and remove them.

A separate process, so that it can run on a cluster node.

    python -m headrace.targets.upload URL FILE…
        upload the files and print a JSON line per file: its URL
    python -m headrace.targets.upload --try URL
        test writing: write a small file of this name, read it back and remove it
    python -m headrace.targets.upload --reach URL
        ask the server whether the URL can be used; changes nothing
    python -m headrace.targets.upload --compare URL FILE…
        print a JSON line per file: whether it is complete on the storage
    python -m headrace.targets.upload --read URL…
        read files whole, so that servers have them in memory as far as they fit
    python -m headrace.targets.upload --remove URL
        remove a folder with its contents; it need not exist
    python -m headrace.targets.upload --unfinished URL TOKEN NOTE
        remove what the uploads of a run that was killed left in a folder; complete files and the
        uploads of others stay. TOKEN: its value of `TOKEN`; NOTE: its file of ids (`UPLOADS_NOTE`)

A file that is complete on the storage stays. Complete means that its size matches and, when all
files together are no larger than `COMPARED_BYTES`, that its contents match too; these are read
back. Files are written under another name and renamed when complete, where the protocol can rename.
SIGTERM leaves no partial file.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import IO, Any

from headrace.errors import HeadraceError
from headrace.protocols import filesystem_of, protocol_of
from headrace.protocols.causes import cause_of
from headrace.system.ending import end_without_search

_PIECE_BYTES = 4 << 20
TOKEN = "HEADRACE_UPLOAD_TOKEN"
"""Environment variable: what the names of files end with while they are uploaded."""
COMPARED_BYTES = 2 << 30
"""Up to this size, existing data sets are read back and compared with the cache."""


def upload(folder: str, file: Path, *, compare: bool = True) -> str:
    """Upload one file to a folder and return its URL.

    Raises OSError and the protocol client's exceptions.

    An existing file of the same size stays; with `compare`, only when its contents match too.
    """
    url = f"{folder}/{file.name}"
    if is_there(folder, file, compare=compare):
        return url
    filesystem, path = filesystem_of(url)
    # An object is visible only when complete, and cannot be renamed.
    renames = not protocol_of(url).objects
    place = partial_name(path, os.environ.get(TOKEN) or str(os.getpid())) if renames else path
    if renames:
        filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
    try:
        with file.open("rb") as source:
            _written(source, filesystem.open(place, "wb"))
        if renames:
            with contextlib.suppress(FileNotFoundError):
                filesystem.rm(path)
            filesystem.mv(place, path)
    except BaseException:
        if renames:
            with contextlib.suppress(Exception):
                filesystem.rm(place)
        raise
    return url


def partial_name(path: str, token: str) -> str:
    """Return the path of a file while it is uploaded."""
    return f"{path}.partial-{token}"


def _written(source: IO[bytes], target: Any) -> None:
    """Copy to a file and close it. An object does not appear if this is interrupted."""
    try:
        while piece := source.read(_PIECE_BYTES):
            target.write(piece)
    except BaseException:
        if hasattr(target, "discard"):
            with contextlib.suppress(Exception):
                target.discard()
            target.closed = True  # to close it would complete an object that is cut short
        raise
    target.close()


def is_there(folder: str, file: Path, *, compare: bool = True) -> bool:
    """Return whether a folder has the complete file: its size and, with `compare`, its contents."""
    filesystem, path = filesystem_of(f"{folder}/{file.name}")
    try:
        if filesystem.info(path)["size"] != file.stat().st_size:
            return False
        if not compare:
            return True
        with file.open("rb") as near, filesystem.open(path, "rb") as far:
            while piece := near.read(_PIECE_BYTES):
                if far.read(len(piece)) != piece:
                    return False
    except OSError:
        # XRootD's client reports a missing file only as OSError. Any other cause will show when
        # writing.
        return False
    return True


def read_whole(url: str) -> None:
    """Read a file to its end. Raises HeadraceError."""
    try:
        filesystem, path = filesystem_of(url)
        with filesystem.open(path, "rb") as file:
            while file.read(_PIECE_BYTES):
                pass
    except HeadraceError:
        raise
    except Exception as error:
        raise HeadraceError(f"{url}: {cause_of(error)}") from error


def try_writing(url: str) -> None:
    """Write a small file, read it back, of an object also a range, and remove it."""
    filesystem, path = filesystem_of(url)
    objects = protocol_of(url).objects
    if not objects:
        filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
    with filesystem.open(path, "wb") as file:
        file.write(b"headrace")
    try:
        read = filesystem.cat_file(path)
        # Jobs read ranges: a server that ignores them is found before the data set is copied.
        part = filesystem.cat_file(path, start=4, end=6) if objects else b"ra"
    finally:
        filesystem.rm(path)
    if (read, part) != (b"headrace", b"ra"):
        raise OSError("what was written is not what is read")


def remove(folder: str) -> None:
    """Remove a folder and its contents, if it exists."""
    protocol = protocol_of(folder)
    if protocol.removed_on_servers(folder):
        return
    filesystem, path = filesystem_of(folder)
    with contextlib.suppress(FileNotFoundError):
        if filesystem.exists(path):
            filesystem.rm(path, recursive=True)
    with contextlib.suppress(OSError):  # not every server can list them
        protocol.drop_unfinished(folder)


def remove_unfinished(folder: str, token: str, note: Path) -> None:
    """Remove what the uploads of a run that was killed left in a folder."""
    filesystem, path = filesystem_of(folder)
    protocol = protocol_of(folder)
    if protocol.objects:
        ids = note.read_text().split() if note.is_file() else []
        if ids:
            protocol.drop_unfinished(folder, ids)
        note.unlink(missing_ok=True)
        return
    with contextlib.suppress(FileNotFoundError):
        for name in filesystem.ls(path, detail=False):
            if str(name).endswith(partial_name("", token)):
                filesystem.rm(str(name))


def reach(url: str) -> None:
    """Ask the server whether a URL can be used, without a change."""
    protocol_of(url).reach(url)


def _unwind(*_: object) -> None:
    sys.exit(128 + signal.SIGTERM)


def _do(task: str, words: list[str]) -> None:
    alone = {
        "--try": try_writing,
        "--reach": reach,
        "--read": read_whole,
        "--remove": remove,
    }
    if task in alone:
        for url in words:
            alone[task](url.rstrip("/"))
        return
    if task == "--unfinished":
        remove_unfinished(words[0].rstrip("/"), words[1], Path(words[2]))
        return
    folder, files = words[0].rstrip("/"), [Path(name) for name in words[1:]]
    compare = sum(file.stat().st_size for file in files) <= COMPARED_BYTES
    for file in files:
        if task == "--compare":
            print(json.dumps({"whole": is_there(folder, file, compare=compare)}), flush=True)
        else:
            print(json.dumps({"url": upload(folder, file, compare=compare)}), flush=True)


def main() -> int:
    """Run the process. Return 0, or 1 after an error reported on standard error."""
    end_without_search()
    # SIGTERM unwinds the stack, so that no partial file is left.
    signal.signal(signal.SIGTERM, _unwind)
    task = sys.argv[1] if sys.argv[1].startswith("--") else ""
    try:
        _do(task, sys.argv[1 + bool(task) :])
    except HeadraceError as error:
        print(error.message, file=sys.stderr)
    except Exception as error:
        print(cause_of(error), file=sys.stderr)
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
