"""Recordings of other tools: detects the format of a file and reads it."""

from __future__ import annotations

import re
import shlex
import struct
from collections.abc import Callable
from pathlib import Path

from headrace.errors import FileProblem, StudyError, UsageError
from headrace.profiles.darshan import read_darshan
from headrace.profiles.steps import Recording
from headrace.profiles.strace.lines import read_strace
from headrace.profiles.xrootd import read_xrootd

READERS: dict[str, Callable[[Path, str], Recording]] = {
    "strace": read_strace,
    "darshan": read_darshan,
    "xrootd": read_xrootd,
}

_SIGNS = {
    "darshan": re.compile(r"^# (?:darshan|DXT)", re.MULTILINE | re.IGNORECASE),
    "xrootd": re.compile(
        r'^"?\d+"?,"?(?:Open|Close|Read|Stat|VectorRead|Write|PgRead|PgWrite|Sync)"?,"?\d+\.\d+"?,',
        re.MULTILINE,
    ),
    "strace": re.compile(
        r"^(?:\[pid\s+\d+(?:<[^>]*>)?\]\s+|\d+(?:<[^>]*>)?\s+)?\d{9,}\.\d+\s+\S", re.MULTILINE
    ),
}


_BINARY_DARSHAN = struct.pack("<q", 6567223)
"""The eight bytes after the version of a Darshan log (darshan-log-format.h, on little-endian
machines)."""


def read(path: Path, name: str, format: str | None = None) -> Recording:
    """Return the recording in a file of the given format, or of the format that its first lines
    show. Raises StudyError, UsageError."""
    if format is not None and format not in READERS:
        raise UsageError(f"--format: unknown format {format!r}; allowed: {', '.join(READERS)}")
    try:
        with path.open("rb") as file:
            raw = file.read(16_384)
    except OSError as error:
        raise StudyError(
            [FileProblem(path, 0, "", "", f"cannot be read: {error.strerror}")]
        ) from None
    if raw[8:16] == _BINARY_DARSHAN:
        problem = (
            "is a binary Darshan log; import the text that "
            f"`darshan-dxt-parser {shlex.quote(str(path))}` prints (the program must have run with "
            "DXT_ENABLE_IO_TRACE set)"
        )
        raise StudyError([FileProblem(path, 0, "", "", problem)])
    head = raw.decode(errors="replace")
    if format is None:
        format = next((each for each, sign in _SIGNS.items() if sign.search(head)), None)
        if format is None:
            problem = (
                "is empty" if not head.strip() else "is of none of the formats that can be imported"
            )
            raise StudyError([FileProblem(path, 0, "", "", problem, ", ".join(READERS))])
    return READERS[format](path, name)
