"""Probe `cpu`: how the machine's CPUs spent their time, from /proc/stat (proc(5))."""

from __future__ import annotations

from typing import Any, ClassVar

from headrace.probes import Probe, Totals, Watch
from headrace.system.accounting import NS_PER_TICK, CounterFile

_SATURATED = 0.95


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


def clients_saturated(
    cpu: dict[str, Any], duration_s: float, on_cpu_share: float | None = None
) -> str | None:
    """Why the clients, not the storage, were the limit of a trial, or None when they were not; pure.

    `cpu`: the totals above over `duration_s`; `on_cpu_share`: mean share of the jobs' wall time that was spent on a CPU
    or waiting for one (ledger), for clients that are busy all the time on a machine with cores to spare.
    """
    busy = cpu["busy_s"] / (cpu["cores"] * duration_s) if duration_s > 0 and cpu["cores"] else 0.0
    if busy >= _SATURATED:
        share, who = busy, "the CPUs of the clients were busy"
    elif on_cpu_share is not None and on_cpu_share >= _SATURATED:
        share, who = on_cpu_share, "the jobs were on a CPU or waiting for one"
    else:
        return None
    return f"{who} {100 * share:.0f} % of the time: they, not the storage, were the limit"
