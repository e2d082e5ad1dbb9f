"""What is wrong with a file that is no ROOT file, or that cannot be read."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError

_HEAD = struct.Struct(">4xi4x8s")
"""The first fields of a ROOT file: version, begin, end."""
_LARGE = 1_000_000
"""Files larger than 2 GB have 64 bits of the end, and this added to their version."""


def check_head(path: Path) -> None:
    """Raise HeadraceError for a file that is empty, does not begin as ROOT's do, or is truncated.

    uproot names neither: it fails where it misses bytes.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD.size)
    size = path.stat().st_size
    if not size:
        raise HeadraceError(f"{path}: is empty")
    if not head.startswith(b"root"):
        raise HeadraceError(f'{path}: no ROOT file: it does not begin with "root"')
    if len(head) < _HEAD.size:
        raise HeadraceError(f"{path}: truncated: {size} bytes long")
    version, place = _HEAD.unpack(head)
    end = int.from_bytes(place if version >= _LARGE else place[:4], "big")
    if size < end:
        raise HeadraceError(f"{path}: truncated: {size} bytes long, but its header says {end}")


def damaged(path: Path, error: BaseException) -> HeadraceError:
    """Return the problem of a file that uproot cannot open."""
    return HeadraceError(f"{path}: no ROOT file, or damaged: {first_line(error)}")


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's text, or its type when it has none.

    uproot puts a list of what it had read before the cause.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines[:1] == ["while reading"]:
        lines = [line for line in lines if not line.startswith("in ")][-1:]
    return (lines or [type(error).__name__])[0][:200]


def unreadable(handle: Any, name: str, error: BaseException) -> HeadraceError:
    """Return the problem of a tree that uproot cannot read."""
    path = Path(str(handle.file.file_path))
    cause = _overwritten(handle, path, name) or first_line(error)
    return HeadraceError(f"{path}: tree {name} cannot be read: {cause}")


def _overwritten(handle: Any, path: Path, name: str) -> str:
    """Return what it means when something else is where a tree is said to be; empty when not.

    ROOT writes a tree that grows to a new place and reuses the old one, and names the new place
    in the header and the folder when the file is closed.
    """
    try:
        key: Any = handle.key(name)
        place, size = int(key.fSeekKey), int(key.fNbytes)
        with path.open("rb") as file:
            file.seek(place)
            if int.from_bytes(file.read(4), "big") == size:
                return ""
    except Exception:  # the folder cannot be read either, or the path is a URL
        return ""
    return (
        f"other data has its place (byte {place:,}): the file was copied while a program wrote it, "
        "or that program was killed; copy the file after it is closed"
    )


def unclosed(handle: Any) -> str:
    """Return a note that a file without trees was not closed; empty when it was."""
    closed = int(handle.file.fNbytesFree) > 0
    note = ": it was copied while a program wrote it, or that program was killed"
    return "" if closed else note
