"""Whether a data set on disk is what its manifest says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash

from headrace.datasets.spec import DatasetSpec
from headrace.errors import HeadraceError

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """What a data set on disk is said to be."""

    spec: DatasetSpec
    files: list[dict[str, Any]]
    """A mapping a file: the fields of `FileFacts`."""

    @property
    def signal_selected(self) -> int:
        """Signal events whose four leptons were all reconstructed, identified and isolated: the yield to be found."""
        return sum(int(file["signal_selected"]) for file in self.files)

    @property
    def bytes_uncompressed(self) -> int:
        """Event data of all files in memory."""
        return sum(int(file["bytes_uncompressed"]) for file in self.files)


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a data set. Raises HeadraceError when there is none that can be read."""
    path = directory / MANIFEST
    try:
        content = json.loads(path.read_text())
        return Manifest(DatasetSpec.model_validate(content["spec"]), list(content["files"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HeadraceError(f"{path}: no manifest of a data set: {error}") from error


def faults(directory: Path, *, checksums: bool) -> list[str]:
    """What is wrong with a data set on disk against its manifest, a sentence each; empty when it is whole.

    Sizes are always compared. Contents are compared with `checksums`, which reads every byte; without it only those
    files are read whose time of change is not the one noted.
    """
    found: list[str] = []
    for file in read_manifest(directory).files:
        path = directory / str(file["name"])
        try:
            status = path.stat()
        except OSError:
            found.append(f"{path}: missing")
            continue
        if status.st_size != file["bytes"]:
            found.append(f"{path}: {status.st_size} bytes instead of {file['bytes']}")
        elif (checksums or status.st_mtime_ns != file["mtime_ns"]) and checksum(path) != file["xxh3"]:
            found.append(f"{path}: contents differ from the manifest's checksum")
    return found


def checksum(path: Path) -> str:
    """XXH3 of a file's bytes, 128 bits, hexadecimal."""
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
