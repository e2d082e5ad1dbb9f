"""What a protocol's client says of a failure, as one line for people."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import urlsplit

_MOST_CHARACTERS = 400


def cause_of(error: BaseException) -> str:
    """Return the cause of a client's exception: the innermost one with a text.

    Some clients raise exceptions without a text, or fail while they handle the first one.
    """
    chain = list(_chain(error))
    late = [text for each in chain if isinstance(each, TimeoutError) and (text := str(each))]
    if late:
        return _line(f"no answer in time: {late[0]}")
    if any(isinstance(each, TimeoutError) for each in chain):
        return "no answer in time"
    if (unreachable := _no_connection(chain)) is not None:
        return _line(unreachable)
    for each in reversed(chain):
        if (status := _bare_status(each)) is not None:
            return status
    causes = [error]
    while (inner := causes[-1].__cause__) is not None:
        causes.append(inner)
    texts = (_own_text(each) for each in (causes[-1], error))
    return _line(next(filter(None, texts), type(error).__name__))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and those that led to it, as a traceback shows them."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)


def _own_text(error: BaseException) -> str:
    """Return the text of an exception, without the error number of an OSError."""
    if isinstance(error, OSError) and error.strerror and error.filename is None:
        return str(error.strerror)
    return str(error).strip()


def _no_connection(chain: Sequence[BaseException]) -> str | None:
    """Return the server to which botocore could not connect, with the system's reason.

    Its own text has the URL of an object and no reason.
    """
    for each in chain:
        facts = cast("dict[str, Any]", getattr(each, "kwargs", None) or {})
        if type(each).__name__ == "EndpointConnectionError" and "endpoint_url" in facts:
            url = urlsplit(str(facts["endpoint_url"]))
            inner = next((one for one in reversed(chain) if isinstance(one, OSError)), None)
            number = (inner.errno if inner is not None else None) or 0
            # Errors of name resolution have negative numbers of their own.
            reason = os.strerror(number) if number > 0 else _own_text(inner or each)
            return f"{url.scheme}://{url.netloc} cannot be reached: {reason}"
    return None


def _bare_status(error: BaseException) -> str | None:
    """Return the HTTP status of an answer of S3 that names no error, such as a proxy's."""
    answer: Any = getattr(error, "response", None)
    if not isinstance(answer, dict):
        return None
    said = cast("dict[str, Any]", answer)
    status = said.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if said.get("Error", {}).get("Code") or not isinstance(status, int):
        return None
    known = {each.value for each in HTTPStatus}
    phrase = f" {HTTPStatus(status).phrase}" if status in known else ""
    return f"HTTP status {status}{phrase}, and no error of S3 with it"


def _line(text: str) -> str:
    return " ".join(text.split())[:_MOST_CHARACTERS]
