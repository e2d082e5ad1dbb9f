"""Base layer: control groups, version 1 and 2: find, create, limit the jobs' memory.

A new group is a sibling or child of our own, so that enclosing limits (of a container or a batch
job) still apply.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError, MissingError, UnsupportedLevelError
from headrace.system.mounts import Mount, read_mounts
from headrace.system.shared_settings import set_file

if TYPE_CHECKING:
    from headrace.system.journal import Journal, JournalEntry


@dataclass(frozen=True)
class Hierarchy:
    """The hierarchy of a controller, and our own group in it."""

    version: int
    top: Path
    """Mount directory of the hierarchy."""
    own: Path
    """The group of this process."""


def group_of(mount: Mount, controller: str, groups: str) -> Path | None:
    """Return the group in a hierarchy that `/proc/PID/cgroup` names; None if it is not seen below
    the mount.

    A process that has ended and was not waited for keeps its group in version 2, and is in the
    topmost one in version 1.
    """
    wanted = "" if mount.filesystem == "cgroup2" else controller
    for line in groups.splitlines():
        _, names, path = line.split(":", 2)
        if (wanted in names.split(",")) if wanted else not names:
            # In a container the mount may show only a subtree, and the path may start at its root
            # or at ours.
            relative = path.removeprefix(mount.root) if mount.root != "/" else path
            group = mount.directory / relative.lstrip("/")
            return group if group.is_dir() else None
    return None


def mount_of(controller: str) -> Mount | None:
    """Return the mount of a controller's hierarchy; None when there is none."""
    for mount in read_mounts():
        if mount.filesystem == "cgroup" and controller in mount.super_options:
            return mount
        if mount.filesystem == "cgroup2":
            with contextlib.suppress(OSError):
                if controller in (mount.directory / "cgroup.controllers").read_text().split():
                    return mount
    return None


def hierarchy(controller: str) -> Hierarchy | None:
    """Return the hierarchy of a controller, None when there is none.

    Controllers: `memory`, `blkio` in version 1, `io` in version 2.
    """
    mount = mount_of(controller)
    if mount is None:
        return None
    own = group_of(mount, controller, Path("/proc/self/cgroup").read_text()) or mount.directory
    return Hierarchy(2 if mount.filesystem == "cgroup2" else 1, mount.directory, own)


def out_of_memory_kills(group: Path, *files: str) -> int | None:
    """Return the kills for lack of memory that the first of these files counts; None if none
    does."""
    for name in files:
        with contextlib.suppress(OSError):
            for line in (group / name).read_text().splitlines():
                key, _, value = line.partition(" ")
                if key == "oom_kill":
                    return int(value)
    return None


def hand_on(journal: Journal, control: Path, controller: str) -> JournalEntry | None:
    """Enable a controller for the children of a group (its `cgroup.subtree_control`).

    Return the entry that disables it after its last holder; None when it was enabled without
    Headrace. Raises OSError.
    """
    return set_file(
        journal,
        control,
        f"+{controller}",
        before=f"-{controller}",
        key=f"{control} {controller}",
        is_set=lambda: controller in control.read_text().split(),
    )


def make_group(
    journal: Journal, controller: str, within: Path | None = None
) -> tuple[Path, list[JournalEntry]]:
    """Create a group under the control of `controller`: below `within`, if given, which has no
    processes itself and controls its children (`Hierarchy.version` 2).

    Undoing its entries (last first) removes it. Raises MissingError with the reason when that is
    not possible.
    """
    place = hierarchy(controller)
    if place is None:
        raise MissingError(
            f"this machine has no {controller} control group",
            hint=f"mount the {controller} control group",
        )
    entries: list[JournalEntry] = []
    parent = within or place.own
    try:
        if place.version == 2 and within is None:
            # A group with processes cannot enable controllers for children (the "no internal
            # processes" rule), so the new group is a sibling.
            parent = place.own.parent if place.own != place.top else place.top
            control = parent / "cgroup.subtree_control"
            if (entry := hand_on(journal, control, controller)) is not None:
                entries.append(entry)
        group = parent / f"headrace-{os.getpid()}-{os.urandom(4).hex()}"
        entries.append(journal.begin("remove_cgroup", path=str(group)))
        group.mkdir()
    except OSError as error:
        for entry in reversed(entries):
            journal.undo(entry)
        needs = (
            "needs root"
            if isinstance(error, PermissionError)
            else f"is refused here: {error.strerror}"
        )
        raise MissingError(
            f"making a {controller} control group below {parent} {needs}", hint="run as root"
        ) from error
    return group, entries


