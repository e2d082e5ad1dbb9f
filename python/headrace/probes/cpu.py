"""Probe `cpu`: how the machine's CPUs spent their time, from /proc/stat (proc(5))."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from typing_extensions import override

from headrace.probes import Probe, Totals, Watch
from headrace.system.accounting import NS_PER_TICK, CounterFile


class CpuProbe(Probe):
    """Shares of all cores: user (with nice), system (with interrupts), iowait, idle, steal."""

    kind: ClassVar[str] = "cpu"

    def __init__(self) -> None:
        self._file: CounterFile | None = None
        self._cores = 0
        self._first: tuple[int, ...] = ()
        self._last: tuple[int, ...] = ()

    def start(self, watch: Watch) -> None:
        """Open the counters."""
        with CounterFile("/proc/stat", 1 << 20) as whole:
            self._cores = sum(line.startswith(b"cpu") for line in whole.read().splitlines()) - 1
        self._file = CounterFile("/proc/stat", 256)
        self._first = self._last = self._ticks()

    def sample(self) -> list[dict[str, Any]]:
        """Return one row, or none if no clock tick has passed."""
        now = self._ticks()
        user, nice, system, idle, iowait, irq, softirq, steal = (
            after - before for after, before in zip(now, self._last, strict=True)
        )
        whole = user + nice + system + idle + iowait + irq + softirq + steal
        if whole <= 0:
            return []
        self._last = now
        return [
            {
                "user": (user + nice) / whole,
                "system": (system + irq + softirq) / whole,
                "iowait": iowait / whole,
                "idle": idle / whole,
                "steal": steal / whole,
            }
        ]

    def finish(self) -> Totals:
        """Return the `cpu` mapping of docs/records.md:
        `cores, busy_s, idle_s, iowait_s, steal_s`."""
        now = self._ticks()
        user, nice, system, idle, iowait, irq, softirq, steal = (
            (after - before) * NS_PER_TICK / 1e9
            for after, before in zip(now, self._first, strict=True)
        )
        if self._file is not None:
            self._file.close()
            self._file = None
        return Totals(
            {
                "cores": self._cores,
                "busy_s": user + nice + system + irq + softirq + steal,
                "idle_s": idle,
                "iowait_s": iowait,
                "steal_s": steal,
            }
        )

    @classmethod
    @override
    def combine(cls, values: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        """Return the sums."""
        names = next(iter(values.values()))
        return {name: sum(totals[name] for totals in values.values()) for name in names}

    def _ticks(self) -> tuple[int, ...]:
        if self._file is None:
            raise RuntimeError("the cpu probe is read before its start")
        # Fields: user nice system idle iowait irq softirq steal. User includes guest time.
        return tuple(int(ticks) for ticks in self._file.read().split(maxsplit=9)[1:9])
