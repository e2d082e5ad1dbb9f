"""Which storage holds a file of a recording."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.system import block_queue, devices
from headrace.system.mounts import IN_MEMORY, Mount, mount_of
from headrace.system.network_filesystems import recognise
from headrace.verdict.observation import StoragePlace

UNKNOWN = StoragePlace("unknown", "")


def places_of(paths: Iterable[str]) -> dict[str, StoragePlace]:
    """Return the place of each path that this machine can reach, else `UNKNOWN`."""
    by_folder: dict[Path, Mount | None] = {}
    by_key: dict[str, StoragePlace] = {}
    found: dict[str, StoragePlace] = {}
    for path in paths:
        if not path.startswith("/"):
            found[path] = UNKNOWN  # a hashed name
            continue
        # A directory that was synced may be where a filesystem is mounted.
        folder = Path(path) if os.path.isdir(path) else Path(path).parent  # noqa: PTH112
        mount = by_folder[folder] if folder in by_folder else _mount_of(folder)
        by_folder[folder] = mount
        # Two files of one folder of an overlay may be in different layers.
        key = path if mount is not None and mount.filesystem == "overlay" else str(folder)
        if key not in by_key:
            by_key[key] = UNKNOWN if mount is None else _place(mount, Path(key))
        found[path] = by_key[key]
    return found


def _mount_of(folder: Path) -> Mount | None:
    # Path.exists raises an error below a folder that may not be searched.
    while not os.path.exists(folder) and folder != folder.parent:  # noqa: PTH110
        folder = folder.parent
    try:
        return mount_of(folder)
    except HeadraceError:
        return None


def _place(mount: Mount, path: Path) -> StoragePlace:
    read_ahead = block_queue.read_read_ahead(mount)
    if recognise(mount) is not None or mount.filesystem.partition(".")[0] == "fuse":
        return StoragePlace("network", str(mount.directory), mount.filesystem, None, read_ahead)
    if mount.filesystem in IN_MEMORY:
        return StoragePlace("memory", mount.filesystem, mount.filesystem)
    names = devices.devices_of(mount, path)
    if not names:
        return StoragePlace("unknown", str(mount.directory), mount.filesystem, None, read_ahead)
    rotational = devices.describe(names[0]).rotational
    return StoragePlace("block", "+".join(names), mount.filesystem, rotational, read_ahead)
