"""HDFS through hdfs-native, a client without Java. Files are written once, sequentially."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from typing_extensions import override

from headrace.protocols import UrlProtocol
from headrace.protocols.storage import RangeFile, RemoteStorage


class HdfsProtocol(UrlProtocol):
    """URLs `hdfs://NAMENODE:PORT/PATH`."""

    kind = "hdfs"

    @override
    def client(self) -> type[RemoteStorage]:
        return HdfsStorage

    @override
    def range_opener(self) -> Callable[[str], RangeFile]:
        """Return a function that opens a file once at the name node; data nodes answer the reads.

        Through fsspec, each range would request the block locations from the name node again.
        """
        return lambda url: _HdfsRanges(*self.address_and_path(url))


class _HdfsRanges:
    def __init__(self, address: str, path: str) -> None:
        from hdfs_native import Client

        self._file: Any = Client(address).read(path)
        self.size: int = len(self._file)

    def read_range(self, start: int, stop: int) -> bytes:
        return self._file.read_range(start, stop - start)


class HdfsStorage(RemoteStorage):
    """One file system."""

    random_writes: ClassVar[bool] = False

    def __init__(self, address: str) -> None:
        from hdfs_native import Client, WriteOptions

        self._client: Any = Client(address)
        self._options: Any = WriteOptions

    @override
    def make_directories(self, path: str) -> None:
        self._client.mkdirs(path, 0o755, True)

    @override
    def make_directory(self, path: str) -> None:
        self._client.mkdirs(path, 0o755, False)

    @override
    def remove_directory(self, path: str) -> None:
        if not self._client.delete(path, False):
            raise FileNotFoundError(f"{path}: no such directory")

    @override
    def stat(self, path: str) -> None:
        self._client.get_file_info(path)

    @override
    def rename(self, path: str, other: str) -> None:
        self._client.rename(path, other, False)

    @override
    def create(self, path: str, content: bytes, sync: bool) -> None:
        file = self._client.create(path, self._options(create_parent=False))
        if content:
            file.write(content)
        if sync and content:
            file.hsync()
        file.close()

    @override
    def read(self, path: str, size: int) -> bytes:
        file = self._client.read(path)
        return bytes(file.read_range(0, min(size, len(file)))) if size else b""

    @override
    def remove(self, path: str) -> None:
        if not self._client.delete(path, False):
            raise FileNotFoundError(f"{path}: no such file")

    @override
    def sink(self, path: str, *, new: bool) -> _HdfsSink:
        return _HdfsSink(self._client.create(path, self._options(overwrite=not new)))

    @override
    def source(self, path: str) -> _HdfsSource:
        return _HdfsSource(self._client.read(path))


class _HdfsSink:
    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, offset: int, record: bytes) -> None:
        self._file.write(record)

    def flush(self) -> None:
        self._file.hsync()

    def close(self) -> None:
        self._file.close()


class _HdfsSource:
    def __init__(self, file: Any) -> None:
        self._file = file

    def read(self, offset: int, size: int) -> int:
        return len(self._file.read_range(offset, size))

    def close(self) -> None:
        """Do nothing: it holds no connection between requests."""
