"""Storage by URL for the workloads `sequential` and `metadata`, by each protocol's client.

`storage.py` is the interface; each protocol is a module beside it.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from headrace.errors import HeadraceError
from headrace.workloads.by_url.hdfs import HdfsStorage
from headrace.workloads.by_url.s3 import S3Storage
from headrace.workloads.by_url.storage import RemoteStorage
from headrace.workloads.by_url.xrootd import XrootdStorage


def kind_of(url: str) -> type[RemoteStorage]:
    """Return the client class for a URL's protocol. Raises HeadraceError when there is none."""
    protocol = urlsplit(url).scheme
    if protocol in ("root", "roots"):
        return XrootdStorage
    if protocol == "hdfs":
        return HdfsStorage
    if protocol == "s3":
        return S3Storage
    raise HeadraceError(f"{url}: no client for {protocol}:// writes files")


def remote_storage(url: str) -> tuple[RemoteStorage, str]:
    """Return (client, path) of a URL.

    Raises HeadraceError for an unknown protocol, OSError when the server cannot be reached.
    """
    parts = urlsplit(url)
    # A bucket is the first part of an object's path; its endpoint comes from the environment.
    path = f"/{parts.netloc}{parts.path}" if parts.scheme == "s3" else f"/{parts.path.lstrip('/')}"
    return kind_of(url)(f"{parts.scheme}://{parts.netloc}"), path
