"""Counts of a job's reads: calls, bytes, bytes requested for the first time, and wait time."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class ReadCounts:
    """Counts the reads of one job over all its files."""

    bytes_asked: int = 0
    read_calls: int = 0
    read_wait_s: float = 0.0
    open_s: float = 0.0
    """Wait until files were open."""
    bytes_uncompressed: int = 0
    """Event data passed to the job: values, and one offset per event and column of a collection."""
    _ranges: dict[str, list[tuple[int, int]]] = field(
        default_factory=dict[str, list[tuple[int, int]]]
    )

    def add(self, file: str, start: int, stop: int, calls: int, wait_s: float) -> None:
        """Add bytes `start <= byte < stop` of a file, read in `calls` calls within `wait_s`."""
        self.bytes_asked += stop - start
        self.read_calls += calls
        self.read_wait_s += wait_s
        self._ranges.setdefault(file, []).append((start, stop))

    @contextmanager
    def opening(self) -> Generator[None]:
        """Add the wait of this block to `open_s`: its wall time less this process's CPU time."""
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        yield
        wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
        self.open_s += max(0.0, wall_s - cpu_s)

    @property
    def bytes_unique(self) -> int:
        """Bytes requested, each counted once."""
        return sum(_covered(ranges) for ranges in self._ranges.values())


def _covered(ranges: list[tuple[int, int]]) -> int:
    """Return the bytes covered by ranges that may overlap."""
    covered, end = 0, 0
    for start, stop in sorted(ranges):
        if stop > end:
            covered += stop - max(start, end)
            end = stop
    return covered
