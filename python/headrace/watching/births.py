"""Which processes may have new children: to ask every process for them takes a tenth of a watch."""

from __future__ import annotations

import contextlib

from headrace.system.accounting import CounterFile

_MOST = 100
"""Numbers given between two looks; with more, all processes are asked for their children."""


class Births:
    """Follows the numbers that the kernel gives to new processes and threads, one after the other.

    The last field of /proc/loadavg is the one that was given last (proc(5)).
    """

    def __init__(self) -> None:
        self._loads: CounterFile | None = None
        with contextlib.suppress(OSError):  # some containers hide it
            self._loads = CounterFile("/proc/loadavg", 128)
        self._before = -1
        self._older = -1

    def parents(self) -> frozenset[int] | None:
        """Return the processes that have started others since the last call; None: any may have."""
        words: list[bytes] = []
        with contextlib.suppress(OSError):
            words = self._loads.read().split() if self._loads is not None else []
        if not words:
            return None
        # A process gets its number before it is seen in /proc, so each number is looked at twice.
        last, first = int(words[-1]), self._older + 1
        known = self._older >= 0 and self._older <= self._before <= last
        self._older, self._before = self._before, last
        if not known or last - first >= _MOST:
            return None
        return frozenset(filter(None, map(_parent, range(first, last + 1))))

    def close(self) -> None:
        """Safe to call twice."""
        if self._loads is not None:
            self._loads.close()


def _parent(pid: int) -> int:
    """Return the parent of a process; 0 when it has ended. Of a thread that of its process, too."""
    try:
        with CounterFile(f"/proc/{pid}/stat", 1024) as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0
