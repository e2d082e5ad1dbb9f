"""Compare the files read with the manifest beside them."""

from __future__ import annotations

import json
from pathlib import Path

import xxhash

from headrace.datasets.integrity import MANIFEST, checksum, read_manifest
from headrace.errors import HeadraceError
from headrace.protocols import filesystem_of
from headrace.readers.counted_source import is_url


def verify(events_by_file: dict[str, int], *, whole: bool, key: str | None = None) -> None:
    """Raise HeadraceError unless sizes, contents and (with `whole`) events match the manifest.

    `key` is the key of the user's own files. Files that are read in place have no manifest of
    Headrace's; one beside them is ignored.
    """
    for file, events in events_by_file.items():
        if key is not None and not is_url(file) and Path(file).parent.name != key:
            continue
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
            raise HeadraceError(
                f"{file}: {events} events read instead of the manifest's {entry['events']}"
            )
        if checksum(path) != entry["xxh3"]:
            raise HeadraceError(f"{file}: contents differ from the manifest's checksum")


def _verify_remote(url: str, events: int, *, whole: bool) -> None:
    """Do the same for a file that is reached by URL; its contents are fetched once more."""
    filesystem, path = filesystem_of(url)
    folder, _, name = path.rpartition("/")
    try:
        # XRootD's client has no cat_file of a whole file.
        with filesystem.open(f"{folder}/{MANIFEST}", "rb") as manifest:
            said = json.loads(manifest.read())
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise HeadraceError(f"{url}: the manifest beside it cannot be read: {error}") from error
    entry = next((each for each in said["files"] if each["name"] == name), None)
    if entry is None:
        raise HeadraceError(f"{url}: not in the data set's manifest")
    if whole and events != entry["events"]:
        raise HeadraceError(
            f"{url}: {events} events read instead of the manifest's {entry['events']}"
        )
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