def cpu_quota() -> float | None:
    """Return the CPU quota of our own group and its ancestors, in CPUs; None without a limit."""
    quotas: list[float] = []
    for version, group in _cpu_groups():
        with contextlib.suppress(OSError, ValueError):
            if version == 2:
                most, period = (group / "cpu.max").read_text().split()
            else:
                most = (group / "cpu.cfs_quota_us").read_text().strip()
                period = (group / "cpu.cfs_period_us").read_text()
            if most not in ("max", "-1"):
                quotas.append(int(most) / int(period))
    return min(quotas, default=None)


def throttled_s() -> float:
    """Return the seconds for which quotas kept our own group and its ancestors off CPUs so far."""
    total_s = 0.0
    for _, group in _cpu_groups():
        with contextlib.suppress(OSError, ValueError):
            for line in (group / "cpu.stat").read_text().splitlines():
                key, _, value = line.partition(" ")
                if key in ("throttled_usec", "throttled_time"):
                    total_s += int(value) / (1e6 if key == "throttled_usec" else 1e9)
    return total_s


def memory_limit_bytes() -> int | None:
    """Return the smallest memory limit of our own group and its ancestors; None without one."""
    limits: list[int] = []
    for version, group in _groups("memory"):
        name = "memory.max" if version == 2 else "memory.limit_in_bytes"
        with contextlib.suppress(OSError, ValueError):  # ValueError: "max"
            limits.append(int((group / name).read_text()))
    least = min(limits, default=_UNLIMITED)
    return least if least < _UNLIMITED else None


_UNLIMITED = 1 << 62
"""Version 1 states no limit as the largest number of whole pages, about 2**63."""


def _cpu_groups() -> list[tuple[int, Path]]:
    return _groups("cpu")


def _groups(controller: str) -> list[tuple[int, Path]]:
    """Return (version, directory) of our own group and of its visible ancestors."""
    place = hierarchy(controller)
    if place is None:
        return []
    groups = [place.own]
    while groups[-1] != place.top and groups[-1].is_relative_to(place.top):
        groups.append(groups[-1].parent)
    return [(place.version, group) for group in groups]


class MemoryLimit:
    """A limit on the memory of jobs, including their page cache.

    Started processes are added by id; their children are included automatically. Raises
    MissingError when memory control groups are unavailable, UnsupportedLevelError when the kernel
    sets another value than requested.
    """

    def __init__(self, journal: Journal, size: int, within: MemoryLimit | None = None) -> None:
        """`within`: a limit that holds, too; one after `hold_others`."""
        self._journal = journal
        self.size = size
        self.group, self._entries = make_group(
            journal, "memory", None if within is None else within.group
        )
        self._members = self.group
        """The group of the processes."""
        try:
            self._set(size)
        except BaseException:
            self.close()
            raise

    def hold_others(self) -> None:
        """Let further limits be made within this one. Before a process is added."""
        if not (self.group / "cgroup.subtree_control").exists():
            return  # version 1: any group has groups below it
        try:
            # Version 2: a group that controls groups below it has no processes itself.
            control = self.group / "cgroup.subtree_control"
            if (entry := hand_on(self._journal, control, "memory")) is not None:
                self._entries.append(entry)
            members = self.group / "programs"
            self._entries.append(self._journal.begin("remove_cgroup", path=str(members)))
            members.mkdir()
        except OSError as error:
            raise UnsupportedLevelError(
                f"the kernel makes no groups below {self.group}: {error.strerror}"
            ) from error
        self._members = members

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
        """Return the current limit in bytes (whole pages)."""
        return int(self._file.read_text())

    def add(self, pid: int) -> None:
        """Put a process and its threads under the limit; earlier allocations do not count."""
        try:
            (self._members / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            raise HeadraceError(
                f"process {pid} cannot be put under the memory limit: {error.strerror}"
            ) from error

    def is_empty(self) -> bool:
        """Return whether no process is under the limit."""
        return not (self._members / "cgroup.procs").read_text().strip()

    def killed(self) -> int:
        """Return the number of processes under it that the kernel killed for lack of memory.

        Those of limits within it count there.
        """
        files = ("memory.events.local", "memory.events", "memory.oom_control")
        return out_of_memory_kills(self._members, *files) or 0

    def peak_bytes(self) -> int | None:
        """Return the peak memory under the limit, page cache included; None when unknown."""
        for name in ("memory.peak", "memory.max_usage_in_bytes"):
            with contextlib.suppress(OSError):
                return int((self.group / name).read_text())
        return None

    def close(self) -> None:
        """Remove the limit; processes in the group continue without it. Safe to call twice.

        Raises HeadraceError when the group cannot be removed; it stays in the journal.
        """
        self._journal.put_back(self._entries)

    def __enter__(self) -> MemoryLimit:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
