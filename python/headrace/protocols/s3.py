"""S3: requests of s3fs's client, one per operation.

Objects are uploaded whole, or in parts of at least 5 MiB; they cannot be renamed.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
from collections.abc import Collection
from typing import Any, ClassVar, cast
from urllib.parse import urlsplit

from typing_extensions import override

from headrace.protocols import UrlProtocol, filesystem_of, patience_s
from headrace.protocols.repeats import BusyError
from headrace.protocols.storage import RemoteStorage

_LEAST_PART_BYTES = 5 << 20
"""Minimum size of every part but the last, by the protocol."""


_CONNECT_PATIENCE_S = 5.0


class S3Protocol(UrlProtocol):
    """URLs `s3://BUCKET/KEY`. Endpoint, region and credentials are in the environment.

    `AWS_ENDPOINT_URL_S3`, `AWS_REGION`, `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, as for
    every S3 client.
    """

    kind = "s3"
    objects: ClassVar[bool] = True
    loads_before_fork: ClassVar[bool] = True

    @override
    def options(self) -> dict[str, Any]:
        try:
            from headrace.protocols.s3_session import ObjectRequests
        except ImportError:
            return {}  # said when a file is opened
        wait_s = patience_s()
        return {
            "endpoint_url": os.environ.get("AWS_ENDPOINT_URL_S3")
            or os.environ.get("AWS_ENDPOINT_URL"),
            "client_kwargs": {"region_name": os.environ.get("AWS_REGION", "us-east-1")},
            "config_kwargs": {
                "http_session_cls": ObjectRequests,
                "connect_timeout": min(_CONNECT_PATIENCE_S, wait_s),
                "read_timeout": wait_s,
                "retries": {"max_attempts": 1},
                # Do not send checksums that only Amazon's own servers support.
                "request_checksum_calculation": "when_required",
                "response_checksum_validation": "when_required",
            },
            "use_listings_cache": False,
        }

    @override
    def load(self) -> None:
        with contextlib.suppress(ImportError):  # said when a file is opened
            importlib.import_module("s3fs")
            importlib.import_module("headrace.protocols.s3_session")

    @override
    def address_and_path(self, url: str) -> tuple[str, str]:
        """Return the bucket as the first part of the path."""
        split = urlsplit(url)
        return "s3://", f"/{split.netloc}{split.path}"

    @override
    def reach(self, url: str) -> None:
        filesystem, path = filesystem_of(url)
        bucket, _, _ = path.strip("/").partition("/")
        try:
            filesystem.call_s3("list_objects_v2", Bucket=bucket, MaxKeys=1)
        except Exception as error:
            # The right to read and write objects need not include that to list them. A busy server
            # is one that answers: jobs wait for it.
            if error_code(error) != "AccessDenied" and not is_busy(error):
                raise

    @override
    def drop_unfinished(self, url: str, ids: Collection[str] | None = None) -> None:
        filesystem, path = filesystem_of(url)
        bucket, _, folder = path.strip("/").partition("/")
        if not folder:
            return  # uploads of others
        prefix = f"{folder}/"
        found = filesystem.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=prefix)
        for upload in found.get("Uploads", []):
            key = str(upload["Key"])
            # The server may not heed the prefix, and other runs upload the same data set.
            if key.startswith(prefix) and (ids is None or str(upload["UploadId"]) in ids):
                filesystem.call_s3(
                    "abort_multipart_upload", Bucket=bucket, Key=key, UploadId=upload["UploadId"]
                )

    @override
    def client(self) -> type[RemoteStorage]:
        return S3Storage


def is_busy(error: BaseException) -> bool:
    """Return whether a request failed because the server stayed busy."""
    each: BaseException | None = error
    while each is not None and not isinstance(each, BusyError):
        each = each.__cause__
    return each is not None


def error_code(error: BaseException) -> str:
    """Return the code of S3 that an exception of its client has, else an empty text."""
    each: BaseException | None = error
    while each is not None:
        answer: Any = getattr(each, "response", None)
        if isinstance(answer, dict):
            said: Any = cast("dict[str, Any]", answer).get("Error", {})
            return str(said.get("Code", ""))
        each = each.__cause__
    return ""


class S3Storage(RemoteStorage):
    """The buckets of one endpoint, which the environment names."""

    has_directories = False
    random_writes: ClassVar[bool] = False

    def __init__(self, address: str) -> None:
        self._client: Any = None

    @property
    def client(self) -> Any:
        """s3fs's file system, made at the first request because its event loop is a thread."""
        if self._client is None:
            self._client, _ = filesystem_of("s3://")
        return self._client

    def _ask(self, operation: str, path: str, **given: Any) -> None:
        bucket, _, key = path.strip("/").partition("/")
        self.client.call_s3(operation, Bucket=bucket, Key=key, **given)

    @override
    def make_directories(self, path: str) -> None:
        raise OSError(errno.ENOTSUP, "S3 has no directories", path)

    @override
    def make_directory(self, path: str) -> None:
        raise OSError(errno.ENOTSUP, "S3 has no directories", path)

    @override
    def remove_directory(self, path: str) -> None:
        raise OSError(errno.ENOTSUP, "S3 has no directories", path)

    @override
    def rename(self, path: str, other: str) -> None:
        raise OSError(errno.ENOTSUP, "S3 has no other name for an object", path)

    @override
    def stat(self, path: str) -> None:
        self._ask("head_object", path)

    @override
    def create(self, path: str, content: bytes, sync: bool) -> None:
        # An object is on the storage when the server has answered.
        self._ask("put_object", path, Body=content)

    @override
    def read(self, path: str, size: int) -> bytes:
        return bytes(self.client.cat_file(path.strip("/"), start=0, end=size)) if size else b""

    @override
    def remove(self, path: str) -> None:
        self._ask("delete_object", path)

    @override
    def sink(self, path: str, *, new: bool) -> _S3Sink:
        return _S3Sink(self.client.open(path.strip("/"), "wb", block_size=_LEAST_PART_BYTES))

    @override
    def source(self, path: str) -> _S3Source:
        return _S3Source(self.client, path.strip("/"))


class _S3Sink:
    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, offset: int, record: bytes) -> None:
        self._file.write(record)

    def flush(self) -> None:
        """Do nothing: parts become an object at `close`, which returns when the server has it."""

    def close(self) -> None:
        self._file.close()


class _S3Source:
    def __init__(self, client: Any, path: str) -> None:
        self._client, self._path = client, path

    def read(self, offset: int, size: int) -> int:
        return len(self._client.cat_file(self._path, start=offset, end=offset + size))

    def close(self) -> None:
        """Do nothing: requests are independent."""
