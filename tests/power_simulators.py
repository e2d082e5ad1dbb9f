"""Power meters that tests read: they speak the real protocols, and follow a known load profile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

Profile = Callable[[float], float]
"""Seconds since the start -> watts."""


def steady(watts: float) -> Profile:
    """Noise makes no reading equal to the one before, as on real meters."""
    return lambda time_s: watts * (1 + 0.01 * ((time_s * 7919) % 1 - 0.5))


class PowercapTree:
    """A folder like /sys/class/powercap, whose counters a thread advances."""

    def __init__(self, folder: Path, zones: dict[str, tuple[str, Profile]], range_uj: int) -> None:
        self.folder = folder
        self._zones = zones
        self._range_uj = range_uj
        self._stop = threading.Event()
        self._begin_s = time.monotonic()
        self._energy_j = dict.fromkeys(zones, 0.0)
        folder.mkdir(parents=True)
        for zone, (name, _) in zones.items():
            (folder / zone).mkdir()
            (folder / zone / "name").write_text(f"{name}\n")
            (folder / zone / "max_energy_range_uj").write_text(f"{range_uj}\n")
        # A package that has counted up to shortly before its end wraps while jobs run.
        self._start_uj = range_uj - 1_000_000
        self._write()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _write(self) -> None:
        for zone in self._zones:
            counted = self._start_uj + int(1e6 * self._energy_j[zone])
            # In place: a meter keeps the file open, as that of sysfs. Of one width: a reader
            # never sees half a number.
            path = self.folder / zone / "energy_uj"
            with path.open("r+b" if path.exists() else "wb", buffering=0) as file:
                file.write(b"%015d\n" % (counted % self._range_uj))

    def _run(self) -> None:
        last_s = time.monotonic()
        while not self._stop.wait(0.005):
            now_s = time.monotonic()
            for zone, (_, profile) in self._zones.items():
                self._energy_j[zone] += profile(now_s - self._begin_s) * (now_s - last_s)
            last_s = now_s
            self._write()

    def __enter__(self) -> PowercapTree:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
