"""Compare a data set on disk with its manifest.

`manifest.json` beside the files states the size and XXH3 checksum of each. `verified.json` states
which files (by inode, size and times) had that checksum when they were last read completely, so
that checking an unmodified file again costs one `stat`.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash

from headrace.datasets.own_files import OwnFiles
from headrace.datasets.spec import GENERATOR_VERSION, DatasetSpec
from headrace.errors import HeadraceError

MANIFEST = "manifest.json"
VERIFIED = "verified.json"
_PIECE_BYTES = 4 << 20

Tick = Callable[[], None]
"""Called every few MB during long work; raises to stop it."""


def no_tick() -> None:
    """Do nothing: the default `Tick`."""


@dataclass(frozen=True)
class Manifest:
    """The content of a manifest."""

    spec: DatasetSpec | OwnFiles
    files: list[dict[str, Any]]
    """One mapping per file: `FileFacts`, or `own_store.Facts` for the user's own files."""
    generator: int = GENERATOR_VERSION
    """Version of the generator that made the files."""

    @property
    def signal_selected(self) -> int:
        """Signal events whose four leptons were all reconstructed, identified and isolated."""
        return sum(int(file["signal_selected"]) for file in self.files)

    @property
    def bytes_uncompressed(self) -> int:
        """Size of the event data of all files in memory."""
        return sum(int(file["bytes_uncompressed"]) for file in self.files)


@dataclass(frozen=True)
class DamagedFile:
    """One file that differs from the manifest."""

    name: str
    text: str
    """A sentence, with the file's path."""


def read_manifest(directory: Path) -> Manifest:
    """Return the manifest of a data set. Raises HeadraceError when it is missing or unreadable."""
    path = directory / MANIFEST
    try:
        content = json.loads(path.read_text())
        files = [dict(file) for file in content["files"]]
        if not all({"name", "bytes", "events", "xxh3"} <= set(file) for file in files):
            raise ValueError("a file's facts are missing")
        own = content.get("own")
        spec = (
            DatasetSpec.model_validate(content["spec"])
            if own is None
            else OwnFiles.model_validate(own)
        )
        return Manifest(spec, files, int(content["generator"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HeadraceError(f"{path}: no manifest of a data set: {error}") from error


def manifest_of(directory: Path, spec: DatasetSpec | OwnFiles) -> Manifest | None:
    """Return a directory's manifest if it matches `spec` and the current generator, else None."""
    try:
        manifest = read_manifest(directory)
    except HeadraceError:
        return None
    if (manifest.spec, manifest.generator) != (spec, GENERATOR_VERSION):
        return None
    return manifest if isinstance(spec, OwnFiles) or len(manifest.files) == spec.files else None


def find_damage(
    directory: Path,
    *,
    checksums: bool,
    names: Collection[str] | None = None,
    tick: Tick = no_tick,
) -> list[DamagedFile]:
    """Compare the files of a data set with its manifest; return those that differ.

    Sizes are always compared. Contents are read and compared for every file with `checksums`,
    otherwise unless inode, size and times are those of the last successful check. `names` restricts
    the check to these files. Successful checks are recorded in `verified.json` where it is
    writable.
    """
    known = _noted(directory)
    noted = dict(known)
    found: list[DamagedFile] = []
    for file in read_manifest(directory).files:
        name = str(file["name"])
        if names is not None and name not in names:
            continue
        path = directory / name
        try:
            text = _difference(path, file, noted.get(name), checksums=checksums, tick=tick)
            if text is None:
                noted[name] = identity(path)
        except OSError as error:
            text = "missing" if isinstance(error, FileNotFoundError) else f"{error.strerror}"
        if text is not None:
            noted.pop(name, None)
            found.append(DamagedFile(name, f"{path}: {text}"))
    if noted != known:
        note_verified(directory, noted)
    return found


def _difference(
    path: Path, file: dict[str, Any], noted: list[int] | None, *, checksums: bool, tick: Tick
) -> str | None:
    size = path.stat().st_size
    if size != file["bytes"]:
        return f"{size} bytes instead of {file['bytes']}"
    if not checksums and noted == identity(path):
        return None
    if checksum(path, tick) != file["xxh3"]:
        return "contents differ from the manifest's checksum"
    return None


def identity(path: Path) -> list[int]:
    """Return inode, size, and times of data and inode (ns): they change when a file is modified."""
    status = path.stat()
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _noted(directory: Path) -> dict[str, list[int]]:
    try:
        content = json.loads((directory / VERIFIED).read_text())
        return {str(name): [int(number) for number in numbers] for name, numbers in content.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def note_verified(directory: Path, identities: dict[str, list[int]]) -> None:
    """Record files that have the manifest's checksum. Does nothing in a read-only directory."""
    partial = directory / f".{VERIFIED}-{os.getpid()}"
    with contextlib.suppress(OSError):
        try:
            partial.write_text(json.dumps(identities))
            partial.replace(directory / VERIFIED)
        except OSError:
            partial.unlink(missing_ok=True)
            raise


def note_right(directory: Path, names: Iterable[str]) -> None:
    """Record files that this process has just written and checksummed."""
    noted = _noted(directory)
    note_verified(directory, {**noted, **{name: identity(directory / name) for name in names}})


def checksum(path: Path, tick: Tick = no_tick) -> str:
    """Return the XXH3 checksum of a file: 128 bits, hexadecimal."""
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while block := file.read(_PIECE_BYTES):
            digest.update(block)
            tick()
    return digest.hexdigest()
