"""HDFS through hdfs-native, a client without Java. Files are written once, sequentially."""

from __future__ import annotations

from typing import Any, ClassVar

from typing_extensions import override

from headrace.workloads.by_url.storage import RemoteStorage


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
