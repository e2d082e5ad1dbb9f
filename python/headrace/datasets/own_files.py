"""The user's own ROOT files as a data set: `data = { files = ["nano/*.root"] }`.

Headrace never writes to these files. Jobs read them in place when they are in the target's
directory, and copies of them otherwise.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, cast
from urllib.parse import unquote

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, field_validator

from headrace.errors import HeadraceError

_LISTS = (".txt", ".list")
"""Endings of lists of files."""
_FILE_URL = re.compile(r"file:(?:///|//localhost/|/(?!/))", re.IGNORECASE)

_MOST_NAME = 100
"""Maximum length of the name of a copy, in characters."""


@dataclass(frozen=True)
class OwnFile:
    """One file of the user."""

    path: Path
    name: str
    """Name of the copy: the file's own, made valid on all storage and unique in the data set."""
    state: tuple[int, int, int]
    """Inode, size, modification time (ns): they change when the file is replaced or written."""

    @property
    def bytes(self) -> int:
        """Size of the file."""
        return self.state[1]

    @property
    def source(self) -> dict[str, object]:
        """Path and state, in the manifest's form."""
        return {"path": str(self.path), "state": list(self.state)}


def _one_is_a_list(files: object) -> object:
    return [files] if isinstance(files, str) else files


_TEXT = {"type": "string", "minLength": 1}
_Files = Annotated[
    tuple[str, ...],
    BeforeValidator(_one_is_a_list),
    WithJsonSchema({"anyOf": [_TEXT, {"type": "array", "minItems": 1, "items": _TEXT}]}),
]


class OwnFiles(BaseModel):
    """ROOT files of the user's own, instead of a generated data set."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    files: _Files = Field(
        description="ROOT files of your own: paths, patterns with * and **, directories, of which "
        "the *.root files are taken, or lists (*.txt, a path in each line); relative ones are "
        "relative to the study file",
        examples=[["nano/*.root"]],
    )
    tree: str | None = Field(
        None,
        min_length=1,
        description="name of the TTree or RNTuple, with its directory in the file; when not given, "
        "the only one, that of a well-known name (Events, CollectionTree, events …), or the only "
        "one with events",
    )

    @field_validator("files")
    @classmethod
    def _paths(cls, files: tuple[str, ...]) -> tuple[str, ...]:
        if not files:
            raise ValueError("must not be empty")
        files = tuple(local_path(file) for file in files)
        for file in files:
            if not file.strip():
                raise ValueError("the name of a file must not be empty")
            if "://" in file:
                raise ValueError(
                    f"{file} is a URL; name files of this machine, which are copied to the target"
                )
        return files

    @property
    def key(self) -> str:
        """A name for these files, which stays the same when their contents change."""
        text = json.dumps({"files": self.files, "tree": self.tree})
        return f"own-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def find(self) -> list[OwnFile]:
        """Return the current files in the order listed; files of a pattern are sorted by name.

        Raises HeadraceError when a path or pattern matches no regular file.
        """
        # A file is read once, whatever number of names and links lead to it.
        found: dict[Path, Path] = {}
        for path in (path for text in self.files for path in expanded(text)):
            found.setdefault(path.resolve(), path)
        paths = list(found.values())
        states = [state_of(path) for path in paths]
        return [
            OwnFile(path, name, state)
            for path, name, state in zip(paths, copy_names(paths), states, strict=True)
        ]

    def lie_in(self, directory: Path) -> bool:
        """Return whether all files are in or below a directory.

        Raises HeadraceError as `find` does.
        """
        root = directory.resolve()
        return all(file.path.is_relative_to(root) for file in self.find())


def typical(files: Sequence[OwnFile]) -> OwnFile:
    """Return the file whose size is nearest to the mean, as the representative of all."""
    mean = sum(file.bytes for file in files) / len(files)
    return min(files, key=lambda file: (abs(file.bytes - mean), file.name))


def anchored_files(data: object, anchored: Callable[[str], str]) -> object:
    """Return `data` as written in a study, with absolute paths of the user's files."""
    if not isinstance(data, dict):
        return data
    table = cast("dict[str, object]", data)
    files = _one_is_a_list(table.get("files"))
    if not isinstance(files, list):
        return table
    texts = cast("list[object]", files)
    texts = [local_path(text) if isinstance(text, str) else text for text in texts]
    named = [anchored(text) if isinstance(text, str) and _is_path(text) else text for text in texts]
    return {**table, "files": named if isinstance(table["files"], list) else named[0]}


