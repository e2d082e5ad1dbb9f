"""What the workloads `sequential` and `metadata` do on storage that is reached by URL: names and bytes, by each protocol's own client.

This file is the contract; a protocol is a file beside it. Nothing is cached or read ahead here: an operation is the client's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Protocol
from urllib.parse import urlsplit

from headrace.errors import HeadraceError


class ByteSink(Protocol):
    """A file that is being written."""

    def write(self, offset: int, record: bytes) -> None:
        """One request; in order, unless the storage has `random_writes`."""
        ...

    def flush(self) -> None:
        """Returns when all that was written is on the storage."""
        ...

    def close(self) -> None:
        """The file is whole for everybody when this returns."""
        ...


class ByteSource(Protocol):
    """A file that is being read."""

    def read(self, offset: int, size: int) -> int:
        """One request; the bytes that came."""
        ...

    def close(self) -> None:
        """It is not read any more."""
        ...


class RemoteStorage(ABC):
    """A protocol's client. Paths are those behind `//host` in a URL. Every method raises OSError with the client's own words.

    Several threads may use one at once, each on files of its own.
    """

    has_directories: bool = True
    """Whether directories are made, and names can be changed; a client can find out only when it is made that this server cannot."""
    random_writes: ClassVar[bool] = True
    """Whether bytes can be written anywhere in a file that is there."""

    @abstractmethod
    def __init__(self, address: str) -> None:
        """A URL without path."""

    @abstractmethod
    def make_directories(self, path: str) -> None:
        """With all parents; no error when it is there."""

    @abstractmethod
    def make_directory(self, path: str) -> None:
        """One."""

    @abstractmethod
    def remove_directory(self, path: str) -> None:
        """An empty one."""

    @abstractmethod
    def stat(self, path: str) -> None:
        """Asks the server for size and time of a file or directory."""

    @abstractmethod
    def rename(self, path: str, other: str) -> None:
        """Within a directory."""

    @abstractmethod
    def create(self, path: str, content: bytes, sync: bool) -> None:
        """A new file, with the directories above it where the storage has none; on the storage when this returns if `sync`."""

    @abstractmethod
    def read(self, path: str, size: int) -> bytes:
        """The first bytes of a file."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """A file."""

    @abstractmethod
    def sink(self, path: str, *, new: bool) -> ByteSink:
        """A file to be written: a new one, or one that is there (which is emptied unless the storage has `random_writes`)."""

    @abstractmethod
    def source(self, path: str) -> ByteSource:
        """A file to be read."""


def kind_of(url: str) -> type[RemoteStorage]:
    """The client for a URL's protocol. Raises HeadraceError when there is none."""
    protocol = urlsplit(url).scheme
    if protocol in ("root", "roots"):
        from headrace.workloads.by_url.xrootd import XrootdStorage

        return XrootdStorage
    if protocol == "hdfs":
        from headrace.workloads.by_url.hdfs import HdfsStorage

        return HdfsStorage
    if protocol == "s3":
        from headrace.workloads.by_url.s3 import S3Storage

        return S3Storage
    raise HeadraceError(f"{url}: no client for {protocol}:// writes files")


def remote_storage(url: str) -> tuple[RemoteStorage, str]:
    """(client, path in it) of a URL. Raises HeadraceError for an unknown protocol, OSError when the server cannot be asked."""
    parts = urlsplit(url)
    # A bucket is the first part of an object's path; its endpoint comes from the environment.
    path = f"/{parts.netloc}{parts.path}" if parts.scheme == "s3" else f"/{parts.path.lstrip('/')}"
    return kind_of(url)(f"{parts.scheme}://{parts.netloc}"), path
