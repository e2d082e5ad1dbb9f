"""Probe `memory`: page cache, dirty pages and free memory, from /proc/meminfo (proc(5))."""

from __future__ import annotations

from typing import Any, ClassVar

from headrace.probes import Probe, Totals, Watch
from headrace.system.accounting import CounterFile

_FIELDS = {"cached_bytes": b"\nCached:", "dirty_bytes": b"\nDirty:", "free_bytes": b"MemFree:"}


class MemoryProbe(Probe):
    """One row of bytes. Totals: the least free and the most dirty memory of all samples."""

    kind: ClassVar[str] = "memory"
    essential: ClassVar[bool] = False  # shown only; no result depends on it

    def __init__(self) -> None:
        self._file: CounterFile | None = None
        self._free_least = 0
        self._dirty_most = 0

    def start(self, watch: Watch) -> None:
        """Open /proc/meminfo."""
        self._file = CounterFile("/proc/meminfo", 4096)
        first = self._read()
        self._free_least, self._dirty_most = first["free_bytes"], first["dirty_bytes"]

    def sample(self) -> list[dict[str, Any]]:
        """Return one row."""
        row = self._read()
        self._free_least = min(self._free_least, row["free_bytes"])
        self._dirty_most = max(self._dirty_most, row["dirty_bytes"])
        return [row]

    def finish(self) -> Totals:
        """Return `free_bytes_min, dirty_bytes_max, cached_bytes_end`."""
        row = self.sample()[0]
        if self._file is not None:
            self._file.close()
            self._file = None
        return Totals(
            {
                "free_bytes_min": self._free_least,
                "dirty_bytes_max": self._dirty_most,
                "cached_bytes_end": row["cached_bytes"],
            }
        )

    def _read(self) -> dict[str, int]:
        if self._file is None:
            raise RuntimeError("the memory probe is read before its start")
        text = self._file.read()
        row: dict[str, int] = {}
        for name, label in _FIELDS.items():
            begin = text.index(label) + len(label)
            row[name] = int(text[begin : text.index(b"kB", begin)]) * 1024
        return row
