"""HDFS as uproot sees it: a file opened once at the name node, then ranges of it straight from the data nodes, all counted.

Through fsspec each range would ask the name node anew where the blocks are.
"""

from __future__ import annotations

import queue
import time
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import uproot.source.chunk
from uproot.source.chunk import Chunk
from uproot.source.futures import TrivialFuture

from headrace.errors import HeadraceError
from headrace.readers.counts import ReadCounts


class HdfsSource(uproot.source.chunk.Source):
    """One request a range, in this thread, nothing read twice or ahead."""

    counts: ReadCounts

    def __init__(self, file_path: str, **options: Any) -> None:
        super().__init__()
        self._file_path = file_path
        self._open()

    def _open(self) -> None:
        from hdfs_native import Client

        parts = urlsplit(self._file_path)
        self._reader: Any = Client(f"{parts.scheme}://{parts.netloc}").read(parts.path)
        self._num_bytes: int = len(self._reader)

    def chunk(self, start: int, stop: int) -> Chunk:
        """Reads one range."""
        return self.chunks([(start, stop)], queue.Queue())[0]

    def chunks(self, ranges: list[tuple[int, int]], notifications: queue.Queue[Chunk]) -> list[Chunk]:
        """Reads ranges in the order in which they are asked for."""
        self._num_requests += 1
        found: list[Chunk] = []
        for start, stop in ranges:
            chunk = Chunk(self, start, stop, TrivialFuture(self._read(start, stop)))
            found.append(chunk)
            notifications.put(chunk)
        return found

    def _read(self, start: int, stop: int) -> Any:
        self._num_requested_chunks += 1
        self._num_requested_bytes += stop - start
        if stop > self._num_bytes:
            raise HeadraceError(
                f"{self._file_path}: truncated: {self._num_bytes} bytes long, but data are to lie at bytes {start} to {stop}"
            )
        begun = time.perf_counter()
        data: bytes = self._reader.read_range(start, stop - start)
        self.counts.add(self._file_path, start, stop, 1, time.perf_counter() - begun)
        return np.frombuffer(data, np.uint8)

    @property
    def closed(self) -> bool:
        """True when the file is closed."""
        return self._reader is None

    def __enter__(self) -> HdfsSource:
        return self

    def __exit__(self, *exception: object) -> None:
        self._reader = None
