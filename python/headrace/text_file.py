"""Base layer: text that other programs wrote, in a file or a pipe, and its encoding."""

from __future__ import annotations

import codecs
import io
import shlex
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from headrace.errors import FileProblem, StudyError

_PACKED = {
    b"\xfd7zXZ\0": ("xz", "xz -dk"),
    b"\x1f\x8b": ("gzip", "gzip -dk"),
    b"BZh": ("bzip2", "bzip2 -dk"),
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -dk"),
    b"PK\x03\x04": ("zip", "unzip"),
}
"""First bytes of compressed files -> name, and the command that unpacks them."""
_BYTE_ORDER_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_HEAD_BYTES = 4096


def check_unpacked(file: Path, head: bytes, place: str = "") -> None:
    """Refuse a file whose first bytes are those of a compressed one. Raises StudyError.

    `place` is the field that the message names.
    """
    for magic, (program, command) in _PACKED.items():
        if head.startswith(magic):
            allowed = f"the unpacked file: {command} {shlex.quote(file.name)}"
            problem = f"is compressed ({program})"
            raise StudyError([FileProblem(file, 0, place, "", problem, allowed)])


def encoding_of(head: bytes) -> str:
    """Return the encoding of a text by its first bytes: UTF-16, as programs of Windows write it,
    or UTF-8."""
    marked = _BYTE_ORDER_MARKS.get(head[:2])
    if marked is not None:
        return marked
    # Without a mark: half of the bytes of Western text are zero.
    head = head[: _HEAD_BYTES // 2 * 2]
    half = len(head) // 2
    for first, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        if half and head[first::2].count(0) > 0.9 * half and not head[1 - first :: 2].count(0):
            return encoding
    return "utf-8-sig"


def decoded(raw: bytes) -> str:
    """Return a text; bytes that do not fit its encoding become U+FFFD."""
    return raw.decode(encoding_of(raw[:_HEAD_BYTES]), errors="replace")


@contextmanager
def opened_text(file: Path) -> Generator[TextIO]:
    """Open a text that can be read more than once: what a pipe holds is copied to a temporary file.

    Raises OSError, and StudyError for a compressed file.
    """
    with file.open("rb") as given, tempfile.TemporaryFile() as copy:
        data: io.BufferedIOBase = given
        if not given.seekable():
            shutil.copyfileobj(given, copy)
            copy.seek(0)
            data = copy
        head = data.read(_HEAD_BYTES)
        check_unpacked(file, head)
        data.seek(0)
        # Not closed with the text: `given` and `copy` are closed here.
        text = io.TextIOWrapper(data, encoding=encoding_of(head), errors="replace")
        try:
            yield text
        finally:
            text.detach()
