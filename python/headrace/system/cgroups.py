"""Ground: control groups, version 1 and 2: finding our own, making one below it, and the memory limit for jobs.

A group is made next to or below our own, so that limits that stand around us (a container, a batch job) still hold.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError, MissingError, UnsupportedLevelError
from headrace.system.mounts import Mount, read_mounts

if TYPE_CHECKING:
    from headrace.system.journal import Entry, Journal


@dataclass(frozen=True)
class Hierarchy:
    """Where a controller is to be had, and our own group in it."""

    version: int
    top: Path
    """Where the hierarchy is mounted."""
    own: Path
    """The group that this process is in."""


def _own_group(mount: Mount, controller: str) -> Path:
    wanted = "" if mount.filesystem == "cgroup2" else controller
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if (wanted in names.split(",")) if wanted else not names:
            # In a container the mount may show a part of the tree only, and the path count from its top or from ours.
            relative = path.removeprefix(mount.root) if mount.root != "/" else path
            group = mount.directory / relative.lstrip("/")
            return group if group.is_dir() else mount.directory
    return mount.directory


def hierarchy(controller: str) -> Hierarchy | None:
    """The hierarchy that has a controller (`memory`, `blkio` in version 1, `io` in version 2), or None."""
    for mount in read_mounts():
        if mount.filesystem == "cgroup" and controller in mount.super_options:
            return Hierarchy(1, mount.directory, _own_group(mount, controller))
        if mount.filesystem == "cgroup2":
            with contextlib.suppress(OSError):
                if controller in (mount.directory / "cgroup.controllers").read_text().split():
                    return Hierarchy(2, mount.directory, _own_group(mount, controller))
    return None


def make_group(journal: Journal, controller: str) -> tuple[Path, list[Entry]]:
    """Makes a group under the control of `controller`; undoing its entries (last first) removes it.

    Raises MissingError with the reason where it cannot be had.
    """
    place = hierarchy(controller)
    if place is None:
        raise MissingError(
            f"this machine has no {controller} control group", hint=f"mount the {controller} control group"
        )
    entries: list[Entry] = []
    parent = place.own
    try:
        if place.version == 2:
            # A group with processes in it cannot hand controllers on (the "no internal processes" rule): go beside it.
            parent = place.own.parent if place.own != place.top else place.top
            control = parent / "cgroup.subtree_control"
            if controller not in control.read_text().split():
                entries.append(journal.begin("write_setting", path=str(control), value=f"-{controller}"))
                control.write_text(f"+{controller}")
        group = parent / f"headrace-{os.getpid()}-{os.urandom(4).hex()}"
        entries.append(journal.begin("remove_cgroup", path=str(group)))
        group.mkdir()
    except OSError as error:
        for entry in reversed(entries):
            journal.undo(entry)
        needs = "needs root" if isinstance(error, PermissionError) else f"is refused here: {error.strerror}"
        raise MissingError(
            f"making a {controller} control group below {parent} {needs}", hint="run as root"
        ) from error
    return group, entries


class MemoryLimit:
    """A bound on the memory of jobs and of the page cache that they fill. Processes are added by id, once started;
    their children are in it by themselves.

    Raises MissingError where memory control groups cannot be had, UnsupportedLevelError when the kernel takes another
    value than asked.
    """

    def __init__(self, journal: Journal, size: int) -> None:
        self._journal = journal
        self.size = size
        self.group, self._entries = make_group(journal, "memory")
        try:
            self._set(size)
        except BaseException:
            self.close()
            raise

    @property
    def _file(self) -> Path:
        modern = self.group / "memory.max"
        return modern if modern.exists() else self.group / "memory.limit_in_bytes"

    def _set(self, size: int) -> None:
        try:
            self._file.write_text(str(size))
        except OSError as error:
            raise UnsupportedLevelError(
                f"the kernel takes no memory limit of {size} bytes: {error.strerror}"
            ) from error
        page = os.sysconf("SC_PAGESIZE")
        if self.read() != size // page * page:
            raise UnsupportedLevelError(
                f"asked for a memory limit of {size} bytes, the kernel set {self.read()}"
            )

    def read(self) -> int:
        """The limit in bytes as it stands (whole pages)."""
        return int(self._file.read_text())

    def add(self, pid: int) -> None:
        """Puts a process under the limit, with its threads; what it has allocated before is not counted."""
        try:
            (self.group / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            raise HeadraceError(
                f"process {pid} cannot be put under the memory limit: {error.strerror}"
            ) from error

    def killed(self) -> int:
        """How many processes the kernel has killed because the limit was reached."""
        for name in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError):
                for line in (self.group / name).read_text().splitlines():
                    key, _, value = line.partition(" ")
                    if key == "oom_kill":
                        return int(value)
        return 0

    def peak_bytes(self) -> int | None:
        """The most memory that was in use under the limit, page cache included; None when the kernel does not say."""
        for name in ("memory.peak", "memory.max_usage_in_bytes"):
            with contextlib.suppress(OSError):
                return int((self.group / name).read_text())
        return None

    def close(self) -> None:
        """Lifts the limit; processes in it go on without. Safe to call twice."""
        while self._entries:
            self._journal.undo(self._entries.pop())

    def __enter__(self) -> MemoryLimit:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
