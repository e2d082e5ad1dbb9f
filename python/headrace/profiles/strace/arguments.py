"""Arguments of calls as strace prints them."""

from __future__ import annotations

import os
import re

from headrace.profiles.steps import whole_number

DESCRIPTOR = re.compile(r"^(\d{1,10})(?:<([^>]*)>)?")
DIRECTORY = re.compile(r"^AT_FDCWD<([^>]*)>")
"""With -y: the working directory."""
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(x[0-9a-f]{2}|[0-7]{1,3}|.)")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f"}
GIVEN_OFFSET = re.compile(r"^\[(\d{1,19})\]")


def descriptor(arguments: str) -> int:
    """Return a call's first descriptor; -1 if it has none."""
    found = DESCRIPTOR.match(arguments)
    return -1 if found is None else int(found.group(1))


def offset_given(name: str, arguments: str) -> int | None:
    """Return the offset that a call gives; None if it is -1 (preadv2), the descriptor's own."""
    text = arguments.rsplit("]" if "v" in name else '"', 1)[-1]
    numbers = re.findall(r"-?\d+", text)
    if not numbers or (given := numbers[1] if len(numbers) > 1 else numbers[0]).startswith("-"):
        return None
    return whole_number(given)


def unescaped(text: str) -> str:
    """Return a name as it is: strace writes all but ASCII as octal numbers of bytes. Raises
    ValueError for a name that no file has."""
    if "\\" not in text:
        return text

    def plain(found: re.Match[str]) -> str:
        code = found.group(1)
        if code[0] == "x" and len(code) == 3:
            return chr(int(code[1:], 16))
        return chr(int(code, 8) & 255) if code[0] in "01234567" else _LETTERS.get(code, code)

    # Each character is a byte now, and the bytes are the name's UTF-8.
    name = os.fsdecode(_ESCAPED.sub(plain, text).encode("latin-1", "replace"))
    if "\0" in name:
        raise ValueError("a name holds the character NUL, which no name can have")
    return name
