"""Probe `cpu`: how the machine's CPUs spent their time, from /proc/stat (proc(5))."""

from __future__ import annotations

from typing import Any, ClassVar

from headrace.probes import Probe, Totals, Watch
from headrace.system.accounting import NS_PER_TICK, CounterFile

_SATURATED = 0.95
"""Share of all CPU time from which on clients count as busy."""


class CpuProbe(Probe):
    """Shares of all cores: user (with nice), system (with interrupts), iowait, idle, steal."""

    kind: ClassVar[str] = "cpu"

    def __init__(self) -> None:
        self._file: CounterFile | None = None
        self._cores = 0
        self._first: tuple[int, ...] = ()
        self._last: tuple[int, ...] = ()

    def start(self, watch: Watch) -> None:
        """Opens the counters."""
        with CounterFile("/proc/stat", 1 << 20) as whole:
            self._cores = sum(line.startswith(b"cpu") for line in whole.read().splitlines()) - 1
        self._file = CounterFile("/proc/stat", 256)
        self._first = self._last = self._ticks()

    def sample(self) -> list[dict[str, Any]]:
        """One row, or none when no clock tick has passed."""
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
        """The `cpu` mapping of docs/records.md: `cores, busy_s, idle_s, iowait_s`."""
        now = self._ticks()
        user, nice, system, idle, iowait, irq, softirq, steal = (
            (after - before) * NS_PER_TICK / 1e9 for after, before in zip(now, self._first, strict=True)
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
            }
        )

    def _ticks(self) -> tuple[int, ...]:
        if self._file is None:
            raise RuntimeError("the cpu probe is read before its start")
        # user nice system idle iowait irq softirq steal; guest time is counted in user already.
        return tuple(int(ticks) for ticks in self._file.read().split(maxsplit=9)[1:9])


def clients_saturated(cpu: dict[str, Any]) -> str | None:
    """Why the clients' CPUs, not the storage, were the limit of a trial, or None when they were not; pure.

    `cpu`: the totals above.
    """
    whole_s = cpu["busy_s"] + cpu["idle_s"] + cpu["iowait_s"]
    busy = cpu["busy_s"] / whole_s if whole_s > 0 else 0.0
    if busy < _SATURATED:
        return None
    return f"the CPUs of the clients were busy {100 * busy:.0f} % of the time: they, not the storage, were the limit"
