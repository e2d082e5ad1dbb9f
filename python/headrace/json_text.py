"""JSON objects in the output of a program, between messages of it and of others."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_BEGIN = re.compile(r"(?:(?<=\n)|(?<=\ufeff)|\A)\{")
_MOST_FAILURES = 100
"""Lines that begin with a brace and are no JSON, after which no more are tried."""


@dataclass(frozen=True)
class BrokenObject:
    """A line that begins with a brace, and no object does."""

    error: ValueError | RecursionError
    alone: bool
    """The brace stands alone, as programs print it: an object that is broken or cut off. With text
    behind it, it is part of a message."""


def json_objects(text: str) -> tuple[list[object], list[BrokenObject]]:
    """Return the JSON objects that begin a line, and what begins like one and is none."""
    decoder = json.JSONDecoder()
    found: list[object] = []
    broken: list[BrokenObject] = []
    at = 0
    while len(broken) < _MOST_FAILURES and (begin := _BEGIN.search(text, at)):
        try:
            content, at = decoder.raw_decode(text, begin.start())
            found.append(content)
        except (ValueError, RecursionError) as error:
            at = begin.end()
            broken.append(BrokenObject(error, text[at : at + 1] in ("", "\r", "\n")))
    return found, broken
