"""The CPU load of this machine around a trial, from /proc/stat: power logs are aligned with it.

The probe `cpu` sees the time of the jobs only; the step of the load at their release, after the
idle time, is what tells a log's offset best.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from headrace.system.accounting import CounterFile

_INTERVAL_S = 0.25


@dataclass
class CpuLoad:
    """Reads the load in the background between `start` and `stop`."""

    file: str = "/proc/stat"
    periods: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    """Ends of periods on the monotonic clock, share of the CPUs that was busy; see MeterWindow."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to read."""
        self._thread = threading.Thread(target=self._run, name="headrace-cpu-load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Read once more and end. Can be called twice."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        with CounterFile(self.file, 256) as file:
            before = self._period(file, (0, 0))
            while not self._stop.wait(_INTERVAL_S):
                before = self._period(file, before)
            self._period(file, before)

    def _period(self, file: CounterFile, before: tuple[int, int]) -> tuple[int, int]:
        """Add the period since the ticks `before`, if any passed; return the present ones."""
        busy, whole = _ticks(file)
        if whole == before[1]:
            return before
        share = max(0, busy - before[0]) / (whole - before[1])
        self.periods.append((time.monotonic(), share))
        return busy, whole


def _ticks(file: CounterFile) -> tuple[int, int]:
    """Return the ticks of all CPUs that were busy, and all ticks."""
    found = [int(each) for each in file.read().split(maxsplit=9)[1:9]]
    idle = found[3] + found[4]  # idle and iowait
    return sum(found) - idle, sum(found)
