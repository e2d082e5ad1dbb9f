"""uproot sources that count: local files by `pread` or memory map, URLs by fsspec or a client.

uproot takes a source class; `counted_source` makes one that counts into a given `ReadCounts`.
"""

from __future__ import annotations

import errno
import os
import queue
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import uproot.source.file
import uproot.source.fsspec
from uproot.source.chunk import Chunk

from headrace.errors import HeadraceError
from headrace.protocols import protocol_of
from headrace.protocols.causes import cause_of
from headrace.protocols.storage import RangeFile
from headrace.readers.counts import ReadCounts
from headrace.readers.range_source import RangeSource

AccessMethod = Literal["pread", "mmap"]


def is_url(file: str) -> bool:
    """Return True for `root://…`, `https://…` and similar."""
    return "://" in file


def counted_source(file: str, access: AccessMethod, counts: ReadCounts) -> type[Any]:
    """Return an uproot source class for this file that counts its reads in `counts`.

    A mapped file has no read calls and no visible wait (the kernel waits on page faults); the bytes
    requested are those that uproot takes out of the map.
    """
    if is_url(file):
        if (opener := protocol_of(file).range_opener()) is not None:
            fields = {"counts": counts, "opener": staticmethod(opener)}
            return type("CountedClientSource", (_ClientSource,), fields)
        return type("CountedRemoteSource", (_RemoteSource,), {"counts": counts})
    kind = _PreadSource if access == "pread" else _MappedSource
    return type(f"Counted{kind.__name__}", (kind,), {"counts": counts})


class _PreadSource(RangeSource):
    """A local file, by `pread`."""

    def _open(self) -> None:
        self._descriptor: int = os.open(self._file_path, os.O_RDONLY | os.O_CLOEXEC)
        self._num_bytes = os.fstat(self._descriptor).st_size

    def _read(self, start: int, stop: int) -> Any:
        buffer = np.empty(stop - start, np.uint8)
        view = memoryview(buffer.data)
        calls, filled = 0, 0
        begun = time.perf_counter()
        while filled < len(buffer):
            got = os.preadv(self._descriptor, [view[filled:]], start + filled)
            calls += 1
            filled += got
            if got == 0:
                break
        self.counts.add(self._file_path, start, stop, calls, time.perf_counter() - begun)
        if filled < len(buffer):
            raise self._truncated(start, stop)
        return buffer

    @property
    def closed(self) -> bool:
        """True when the file is closed."""
        return self._descriptor < 0

    def __enter__(self) -> _PreadSource:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class _MappedSource(uproot.source.file.MemmapSource):
    """uproot's memory map, counted."""

    counts: ReadCounts

    def __init__(self, file_path: str, **options: Any) -> None:
        super().__init__(file_path, **{"num_fallback_workers": 1, "use_threads": False, **options})

    def chunk(self, start: int, stop: int) -> Chunk:
        """Return one range of the map."""
        self.counts.add(str(self._file_path), start, stop, 0, 0.0)
        return super().chunk(start, stop)

    def chunks(
        self, ranges: list[tuple[int, int]], notifications: queue.Queue[Chunk]
    ) -> list[Chunk]:
        """Return ranges of the map."""
        for start, stop in ranges:
            self.counts.add(str(self._file_path), start, stop, 0, 0.0)
        return super().chunks(ranges, notifications)


class _ClientSource(RangeSource):
    """A URL by the protocol's own client."""

    opener: Callable[[str], RangeFile]

    def _open(self) -> None:
        with received(self._file_path):
            self._file: RangeFile | None = self.opener(self._file_path)
        self._num_bytes = self._file.size

    def _read(self, start: int, stop: int) -> Any:
        if self._file is None:
            raise ValueError(f"{self._file_path}: closed")
        if stop > self._num_bytes:
            raise self._truncated(start, stop)
        begun = time.perf_counter()
        with received(self._file_path):
            data = self._file.read_range(start, stop)
        self.counts.add(self._file_path, start, stop, 1, time.perf_counter() - begun)
        return np.frombuffer(data, np.uint8)

    @property
    def closed(self) -> bool:
        """True when the file is closed."""
        return self._file is None

    def __enter__(self) -> _ClientSource:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file = None


@contextmanager
def received(url: str) -> Generator[None]:
    """Turn a failure of a protocol's client into a HeadraceError with what the client says.

    What fails here is the server or the network: the file is not damaged.
    """
    try:
        yield
    except (HeadraceError, FileNotFoundError, MemoryError):
        raise
    except PermissionError as error:
        raise HeadraceError(f"{url}: no permission to read it: {cause_of(error)}") from error
    except Exception as error:
        # A client library has its own exception types.
        raise HeadraceError(f"{url}: cannot be read: {cause_of(error)}") from error


def _arrived(chunk: Chunk, start: int, stop: int) -> None:
    """Wait for the bytes of a range. Raises OSError when the server has sent more.

    The beginning of a whole file would be taken for the range.
    """
    coming: Any = chunk.future  # None when the bytes are there
    sent = stop - start if coming is None else len(coming.result())
    if sent > stop - start:
        raise OSError(
            errno.EIO,
            f"the server sent {sent} bytes for a request of {stop - start} bytes: "
            "it ignores ranges",
        )
    chunk.wait(insist=False)


class _RemoteSource(uproot.source.fsspec.FSSpecSource):
    """A URL by fsspec; waits for all requested bytes, so that the wait can be counted.

    Its first request is of a file's header, a few hundred bytes, and counts as opening.
    """

    counts: ReadCounts

    def __init__(self, file_path: str, **options: Any) -> None:
        self._requested = False
        self._url = file_path
        with self.counts.opening(), received(file_path):
            super().__init__(file_path, **{**options, **protocol_of(file_path).options()})

    def chunk(self, start: int, stop: int) -> Chunk:
        """Fetch one range."""
        if not self._requested:
            return self._first(start, stop)
        begun = time.perf_counter()
        with received(self._url):
            chunk = super().chunk(start, stop)
            _arrived(chunk, start, stop)
        self.counts.add(str(self._file_path), start, stop, 1, time.perf_counter() - begun)
        return chunk

    @property
    def num_bytes(self) -> int:
        """Request the size of the file."""
        with self.counts.opening(), received(self._url):
            found: Any = super().num_bytes  # None if the client does not know it
            if found is None:
                raise OSError(errno.EIO, "the server does not state the size of the file")
            return int(found)

    def _first(self, start: int, stop: int) -> Chunk:
        """Fetch the file's first range: fsspec connects and opens the file with it."""
        self._requested = True
        with self.counts.opening(), received(self._url):
            chunk = super().chunk(start, stop)
            _arrived(chunk, start, stop)
        self.counts.add(str(self._file_path), start, stop, 1, 0.0)
        return chunk

    def chunks(
        self, ranges: list[tuple[int, int]], notifications: queue.Queue[Chunk]
    ) -> list[Chunk]:
        """Fetch ranges in one request, where the protocol supports it."""
        begun = time.perf_counter()
        with received(self._url):
            chunks = super().chunks(ranges, notifications)
            for chunk, (start, stop) in zip(chunks, ranges, strict=True):
                _arrived(chunk, start, stop)
        wait_s = time.perf_counter() - begun
        for index, (start, stop) in enumerate(ranges):
            self.counts.add(
                str(self._file_path),
                start,
                stop,
                1 if index == 0 else 0,
                wait_s if index == 0 else 0.0,
            )
        return chunks
