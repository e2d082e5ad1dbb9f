"""Where the control groups of a process are, and which processes are in them.

A watch asks this for every job every ten seconds, so the mount table is read once for all of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from headrace.system.accounting import CounterFile
from headrace.system.mounts import Mount, read_mounts

_MOUNTS_S = 9.0
"""Age at which the mount table is read again."""
_ONE_LOOK_S = 0.02
"""Within this time a group keeps its processes."""
_LINKS_OF_A_LEAF = 2
"""A directory has one link more for each one in it."""


class _GroupMounts:
    """The mounts of control groups of this machine."""

    def __init__(self) -> None:
        self._read_s = -1e9
        self._found: list[Mount] = []

    def look(self) -> list[Mount]:
        now_s = time.monotonic()
        if now_s - self._read_s > _MOUNTS_S:
            self._read_s = now_s
            self._found = [each for each in read_mounts() if each.filesystem[:6] == "cgroup"]
        return self._found


_mounts = _GroupMounts()


def groups_of(pid: int) -> dict[str, str]:
    """Return the paths of a process's control groups by controller, of version 2 by "".

    Raises OSError when it has ended.
    """
    found: dict[str, str] = {}
    with CounterFile(f"/proc/{pid}/cgroup", 65536) as file:
        for line in file.read().decode(errors="surrogateescape").splitlines():
            _, names, path = line.split(":", 2)
            for name in names.split(","):
                found[name] = path
    return found


def directory_of(groups: dict[str, str], controller: str) -> Path | None:
    """Return the directory of a process's group of version 1, or of version 2 for "".

    None for the topmost group, and where it is not mounted.
    """
    path = groups.get(controller, "/")
    kind = "cgroup" if controller else "cgroup2"
    if path == "/":
        return None
    for mount in _mounts.look():
        if mount.filesystem == kind and (not controller or controller in mount.super_options):
            return mount.directory / path.removeprefix(mount.root).lstrip("/")
    return None


class _Members:
    """The processes of a group and of those below it. Jobs that are looked at one after the other
    are often in one group."""

    def __init__(self) -> None:
        self._read_s = -1e9
        self._known: dict[Path, frozenset[int]] = {}

    def of(self, group: Path) -> frozenset[int]:
        now_s = time.monotonic()
        if now_s - self._read_s > _ONE_LOOK_S:
            self._read_s = now_s
            self._known.clear()
        if group not in self._known:
            self._known[group] = frozenset(_inside(group))
        return self._known[group]


_members = _Members()


def has_only(group: Path, pids: Collection[int]) -> bool:
    """Return whether a group and those below it have processes, and no others than these."""
    inside = _members.of(group)
    return bool(inside) and len(inside) <= len(pids) and all(pid in pids for pid in inside)


class GroupProcesses:
    """The processes of control groups and of those below them, from files that stay open."""

    def __init__(self) -> None:
        self._files: dict[Path, tuple[CounterFile, int]] = {}
        """With a descriptor of the directory."""

    def processes(self, group: Path) -> list[int]:
        """Return the processes of a group and of those below it; empty when it is gone."""
        try:
            if group not in self._files:
                folder = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                self._files[group] = CounterFile(group / "cgroup.procs"), folder
            file, folder = self._files[group]
            if os.fstat(folder).st_nlink != _LINKS_OF_A_LEAF:
                return [*_inside(group)]
            return [*map(int, file.read_whole().split())]
        except OSError:
            return []

    def close(self) -> None:
        """Safe to call twice."""
        for file, folder in self._files.values():
            file.close()
            os.close(folder)
        self._files.clear()


def _inside(group: os.PathLike[str]) -> Iterator[int]:
    waiting = [os.fspath(group)]
    while waiting:
        folder = waiting.pop()
        try:
            with CounterFile(f"{folder}/cgroup.procs") as file:
                inside = file.read_whole().split()
            yield from map(int, inside)
            if os.stat(folder).st_nlink != _LINKS_OF_A_LEAF:  # noqa: PTH116 - at every look
                with os.scandir(folder) as entries:
                    waiting.extend(each.path for each in entries if each.is_dir())
        except OSError:
            continue
