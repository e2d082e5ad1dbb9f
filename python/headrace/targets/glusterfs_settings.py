"""GlusterFS settings that can change on a running volume: caches, read-ahead, threads.

Each is an option of the target and can be a factor. They are read back from the volume, and the
read-ahead of the FUSE mounts from the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError, UnsupportedLevelError
from headrace.system.servers.glusterfs import Volume
from headrace.system.storage_settings import StorageSettings
from headrace.targets import Setting

VOLUME_OPTIONS: dict[str, tuple[str, type]] = {
    "io_cache": ("performance.io-cache", bool),
    "cache_size": ("performance.cache-size", int),
    "quick_read": ("performance.quick-read", bool),
    "volume_read_ahead": ("performance.read-ahead", bool),
    "read_ahead_pages": ("performance.read-ahead-page-count", int),
    "write_behind": ("performance.write-behind", bool),
    "write_behind_window": ("performance.write-behind-window-size", int),
    "open_behind": ("performance.open-behind", bool),
    "stat_prefetch": ("performance.stat-prefetch", bool),
    "readdir_ahead": ("performance.readdir-ahead", bool),
    "io_threads": ("performance.io-thread-count", int),
    "client_threads": ("performance.client-io-threads", bool),
    "ping_timeout": ("network.ping-timeout", float),
}
"""Gluster's name and our type of each option field. Source: `gluster volume set help`."""
NAMES = frozenset({*VOLUME_OPTIONS, "read_ahead"})

_FACTORS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


def value_of(text: str, kind: type) -> bool | int | float | str:
    """Convert a value that Gluster prints to `kind`; Gluster's KB and MB are binary. Return the
    text unchanged if it is no such value."""
    word = text.strip()
    if kind is bool:
        return {
            **dict.fromkeys(("on", "yes", "true", "enable", "1"), True),
            **dict.fromkeys(("off", "no", "false", "disable", "0"), False),
        }.get(word.lower(), word)
    match = re.fullmatch(r"([\d.]+)\s*([KMGT]?B)?(?:ytes)?", word)
    if match is None:
        return word
    number = float(match.group(1)) * _FACTORS[match.group(2) or ""]
    return int(number) if kind is int else number


def word_of(value: Any) -> str:
    """Return a value in Gluster's notation."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


@dataclass
class VolumeSettings:
    """Sets, reads and restores the settings of one volume and of its clients' mounts."""

    volume: Volume
    clients: Sequence[tuple[StorageSettings, Path]]
    """Where the volume is mounted on each node, and what sets that mount."""

    def __post_init__(self) -> None:
        self._before = self.read()
        self._changed: set[str] = set()
        self._read_ahead: int | None = None

    def read(self) -> dict[str, object]:
        """Return the current value of every setting."""
        said = self.volume.get_all()
        found: dict[str, object] = {
            name: value_of(said[option], kind) if option in said else None
            for name, (option, kind) in VOLUME_OPTIONS.items()
        }
        sizes = {node.read_settings(str(place))["read_ahead"] for node, place in self.clients}
        found["read_ahead"] = sizes.pop() if len(sizes) == 1 else None
        return found

    def apply(self, options: Any) -> list[Setting]:
        """Apply the requested settings (None: the original value) and read each one back."""
        asked = {name: getattr(options, name) for name in sorted(NAMES)}
        reasons: dict[str, str] = {}
        for name, value in asked.items():
            try:
                self._set(name, value)
            except HeadraceError as error:
                reasons[name] = error.message
            except OSError as error:
                reasons[name] = str(error)
        wanted = {name: value for name, value in asked.items() if value is not None}
        if not wanted:
            return []
        after = self.read()
        return [
            _setting(name, value, self._before[name], after[name], reasons.get(name))
            for name, value in wanted.items()
        ]

    def _set(self, name: str, value: Any) -> None:
        if name == "read_ahead":
            self._set_read_ahead(value)
            return
        option, kind = VOLUME_OPTIONS[name]
        if value is not None:
            # Gluster accepts any word for some of its numbers
            if not isinstance(value, (kind, int)):
                raise HeadraceError(f"{name} is no {kind.__name__}: {value!r}")
            self._changed.add(name)
            self.volume.set(option, word_of(value))
        elif name in self._changed:
            self.volume.reset(option)
            self._changed.discard(name)

    def _set_read_ahead(self, size: int | None) -> None:
        self._read_ahead = size
        self.restore()
        if size is None:
            return
        for node, place in self.clients:
            (applied,) = node.apply_settings(str(place), {"read_ahead": size})
            if applied.reason:
                raise UnsupportedLevelError(applied.reason)

    def mounted_anew(self) -> None:
        """Set the requested read-ahead on new mounts."""
        self._set_read_ahead(self._read_ahead)

    def restore(self) -> None:
        """Restore what outlives the volume: the mounts' read-ahead. Safe to call twice.

        Raises HeadraceError that names what could not be restored.
        """
        failed: list[str] = []
        for node, place in self.clients:
            try:
                node.restore_settings(str(place))
            except HeadraceError as error:
                failed.append(error.message)
        if failed:
            raise HeadraceError("; ".join(failed), hint="headrace undo")


def _setting(name: str, asked: Any, before: Any, after: Any, reason: str | None) -> Setting:
    if reason is None and after != asked:
        reason = f"asked for {asked}, the volume says {after}"
    return Setting(name, asked, before, after, applied=reason is None, reason=reason or "")
