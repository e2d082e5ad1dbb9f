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
        self._unseen: list[int] | None = None
        """Numbers that no process had when they were first looked at; None after too many."""

    def parents(self) -> frozenset[int] | None:
        """Return the processes that have started others since the last call; None: any may have."""
        words: list[bytes] = []
        with contextlib.suppress(OSError):
            words = self._loads.read().split() if self._loads is not None else []
        if not words:
            return None
        last = int(words[-1])
        before, self._before = self._before, last
        unseen, self._unseen = self._unseen, None
        if before < 0 or not 0 <= last - before < _MOST:
            return None
        new = [*range(before + 1, last + 1)]
        if unseen is None or len(unseen) + len(new) >= _MOST:
            self._unseen = new
            return None
        # A process gets its number before it is seen in /proc, so one that is missing is looked at
        # twice.
        parents = {number: _parent(number) for number in unseen + new}
        self._unseen = [number for number in new if not parents[number]]
        return frozenset(filter(None, parents.values()))

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
