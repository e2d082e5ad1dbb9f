"""Pages that a job reads again because memory was short, from the memory control group it has for
itself (version 1 and 2): `workingset_refault_…` of memory.stat."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from headrace.system.accounting import CounterFile
from headrace.watching.group_places import directory_of, groups_of, has_only

_PAGE_BYTES = os.sysconf("SC_PAGESIZE")
_OWN_S = 10.0
"""Time between two looks whether the group has processes of others."""
_LONGEST_S = 80.0
"""The same of a group that always has."""


class GroupMemory:
    """Refaults of the memory control group of one job; none while others are in its group."""

    def __init__(self) -> None:
        self._file: CounterFile | None = None
        self._looked_s = -1e9
        self._last: int | None = None
        self._wait_s = _OWN_S

    def refault_bytes(self, pids: Collection[int]) -> int | None:
        """Return the bytes of refaults since the last call; None when they cannot be known."""
        now_s = time.monotonic()
        if now_s - self._looked_s > self._wait_s and pids:
            self._looked_s = now_s
            self._find(pids)
            # A job that has no group for itself seldom gets one later.
            self._wait_s = _OWN_S if self._file is not None else min(2 * self._wait_s, _LONGEST_S)
        if self._file is None:
            return None
        try:
            text = self._file.read()
        except OSError:
            self.close()
            return None
        pages = sum(
            int(line.split()[1])
            for line in text.splitlines()
            if line.startswith(b"workingset_refault")
        )
        before, self._last = self._last, pages
        return None if before is None else max(0, pages - before) * _PAGE_BYTES

    def _find(self, pids: Collection[int]) -> None:
        group = _memory_group(next(iter(pids)))
        if group is None or not has_only(group, pids):
            self.close()
        elif self._file is None:
            with contextlib.suppress(OSError):
                self._file = CounterFile(group / "memory.stat", 16384)

    def close(self) -> None:
        """Safe to call twice."""
        if self._file is not None:
            self._file.close()
        self._file, self._last = None, None


class LimitedMemory(NamedTuple):
    """The memory control group of a process."""

    limit_bytes: int
    """The least of the group and those above it; 0 where it is the machine's memory."""
    cache_bytes: int
    """Pages of files that the group holds now."""


def limited_memory(pid: int) -> LimitedMemory:
    """Return the limit of a process's memory. Raises OSError, ValueError."""
    own = group = _memory_group(pid)
    machine = os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES
    least = machine
    while group is not None:
        texts = [
            (group / name).read_text().strip()
            for name in ("memory.max", "memory.limit_in_bytes")
            if (group / name).is_file()
        ]
        least = min([least, *(int(text) for text in texts if text != "max")])
        group = group.parent if texts else None
    if own is None or least >= machine:
        return LimitedMemory(0, 0)
    rows = dict(line.split() for line in (own / "memory.stat").read_text().splitlines())
    # Version 1 has totals with the groups below; `file` of version 2 is one.
    return LimitedMemory(least, int(rows.get("total_cache", rows.get("file", 0))))


def _memory_group(pid: int) -> Path | None:
    """Return the directory of the memory control group of a process; None for the topmost one."""
    with contextlib.suppress(OSError, ValueError):
        groups = groups_of(pid)
        for controller in ("memory", ""):
            group = directory_of(groups, controller)
            if group is not None and (group / "memory.stat").is_file():
                return group
    return None
