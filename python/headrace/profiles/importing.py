"""Recordings of other tools: detects the format of a file and reads it."""

from __future__ import annotations

import re
import shlex
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from headrace.errors import FileProblem, StudyError, UsageError
from headrace.profiles.darshan import read_darshan
from headrace.profiles.steps import Recording
from headrace.profiles.strace.lines import read_strace
from headrace.profiles.xrootd import read_xrootd
from headrace.text_file import opened_text

READERS: dict[str, Callable[[TextIO, Path, str], Recording]] = {
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


_LTRACE = re.compile(
    r"^(?:\[pid\s+\d+\]\s+|\d+\s+)?(?:[\d:.]+\s+)?"
    r"(?:(?:SYS_\w+|__libc_start_main)(?:@\w+)?|[\w.+-]+\.so[\w.]*->\w+)\(",
    re.MULTILINE,
)
"""Calls of libraries look like those of the kernel, but read and write through buffers."""
_OTHERS = {
    "is a trace of ltrace: calls of libraries, not of the kernel": _LTRACE,
    "is a trace of strace without times in seconds since 1970": re.compile(
        r"^(?:\[pid\s+\d+\]\s+|\d+\s+)?\s*(?:\d\d:\d\d:\d\d(?:\.\d+)?\s+|\d{1,8}\.\d+\s+)?"
        r"[a-z]\w*\(.*\)\s+= (?:-?\d|\?)",
        re.MULTILINE,
    ),
    "is strace's summary of calls (-c), not the calls": re.compile(
        r"^% time\s+seconds\s+usecs/call\s", re.MULTILINE
    ),
}
"""What is wrong with a text of strace, or of a similar program -> its sign."""
_HEAD = 16_384
"""Characters by which the format is told."""
_BINARY_DARSHAN = re.compile(rf"(?s).{{8}}{re.escape(struct.pack('<q', 6567223).decode())}")
"""Eight bytes of the version, and the magic number of a Darshan log (darshan-log-format.h, on
little-endian machines)."""


def read(path: Path, name: str, format: str | None = None) -> Recording:
    """Return the recording in a file of the given format, or of the format that its first lines
    show. Raises StudyError, UsageError."""
    if format is not None and format not in READERS:
        raise UsageError(f"--format: unknown format {format!r}; allowed: {', '.join(READERS)}")
    try:
        with opened_text(path) as text:
            head = text.read(_HEAD)
            text.seek(0)
            return READERS[format or _format(path, head)](text, path, name)
    except OSError as error:
        raise StudyError(
            [FileProblem(path, 0, "", "", f"cannot be read: {error.strerror}")]
        ) from None


def _format(path: Path, head: str) -> str:
    """Return the format of a recording by its first lines. Raises StudyError."""
    if _BINARY_DARSHAN.match(head):
        problem = (
            "is a binary Darshan log; import the text that "
            f"`darshan-dxt-parser {shlex.quote(str(path))}` prints (the program must have run with "
            "DXT_ENABLE_IO_TRACE set)"
        )
        raise StudyError([FileProblem(path, 0, "", "", problem)])
    found = next((each for each, sign in _SIGNS.items() if sign.search(head)), None)
    if found is None or (found == "strace" and _LTRACE.search(head)):
        for problem, sign in _OTHERS.items():
            if sign.search(head):
                allowed = "strace -f -ttt -T -y -o FILE COMMAND"
                raise StudyError([FileProblem(path, 0, "", "", problem, allowed)])
        problem = (
            "is empty" if not head.strip() else "is of none of the formats that can be imported"
        )
        raise StudyError([FileProblem(path, 0, "", "", problem, ", ".join(READERS))])
    return found
