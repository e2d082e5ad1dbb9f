"""Paths that are relative to folders of which a trace does not tell the name.

Such a path is `\\0N/PATH` until the trace tells the folder's name: no name has the character NUL. N
is the number of the folder.
"""

from __future__ import annotations

import os

_MARK = "\0"
_HERE = "."


class UnnamedFolders:
    """The folders that a trace names late or never."""

    def __init__(self) -> None:
        self._count = 0
        self._names: dict[str, str] = {}

    def new(self) -> str:
        """Return a folder without a name."""
        self._count += 1
        return f"{_MARK}{self._count}/{_HERE}"

    def learn(self, folder: str, name: str) -> bool:
        """Note the absolute name of a folder; return whether that of an unnamed one follows."""
        root, _, below = folder.partition("/")
        if not folder.startswith(_MARK) or root in self._names:
            return False
        if below == _HERE:
            self._names[root] = name
        elif name.endswith(f"/{below}") and not below.startswith(".."):
            self._names[root] = name.removesuffix(f"/{below}") or "/"
        return root in self._names

    def resolved(self, path: str) -> str:
        """Return a path with what has been learnt."""
        root, _, below = path.partition("/")
        return path if root not in self._names else joined(self._names[root], below)


def joined(folder: str, path: str) -> str:
    """Return a path below a folder, in its shortest form."""
    if path.startswith("/"):
        return os.path.normpath(path)
    if folder.startswith(_MARK):
        root, _, below = folder.partition("/")
        return f"{root}/{os.path.normpath(f'{below}/{path}')}"
    return os.path.normpath(f"{folder}/{path}")


def shown(path: str) -> str:
    """Return a path for people: relative, if its folder has no name."""
    return path.partition("/")[2] if path.startswith(_MARK) else path
