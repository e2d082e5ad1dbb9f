"""Protocols: how storage is reached by URLs of one scheme, one module each. Defines the interface.

A protocol is a subclass of `UrlProtocol` with a `kind`, the scheme of its URLs. Another package
adds one by an entry point of the group `headrace.protocols`. URLs of other schemes are read as
fsspec reads them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from typing import Any, ClassVar
from urllib.parse import urlsplit

from headrace.errors import HeadraceError
from headrace.protocols.storage import RangeFile, RemoteStorage
from headrace.registry import Plugins, parts

PATIENCE = "HEADRACE_URL_PATIENCE_S"
"""Environment variable: timeout of a request, in seconds."""
_PATIENCE_S = 60.0
UPLOADS_NOTE = "HEADRACE_UPLOADS_NOTE"
"""Environment variable: a file to which a client adds ids of uploads in parts, one a line."""


class UrlProtocol:
    """What Headrace must know of a scheme. The defaults suit a file system that fsspec knows."""

    kind: ClassVar[str]
    """Scheme of its URLs, without `://`."""
    objects: ClassVar[bool] = False
    """True if files are objects: each appears when it is complete; no directories, no renames."""
    loads_before_fork: ClassVar[bool] = False
    """True if `load` starts no threads: the process that jobs are forked from may call it."""

    def options(self) -> dict[str, Any]:
        """Return fsspec's options, from the environment."""
        return {}

    def address_and_path(self, url: str) -> tuple[str, str]:
        """Return a URL without its path, and the path that the protocol's client takes."""
        split = urlsplit(url)
        return f"{split.scheme}://{split.netloc}", f"/{split.path.lstrip('/')}"

    def client(self) -> type[RemoteStorage] | None:
        """Return the client of the workloads `sequential` and `metadata`; None: they cannot run."""
        return None

    def range_opener(self) -> Callable[[str], RangeFile] | None:
        """Return a function that opens a file of events for requests by the protocol's own client;
        None: files are read through fsspec.

        The function raises OSError and the client's exceptions.
        """
        return None

    def reach(self, url: str) -> None:
        """Ask the server once for what is at a URL. Changes nothing there.

        Raises OSError and the client's exceptions when the server, the credentials or the place
        cannot be used. What only a write can show is not known.
        """

    def drop_unfinished(self, url: str, ids: Collection[str] | None = None) -> None:
        """Remove what clients that were killed had begun to write below a folder and nobody sees.

        `ids`: only uploads with these ids, where they have such; None: all. Raises OSError and the
        client's exceptions.
        """

    def removed_on_servers(self, url: str) -> bool:
        """Remove a folder from each data server, where each has folders of its own; return whether
        any had it.

        Raises OSError and the client's exceptions.
        """
        return False

    def load(self) -> None:
        """Import the client library, without connecting to a server."""

    def copy_command(self, url: str, place: str) -> list[str] | None:
        """Return a program of its own that copies a file to a local path; None if there is none."""
        return None


class _AnyScheme(UrlProtocol):
    """A scheme that no protocol is registered for."""


def kinds() -> Plugins[UrlProtocol]:
    """Return every registered protocol by scheme."""
    return parts("headrace.protocols", UrlProtocol)


def protocol_of(url: str) -> UrlProtocol:
    """Return the protocol of a URL; one with fsspec's behaviour if none is registered."""
    return kinds().get(urlsplit(url).scheme, _AnyScheme)()


def load_clients(schemes: Iterable[str], *, before_fork: bool = False) -> None:
    """Import the clients of these schemes in this process.

    Jobs do so before their release: an import is no part of a job's time. `before_fork`: only those
    that start no threads.
    """
    for scheme in schemes:
        protocol = kinds().get(scheme, _AnyScheme)()
        if protocol.loads_before_fork or not before_fork:
            protocol.load()


def patience_s() -> float:
    """Return the timeout of a request."""
    return float(os.environ.get(PATIENCE, _PATIENCE_S))


def filesystem_of(url: str) -> tuple[Any, str]:
    """Return (fsspec's file system, path in it) of a URL.

    Raises HeadraceError when its protocol is not installed.
    """
    import fsspec

    try:
        return fsspec.url_to_fs(url, **protocol_of(url).options())
    except (ImportError, ValueError) as error:
        raise HeadraceError(f"{url}: {error}") from error


def client_of(url: str) -> type[RemoteStorage]:
    """Return the client class for a URL's protocol. Raises HeadraceError when there is none."""
    client = protocol_of(url).client()
    if client is None:
        raise HeadraceError(f"{url}: no client for {urlsplit(url).scheme}:// writes files")
    return client


def remote_storage(url: str) -> tuple[RemoteStorage, str]:
    """Return (client, path) of a URL.

    Raises HeadraceError for an unknown protocol, OSError when the server cannot be reached.
    """
    address, path = protocol_of(url).address_and_path(url)
    return client_of(url)(address), path
