"""Compares what was read with the manifest that a data set has beside its files."""

from __future__ import annotations

from pathlib import Path

from headrace.datasets.integrity import MANIFEST, checksum, read_manifest
from headrace.errors import HeadraceError


def verify(events_by_file: dict[str, int], *, whole: bool) -> None:
    """Raises HeadraceError unless sizes and contents, and with `whole` the events read, are those of the manifest."""
    for file, events in events_by_file.items():
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
