"""Base layer: the layers of overlayfs, and which of them has a path.

Source: Documentation/filesystems/overlayfs.rst of the kernel. What is new or was changed is in the
upper layer; any other file is in the first lower layer that has it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from headrace.system.mounts import Mount

_SEPARATOR = re.compile(r"(?<!\\):")


def layers_of(mount: Mount) -> list[Path]:
    """Return the directories of the layers, the upper one first; none for other file systems.

    Names are those of the process that mounted it: another mount namespace, such as a container's,
    may not have them. Relative names are left out.
    """
    if mount.filesystem != "overlay":
        return []
    upper: list[str] = []
    lower: list[str] = []
    for option in mount.super_options:
        key, _, value = option.partition("=")
        if key == "upperdir":
            upper.append(value)
        elif key == "lowerdir":
            lower += (re.sub(r"\\(.)", r"\1", part) for part in _SEPARATOR.split(value))
        elif key == "lowerdir+":  # one layer per option
            lower.append(value)
    return [Path(layer) for layer in (*upper, *lower) if layer.startswith("/")]


def in_layer(mount: Mount, layer: Path, path: Path) -> Path:
    """Return where a layer would have a path of the overlay."""
    inside = path.relative_to(mount.directory) if path.is_relative_to(mount.directory) else ""
    return layer / mount.root.lstrip("/") / inside


def layers_with(mount: Mount, path: Path) -> list[Path]:
    """Return the layer that has a file, or all that have files in a directory.

    The upper one when there is none yet: what will be written goes there.
    """
    layers = layers_of(mount)
    if path.is_dir():
        found = [layer for layer in layers if _has_entries(in_layer(mount, layer, path))]
        # What jobs write into the directory goes into the upper layer.
        return list(dict.fromkeys([*layers[:1], *found]))
    found = [layer for layer in layers if os.path.lexists(in_layer(mount, layer, path))]
    return (found or layers)[:1]


def _has_entries(directory: Path) -> bool:
    try:
        with os.scandir(directory) as entries:
            return next(entries, None) is not None
    except OSError:
        return False
