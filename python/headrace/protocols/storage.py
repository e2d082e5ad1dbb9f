"""The interface of a protocol's client, as the workloads `sequential` and `metadata` use it.

Nothing is cached or read ahead here: one operation is one call of the client.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Protocol


class ByteSink(Protocol):
    """A file open for writing."""

    def write(self, offset: int, record: bytes) -> None:
        """Make one request; offsets ascend unless the storage has `random_writes`."""
        ...

    def flush(self) -> None:
        """Return when all written bytes are on the storage."""
        ...

    def close(self) -> None:
        """Complete the file: when this returns, other clients see all of it."""
        ...


class ByteSource(Protocol):
    """A file open for reading."""

    def read(self, offset: int, size: int) -> int:
        """Make one request; return the number of bytes received."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class RangeFile(Protocol):
    """A file whose ranges readers of events request, each by one call."""

    @property
    def size(self) -> int:
        """Bytes of the file."""
        ...

    def read_range(self, start: int, stop: int) -> bytes:
        """Return the bytes from `start` to `stop`."""
        ...


class RemoteStorage(ABC):
    """A protocol's client. Paths are those after `//host` in a URL.

    Every method raises OSError with the client's own message. Several threads may use one client at
    once, each on files of its own.
    """

    has_directories: bool = True
    """Whether the storage has directories and renames.

    A client may learn only on creation that it has not.
    """
    random_writes: ClassVar[bool] = True
    """Whether bytes can be written at any offset of an existing file."""

    @abstractmethod
    def __init__(self, address: str) -> None:
        """Connect to a URL without path."""

    @abstractmethod
    def make_directories(self, path: str) -> None:
        """Make a directory with all parents; no error when it exists."""

    @abstractmethod
    def make_directory(self, path: str) -> None:
        """Make one directory."""

    @abstractmethod
    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""

    @abstractmethod
    def stat(self, path: str) -> None:
        """Request size and time of a file or directory from the server."""

    @abstractmethod
    def rename(self, path: str, other: str) -> None:
        """Rename within a directory."""

    @abstractmethod
    def create(self, path: str, content: bytes, sync: bool) -> None:
        """Create a file, with parent directories where the storage has none.

        With `sync`, it is on the storage when this returns.
        """

    @abstractmethod
    def read(self, path: str, size: int) -> bytes:
        """Return the first bytes of a file."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file."""

    @abstractmethod
    def sink(self, path: str, *, new: bool) -> ByteSink:
        """Open a file for writing: a new or an existing one.

        An existing one is truncated unless the storage has `random_writes`.
        """

    @abstractmethod
    def source(self, path: str) -> ByteSource:
        """Open a file for reading."""
