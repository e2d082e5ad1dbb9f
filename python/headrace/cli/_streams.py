"""Standard streams as commands need them, whatever the caller left of them."""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import TextIO

from headrace.system.closed_streams import note_closed

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
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and _refuses_characters(stream):
            codecs.register_error(_ERRORS, _spelt)
            stream.reconfigure(errors=_ERRORS)


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
