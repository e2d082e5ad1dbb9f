"""HTTP requests of s3fs, made by aiobotocore: bounded waits, and answers that s3fs misreads.

A request that a busy server refuses is repeated here, not by botocore and s3fs, which make a few
quick attempts and do not heed `Retry-After`.

Imported when a client is made: the libraries take a second to load.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import time
from html import unescape
from typing import Any
from urllib.parse import urlsplit

from aiobotocore.httpsession import AIOHTTPSession
from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError
from typing_extensions import override

from headrace.protocols import UPLOADS_NOTE
from headrace.protocols.repeats import BUSY, REPEATED, BusyError, Pauses, repeat_s

_CODE = re.compile(rb"<Code>\s*([A-Za-z0-9]+)\s*</Code>")
_UPLOAD_ID = re.compile(rb"<UploadId>([^<]+)</UploadId>")
_CONTENT_RANGE = re.compile(r"bytes\s+(\d+)-(\d+)/(\d+|\*)\s*$")
ATTEMPTS = 5
"""Attempts without any answer after which a request fails."""


class ObjectRequests(AIOHTTPSession):
    """Sends each request, and raises OSError where botocore and s3fs would not say what is wrong.

    botocore and s3fs together make 10 attempts of a write and 50 of a read. With the default
    patience a read of an object that the server does not answer took 50 minutes to fail.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._unanswered: dict[tuple[str, str, str], tuple[int, float]] = {}
        """By request: successive attempts without an answer, and when the last ended (s)."""

    @override
    async def send(self, request: Any) -> Any:
        """Send a request and return the answer, its body unread.

        An answer that says that the server is busy is waited out for at most `repeat_s`. Raises
        OSError after that, after `ATTEMPTS` attempts without an answer, for an error that comes
        from where a redirect led, and for another range than that of the request.
        """
        # aiohttp would wait without end for the "100 Continue" of a server or proxy that knows no
        # Expect. The longest body, one part of an upload, is short enough to be sent in vain.
        request.headers.pop("Expect", None)
        pauses = Pauses(repeat_s())
        while (answer := await self._answer(request)).status_code in BUSY:
            pause_s = pauses.next(_text(answer.headers.get("retry-after")))
            if pause_s is None:
                raise await _busy(request.url, answer, pauses)
            await answer.content  # its connection is free again
            await asyncio.sleep(pause_s)
            REPEATED.requests += 1
            request.reset_stream()
        await _note_upload(request, answer)
        return answer

    async def _answer(self, request: Any) -> Any:
        """Make one attempt."""
        wanted = _text(request.headers.get("Range"))
        key = (request.method, request.url, wanted)
        begun_s = time.monotonic()
        try:
            answer: Any = await super().send(request)
        except (ReadTimeoutError, ConnectTimeoutError):
            if self._attempts(key, begun_s) < ATTEMPTS:
                REPEATED.requests += 1  # by botocore or s3fs
                raise
            del self._unanswered[key]
            # Without its cause, which is a TimeoutError: s3fs would repeat the request.
            raise OSError(
                errno.EIO,
                f"no answer from {_server(request.url)} in {ATTEMPTS} attempts of "
                f"{time.monotonic() - begun_s:.3g} s",
            ) from None
        self._unanswered.pop(key, None)
        _refuse_redirect(request.url, answer)
        _refuse_whole_object(wanted, answer)
        _refuse_other_range(wanted, answer)
        return answer

    def _attempts(self, key: tuple[str, str, str], begun_s: float) -> int:
        """Count an attempt without an answer, and return how many there were in succession.

        Tasks of this process may send the same request at once: that counts as one attempt.
        """
        count, ended_s = self._unanswered.get(key, (0, 0.0))
        if begun_s >= ended_s:
            count, ended_s = count + 1, time.monotonic()
        self._unanswered[key] = (count, ended_s)
        return count


async def _note_upload(request: Any, answer: Any) -> None:
    """Note the id of an upload in parts that has begun, before its first part is sent."""
    note = os.environ.get(UPLOADS_NOTE)
    query = urlsplit(request.url).query.split("&")
    if not note or request.method != "POST" or not {"uploads", "uploads="} & set(query):
        return
    if (found := _UPLOAD_ID.search(await answer.content)) is not None:
        handle = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, unescape(found[1].decode()).encode() + b"\n")
            os.fsync(handle)
        finally:
            os.close(handle)


async def _busy(url: str, answer: Any, pauses: Pauses) -> OSError:
    """Return the error of a request that a server has refused as long as it was repeated."""
    code = _CODE.search(await answer.content)
    what = f"HTTP status {answer.status_code}{f' ({code[1].decode()})' if code else ''}"
    asked = _text(answer.headers.get("retry-after"))
    in_s = f"{pauses.elapsed_s:.3g} s"
    text = f"{_server(url)} is busy: {what} after {pauses.made} repeats in {in_s}"
    if asked:
        text += f"; it asks to be left alone for: {asked} (Retry-After)"
    return BusyError(errno.EIO, text)


def _refuse_redirect(url: str, answer: Any) -> None:
    """Raise OSError for an error of another server, to which a redirect led.

    A signature is valid for one server only, and is left out of a redirected request: the other
    one denies access.
    """
    there = _server(str(answer.url))
    if answer.status_code >= 400 and there != _server(url):
        raise OSError(
            errno.EREMCHG,
            f"{_server(url)} redirects to {there}, which answers with HTTP status "
            f"{answer.status_code}: name that server as the endpoint",
        )


def _refuse_whole_object(wanted: str, answer: Any) -> None:
    """Raise OSError when a server ignores the range of a request.

    The client would take bytes from the object's beginning for those of the range.
    """
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    if answer.status_code != 200 or not (first.isdigit() and last.isdigit()):
        return
    size, sent = int(last) - int(first) + 1, answer.headers.get("content-length", "")
    if not sent.isdigit() or int(sent) > size:
        what = f"{sent} bytes" if sent.isdigit() else "a whole object"
        raise OSError(
            errno.EIO, f"the server sent {what} for a request of {size} bytes: it ignores ranges"
        )


def _refuse_other_range(wanted: str, answer: Any) -> None:
    """Raise OSError when a server sends another range than that of a request, or a part of it.

    The client would take it for the whole range. A range that ends beyond the object is cut there.
    """
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    said = _text(answer.headers.get("content-range"))
    found = _CONTENT_RANGE.match(said) if answer.status_code == 206 else None
    if found is None or not (first.isdigit() and last.isdigit()):
        return
    end = int(last) if found[3] == "*" else min(int(last), int(found[3]) - 1)
    size, sent = end - int(first) + 1, _text(answer.headers.get("content-length"))
    same = (int(found[1]), int(found[2])) == (int(first), end)
    if not same or (sent.isdigit() and int(sent) != size):
        raise OSError(
            errno.EIO,
            f"the server sent {sent or 'other'} bytes ({said.removeprefix('bytes ')}) for a "
            f"request of {size} bytes ({first}-{end})",
        )


def _server(url: str) -> str:
    split = urlsplit(url)
    return f"{split.scheme}://{split.netloc}"


def _text(value: Any) -> str:
    return os.fsdecode(value) if isinstance(value, bytes) else str(value or "")
