"""Base of uproot sources that read each range by one request and count it."""

from __future__ import annotations

import queue
from abc import ABC, abstractmethod
from typing import Any

import uproot.source.chunk
from uproot.source.chunk import Chunk
from uproot.source.futures import TrivialFuture

from headrace.errors import HeadraceError
from headrace.readers.counts import ReadCounts


class RangeSource(uproot.source.chunk.Source, ABC):
    """One request per range, in this thread, without caching or read-ahead.

    A subclass opens the file, reads a range, and closes it.
    """

    counts: ReadCounts

    def __init__(self, file_path: str, **options: Any) -> None:
        super().__init__()
        self._file_path = file_path
        with self.counts.opening():
            self._open()

    @abstractmethod
    def _open(self) -> None:
        """Open the file and set `_num_bytes`. uproot also calls this on an unpickled source."""

    @abstractmethod
    def _read(self, start: int, stop: int) -> Any:
        """Return these bytes as an array of uint8 and add them to `counts`.

        Raises HeadraceError when the file ends earlier.
        """

    def chunk(self, start: int, stop: int) -> Chunk:
        """Read one range."""
        return self.chunks([(start, stop)], queue.Queue())[0]

    def chunks(
        self, ranges: list[tuple[int, int]], notifications: queue.Queue[Chunk]
    ) -> list[Chunk]:
        """Read ranges in the order requested."""
        self._num_requests += 1
        found: list[Chunk] = []
        for start, stop in ranges:
            self._num_requested_chunks += 1
            self._num_requested_bytes += stop - start
            chunk = Chunk(self, start, stop, TrivialFuture(self._read(start, stop)))
            found.append(chunk)
            notifications.put(chunk)
        return found

    def _truncated(self, start: int, stop: int) -> HeadraceError:
        return HeadraceError(
            f"{self._file_path}: truncated: {self._num_bytes} bytes long, but data are to lie at "
            f"bytes {start} to {stop}"
        )
