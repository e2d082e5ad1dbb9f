"""What a job asked of the storage: calls, bytes, which bytes for the first time, and the wait."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class ReadCounts:
    """Counts the reads of one job over all its files."""

    bytes_asked: int = 0
    read_calls: int = 0
    read_wait_s: float = 0.0
    bytes_uncompressed: int = 0
    """Event data handed to the job: values, and an offset an event of each column of a collection."""
    _ranges: dict[str, list[tuple[int, int]]] = field(default_factory=dict[str, list[tuple[int, int]]])

    def add(self, file: str, start: int, stop: int, calls: int, wait_s: float) -> None:
        """Bytes `start <= byte < stop` of a file were asked for, in so many calls that took so long."""
        self.bytes_asked += stop - start
        self.read_calls += calls
        self.read_wait_s += wait_s
        self._ranges.setdefault(file, []).append((start, stop))

    @property
    def bytes_unique(self) -> int:
        """Bytes asked for, each counted once however often it was asked for."""
        return sum(_covered(ranges) for ranges in self._ranges.values())


def _covered(ranges: list[tuple[int, int]]) -> int:
    """Bytes covered by ranges that may overlap."""
    covered, end = 0, 0
    for start, stop in sorted(ranges):
        if stop > end:
            covered += stop - max(start, end)
            end = stop
    return covered
