"""Base layer: whether the kernel killed a program because memory ran out.

A signal does not say so. The kernel counts such kills by control group: in that of the process
killed, also when the limit is of a group above it or memory of the whole machine ran out.
"""

from __future__ import annotations

import contextlib
import os
from functools import cache
from pathlib import Path

from headrace.system.accounting import descendants
from headrace.system.cgroups import group_of, mount_of, out_of_memory_kills

_mount = cache(mount_of)


class MemoryKills:
    """The kills for lack of memory in the groups of a program, from before its start on.

    A program may move to other groups. In version 2 its group is known when it has ended; in
    version 1 only while it runs: `look` from time to time. Where a group cannot be read (it was
    removed, or has no counter, as the topmost of version 2), all kills on the machine count.
    """

    def __init__(self) -> None:
        self._on_machine = _on_machine()
        self._counts: dict[Path | None, int | None] = {}
        """By group: the count when it was first seen."""
        self._seen = set[bytes]()
        self._note("self")

    @property
    def by_looks(self) -> bool:
        """Whether groups are known only while a program runs."""
        mount = _mount("memory")
        return mount is not None and mount.filesystem == "cgroup"

    def look(self, pid: int) -> None:
        """Note the groups that a program and its descendants are in now."""
        for each in (pid, *descendants(pid)):
            self._note(each)

    def _note(self, pid: int | str) -> None:
        with contextlib.suppress(OSError):
            groups = _groups(pid)
            if groups not in self._seen:
                self._seen.add(groups)
                if (group := _group(groups)) not in self._counts:
                    self._counts[group] = _count(group)

    def any_of(self, pid: int) -> bool:
        """Return whether there was one. The program has ended and has not been waited for."""
        if _on_machine() <= self._on_machine:
            return False
        if not self.by_looks:
            with contextlib.suppress(OSError):
                # What was counted there before it moved is not known; in a group of its own, none.
                self._counts.setdefault(_group(_groups(pid)), 0)
        return any(_more(_count(group), before) for group, before in self._counts.items())


def _more(now: int | None, before: int | None) -> bool:
    return now is None or before is None or now > before


def _groups(pid: int | str) -> bytes:
    # Without a Python file: it is looked at many times.
    descriptor = os.open(f"/proc/{pid}/cgroup", os.O_RDONLY)
    try:
        return os.read(descriptor, 1 << 16)
    finally:
        os.close(descriptor)


def _group(groups: bytes) -> Path | None:
    mount = _mount("memory")
    return None if mount is None else group_of(mount, "memory", os.fsdecode(groups))


def _count(group: Path | None) -> int | None:
    # In version 2 with the groups below it.
    return None if group is None else out_of_memory_kills(group, "memory.events", _VERSION_1)


_VERSION_1 = "memory.oom_control"


def _on_machine() -> int:
    """Return the number of processes killed for memory since boot, in any group."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
