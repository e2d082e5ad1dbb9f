"""Standard streams as commands need them, whatever the caller left of them."""

from __future__ import annotations

import codecs
import io
import os
import select
import sys
from typing import TYPE_CHECKING, TextIO

from headrace.system.closed_streams import note_closed

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_SPELT = {
    "\u202f": " ", "\u00a0": " ", "–": "-", "−": "-", "×": "x", "±": "+-", "≥": ">=", "→": "->",
    "…": ".", "µ": "u", "·": ".", "’": "'", "“": '"', "”": '"',
}  # fmt: skip
"""Characters of numbers and sentences, for terminals that lack them: a minus that is replaced by a
question mark makes another number. One character each where tables have them."""
_ERRORS = "headrace-spelt"


def secure_streams() -> None:
    """Open what is closed of descriptors 0 to 2, and make text printable in any encoding.

    A closed descriptor would be given to the next file that is opened, and a program that is
    started later would read or write that file as its standard stream.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free descriptor is used, and those below it are open by now.
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
            note_closed(descriptor)
            stream = open(descriptor, "w" if descriptor else "r", encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
    sys.stdout, sys.stderr = _waiting(sys.stdout), _waiting(sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and _refuses_characters(stream):
            codecs.register_error(_ERRORS, _spelt)
            stream.reconfigure(errors=_ERRORS)


class _WaitingFile(io.FileIO):
    """A file whose writes wait, although another program has made it non-blocking."""

    def write(self, data: ReadableBuffer, /) -> int:
        while (written := super().write(data)) is None:  # pyright: ignore[reportUnnecessaryComparison]
            room = select.poll()
            room.register(self, select.POLLOUT)
            room.poll()
        return written


def _waiting(stream: TextIO) -> TextIO:
    """Return the stream, or in its place one that waits for a reader that is slow.

    Whatever shares the pipe or terminal may have made it non-blocking, as node does. Python drops
    what such a pipe does not take at once. The mode stays: it belongs to all who share it.
    """
    if not isinstance(stream, io.TextIOWrapper) or _without_file(stream):
        return stream
    if os.get_blocking(stream.fileno()):
        return stream
    raw = _WaitingFile(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), stream.encoding, stream.errors,
        line_buffering=stream.line_buffering, write_through=stream.write_through,
    )  # fmt: skip


def _without_file(stream: TextIO) -> bool:
    """Return whether a stream is only in memory, as a program that calls `main` may give it."""
    try:
        stream.fileno()
    except io.UnsupportedOperation:
        return True
    return False


def _refuses_characters(stream: io.TextIOWrapper) -> bool:
    """Return whether printing some characters raises UnicodeEncodeError.

    `surrogateescape`, of the locale C, only helps with names of files that are no UTF-8.
    """
    utf_8 = codecs.lookup(stream.encoding).name == "utf-8"
    return stream.errors == "strict" or (stream.errors == "surrogateescape" and not utf_8)


def _spelt(error: UnicodeError) -> tuple[str, int]:
    """Return what replaces characters that cannot be encoded."""
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(_SPELT.get(each, "?") for each in lacking), error.end


def silence_output() -> None:
    """Let what is still buffered for standard output go nowhere."""
    _silence(sys.__stdout__, 1)


def silence_errors() -> None:
    """Let what is still buffered for standard error go nowhere.

    Python ends with exit code 120 if it cannot be written at the end.
    """
    _silence(sys.__stderr__, 2)


def flush_errors() -> None:
    """Write what is still buffered for standard error, or let it go nowhere if that fails."""
    try:
        sys.stderr.flush()
    except OSError:
        silence_errors()


def _silence(stream: TextIO | None, descriptor: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno() if stream else descriptor)
    os.close(nowhere)
