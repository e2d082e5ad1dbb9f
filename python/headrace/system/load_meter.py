"""Base layer: how many CPUs other programs use now; cheap enough to measure while jobs run."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable

from headrace.system.accounting import NS_PER_TICK, CounterFile, descendants


class LoadMeter:
    """User time of some CPUs minus that of our own processes, between two calls.

    Kernel time is excluded, because kernel threads work for every process: the result is a lower
    bound for what other programs use. Reads one file per own process and none of other processes.
    """

    def __init__(
        self, cpus: frozenset[int], roots: Iterable[int], alone: Iterable[int] = ()
    ) -> None:
        """Start measuring. `roots` and their descendants count as our own; so do this process and
        those of `alone`, without descendants."""
        self._cpus = cpus
        self._roots = tuple(roots)
        self._alone = {os.getpid(), *alone}
        self._last = self._read()

    def others(self) -> float:
        """Return the mean number of CPUs used by other programs since the last call, 0 or more."""
        now = self._read()
        (machine_s, own_s, time_s), self._last = self._last, now
        span_s = max(now[2] - time_s, 1e-6)
        return min(
            float(len(self._cpus)), max(0.0, (now[0] - machine_s - (now[1] - own_s)) / span_s)
        )

    def _read(self) -> tuple[float, float, float]:
        """Return (user time of the CPUs, of our own processes, current time) in seconds."""
        pids = set(self._alone)
        for root in self._roots:
            pids |= {root, *descendants(root)}
        own = sum(_user_ticks(pid) for pid in pids)
        with CounterFile("/proc/stat", 1 << 20) as file:
            lines = [
                line.split(maxsplit=3)
                for line in file.read().splitlines()
                if line.startswith(b"cpu")
            ]
        machine = sum(
            int(user) + int(nice)
            for name, user, nice, _ in lines
            if name[3:].isdigit() and int(name[3:]) in self._cpus
        )
        return machine * NS_PER_TICK / 1e9, own * NS_PER_TICK / 1e9, time.monotonic()


def _user_ticks(pid: int) -> int:
    """Return the user time of a process and its ended children in ticks; 0 when it is gone."""
    with contextlib.suppress(OSError, IndexError), CounterFile(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(b")")[2].split()
        return int(fields[11]) + int(fields[13])
    return 0
