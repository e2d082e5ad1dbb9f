"""HTTP requests of s3fs, made by aiobotocore: bounded waits, and answers that s3fs misreads.

Imported when a client is made: the libraries take a second to load.
"""

from __future__ import annotations

import errno
import os
import time
from typing import Any
from urllib.parse import urlsplit

from aiobotocore.httpsession import AIOHTTPSession
from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError
from typing_extensions import override

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

        Raises OSError after `ATTEMPTS` attempts without an answer, for an error that comes from
        where a redirect led, and for a whole object in answer to a range.
        """
        wanted = _text(request.headers.get("Range"))
        key = (request.method, request.url, wanted)
        begun_s = time.monotonic()
        try:
            answer: Any = await super().send(request)
        except (ReadTimeoutError, ConnectTimeoutError):
            if self._attempts(key, begun_s) < ATTEMPTS:
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


def _server(url: str) -> str:
    split = urlsplit(url)
    return f"{split.scheme}://{split.netloc}"


def _text(value: Any) -> str:
    return os.fsdecode(value) if isinstance(value, bytes) else str(value or "")
