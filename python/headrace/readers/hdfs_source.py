"""HDFS as an uproot source: one open at the name node, then reads from the data nodes.

All reads are counted. Through fsspec, each range would ask the name node again for the block
locations.
"""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from headrace.readers.range_source import RangeSource


class HdfsSource(RangeSource):
    """A file of HDFS."""

    def _open(self) -> None:
        from hdfs_native import Client

        parts = urlsplit(self._file_path)
        self._reader: Any = Client(f"{parts.scheme}://{parts.netloc}").read(parts.path)
        self._num_bytes: int = len(self._reader)

    def _read(self, start: int, stop: int) -> Any:
        if stop > self._num_bytes:
            raise self._truncated(start, stop)
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
