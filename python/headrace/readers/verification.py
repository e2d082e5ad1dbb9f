"""Compares what was read with the manifest that a data set has beside its files."""

from __future__ import annotations

import json
from pathlib import Path

import xxhash

from headrace.datasets.integrity import MANIFEST, checksum, read_manifest
from headrace.errors import HeadraceError
from headrace.readers.counted_source import is_url
from headrace.readers.remote import filesystem_of


def verify(events_by_file: dict[str, int], *, whole: bool) -> None:
    """Raises HeadraceError unless sizes and contents, and with `whole` the events read, are those of the manifest."""
    for file, events in events_by_file.items():
        if is_url(file):
            _verify_remote(file, events, whole=whole)
            continue
        path = Path(file)
        if not (path.parent / MANIFEST).exists():
            continue
        known = {str(entry["name"]): entry for entry in read_manifest(path.parent).files}
        entry = known.get(path.name)
        if entry is None:
            raise HeadraceError(f"{file}: not in the data set's manifest")
        if path.stat().st_size != entry["bytes"]:
            raise HeadraceError(
                f"{file}: {path.stat().st_size} bytes instead of the manifest's {entry['bytes']}"
            )
        if whole and events != entry["events"]:
            raise HeadraceError(f"{file}: {events} events read instead of the manifest's {entry['events']}")
        if checksum(path) != entry["xxh3"]:
            raise HeadraceError(f"{file}: contents differ from the manifest's checksum")


def _verify_remote(url: str, events: int, *, whole: bool) -> None:
    """The same for a file that is reached by URL: the manifest lies beside it, and the contents are fetched once more."""
    filesystem, path = filesystem_of(url)
    folder, _, name = path.rpartition("/")
    try:
        said = json.loads(filesystem.cat_file(f"{folder}/{MANIFEST}"))
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise HeadraceError(f"{url}: the manifest beside it cannot be read: {error}") from error
    entry = next((each for each in said["files"] if each["name"] == name), None)
    if entry is None:
        raise HeadraceError(f"{url}: not in the data set's manifest")
    if whole and events != entry["events"]:
        raise HeadraceError(f"{url}: {events} events read instead of the manifest's {entry['events']}")
    digest, size = xxhash.xxh3_128(), 0
    try:
        with filesystem.open(path, "rb") as file:
            while piece := file.read(4 << 20):
                digest.update(piece)
                size += len(piece)
    except OSError as error:
        raise HeadraceError(f"{url}: cannot be read again to verify it: {error}") from error
    if size != entry["bytes"]:
        raise HeadraceError(f"{url}: {size} bytes instead of the manifest's {entry['bytes']}")
    if digest.hexdigest() != entry["xxh3"]:
        raise HeadraceError(f"{url}: contents differ from the manifest's checksum")
