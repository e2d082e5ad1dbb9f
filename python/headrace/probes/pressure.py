"""Probe `pressure`: share of time in which tasks waited for CPU, I/O or memory (PSI, kernel 4.20).

Documentation/accounting/psi.rst: `some` means that at least one task waits, `full` that all
non-idle tasks wait.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, ClassVar

from headrace.errors import Problem
from headrace.probes import Probe, Totals, Watch
from headrace.system.accounting import CounterFile, pressure_totals_us

_ROOM = Path("/proc/pressure")


class PressureProbe(Probe):
    """`cpu_some, io_some, io_full, memory_some` as shares of the time since the last sample."""

    kind: ClassVar[str] = "pressure"
    essential: ClassVar[bool] = False  # shown only; no result depends on it

    def __init__(self) -> None:
        self._files: dict[str, CounterFile] = {}
        self._first: dict[str, int] = {}
        self._last: dict[str, int] = {}
        self._first_s = self._last_s = 0.0

    def check(self) -> list[Problem]:
        """Return a problem if the kernel was built or started without PSI."""
        try:
            CounterFile(_ROOM / "io").close()
        except OSError:
            return [
                Problem(
                    what="pressure stall information of the kernel",
                    needed_by="probe pressure",
                    remedy="start the kernel with psi=1",
                    fatal=False,
                    without="no series of CPU, I/O and memory pressure",
                )
            ]
        return []

    def start(self, watch: Watch) -> None:
        """Open the files; without PSI the series stays empty."""
        try:
            for name in ("cpu", "io", "memory"):
                self._files[name] = CounterFile(_ROOM / name, 256)
            self._first = self._last = self._totals_us()
        except OSError:
            self._close()
        self._first_s = self._last_s = time.monotonic()

    def sample(self) -> list[dict[str, Any]]:
        """Return one row, or none without PSI."""
        if not self._files:
            return []
        now, now_s = self._totals_us(), time.monotonic()
        span_us = max(now_s - self._last_s, 1e-6) * 1e6
        row = {name: min(1.0, (now[name] - self._last[name]) / span_us) for name in now}
        self._last, self._last_s = now, now_s
        return [row]

    def finish(self) -> Totals:
        """Return the same shares over the whole trial; empty without PSI."""
        if not self._files:
            return Totals()
        now = self._totals_us()
        span_us = max(time.monotonic() - self._first_s, 1e-6) * 1e6
        self._close()
        return Totals({name: min(1.0, (now[name] - self._first[name]) / span_us) for name in now})

    def _totals_us(self) -> dict[str, int]:
        cpu = pressure_totals_us(self._files["cpu"].read())
        io = pressure_totals_us(self._files["io"].read())
        memory = pressure_totals_us(self._files["memory"].read())
        return {"cpu_some": cpu[0], "io_some": io[0], "io_full": io[1], "memory_some": memory[0]}

    def _close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files = {}