def _is_path(text: str) -> bool:
    return bool(text.strip()) and "://" not in text


def local_path(text: str) -> str:
    """Return the path of a URL of this machine (`file:///a%20b.root`); another text unchanged."""
    found = _FILE_URL.match(text)
    if found is None:
        return text
    path = text[found.end() - 1 :]
    # ROOT and uproot take the characters as they are; RFC 8089 wants %20 for a space.
    return path if os.path.lexists(path) else unquote(path)


def expanded(text: str) -> list[Path]:
    """Return the files of a path, a pattern, a directory or a list.

    Raises HeadraceError when there are none.
    """
    path = Path(text)
    if path.suffix.lower() in _LISTS and path.is_file():
        return _listed(path)
    if path.is_dir():
        found = sorted(file for file in path.glob("*.root") if _is_there(file))
        if not found:
            raise HeadraceError(f"{text}: no *.root file in this directory")
        return found
    if os.path.lexists(path) or not glob.has_magic(text):
        return [path]
    # Path.glob does not accept absolute patterns.
    found = sorted(Path(name) for name in glob.glob(text, recursive=True) if _is_there(Path(name)))  # noqa: PTH207
    if not found:
        raise HeadraceError(f"{text}: no file matches this pattern")
    return found


def _is_there(path: Path) -> bool:
    """Return whether a path is a file, or a link to nothing, which is to be named as missing."""
    return path.is_file() or not path.exists()


def _listed(path: Path) -> list[Path]:
    """Return the files that a list names, a path or pattern in each line, relative to the list."""
    found: list[Path] = []
    try:
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError as error:
        raise HeadraceError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    if lines and lines[0].startswith("root\0"):
        return [path]  # a ROOT file of that name
    for number, line in enumerate(lines, 1):
        text = local_path(line.strip())
        if not text or text.startswith("#"):
            continue
        where = f"{path}, line {number}"
        if "://" in text:
            raise HeadraceError(f"{where}: {text} is a URL; name files of this machine")
        if Path(text).suffix.lower() in _LISTS:
            raise HeadraceError(f"{where}: {text} is a list; name ROOT files")
        try:
            found += expanded(str(path.parent / Path(text).expanduser()))
        except HeadraceError as error:
            raise HeadraceError(f"{where}: {error.message}") from error
    if not found:
        raise HeadraceError(f"{path}: this list names no file")
    return found


def copy_names(paths: Sequence[Path]) -> list[str]:
    """Return a unique name for the copy of each file, valid on every storage.

    File systems and URLs allow different characters in names, and readers interpret some (`*`, `?`,
    `#`).
    """
    taken: set[str] = set()
    names: list[str] = []
    for number, path in enumerate(paths):
        stem, ending = (path.name[:-5], ".root") if path.name.endswith(".root") else (path.name, "")
        plain = re.sub(r"[^A-Za-z0-9._+=-]+", "_", stem).lstrip(".-")[:_MOST_NAME] or "file"
        name = f"{plain}{ending or '.root'}"
        while name in taken:
            name = f"{number:04d}-{name}"
        taken.add(name)
        names.append(name)
    return names


def state_of(path: Path) -> tuple[int, int, int]:
    """Return inode, size, modification time (ns). Raises HeadraceError unless a regular file."""
    try:
        status = path.stat()
    except OSError as error:
        said = "no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise HeadraceError(f"{path}: {str(said)[:1].lower()}{str(said)[1:]}") from error
    if not stat.S_ISREG(status.st_mode):
        raise HeadraceError(f"{path}: is not a file")
    return status.st_ino, status.st_size, status.st_mtime_ns
