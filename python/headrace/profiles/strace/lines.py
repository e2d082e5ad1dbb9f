"""Imports `strace -f -ttt` text (better with -T and -y).

The recording has no CPU times, because strace does not show them. Time between two calls of a
thread counts as work. Without -T a call's own time is unknown and counts as work too.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TextIO

from headrace.errors import FileProblem, StudyError
from headrace.profiles.steps import RecordedFile, Recording, columns, opened_alone
from headrace.profiles.strace.reader import Reader

_LINE = re.compile(
    r"^(?:\[pid\s+(\d{1,10})(?:<[^>]*>)?\]\s+|(\d{1,10})(?:<[^>]*>)?\s+)?(\d{9,10}\.\d+)\s+"
    r"(?:\(\+\s*\d+\.\d+\)\s+)?(?:\[[\s0-9a-f?]+\]\s+)*(.*)$"
)
"""Process (with -Y its name, too), time, with -r the time since the line before, with -n and -i the
call's number and the instruction's address, call."""
_ATTACHED = re.compile(r"strace: Process (\d+) attached$")
"""strace prints this on standard error, in the middle of a line if its trace goes there too."""
_UNFINISHED = re.compile(r"^(\w+\(.*?),?\s*<unfinished \.\.\.>$")
_RESUMED = re.compile(r"^<\.\.\. (\w+) resumed>\s*(.*)$")


class _Lines:
    """Joins the lines of a trace to complete calls, and hands them to a reader."""

    def __init__(self) -> None:
        self.reader = Reader()
        self.count = 0
        self.first_ns = self.last_ns = 0
        self._waiting: dict[int, tuple[int, str]] = {}
        self._children: set[int] = set()
        self._torn = ""

    def read(self, line: str) -> None:
        """Read one line. Raises ValueError if it does not fit the format."""
        if attached := _ATTACHED.search(line):
            self._children.add(int(attached.group(1)))
            self._torn = line[: attached.start()]
            return
        found = _LINE.match(line)
        if found is None and self._torn:
            found, self._torn = _LINE.match(self._torn + line), ""
        if found is None:
            if self.count == 0 and line.strip():
                raise ValueError(
                    "no line of strace -f -ttt: a time in seconds since 1970 is expected"
                )
            return
        self.count += 1
        pid = int(found.group(1) or found.group(2) or 0)
        if found.group(1) and self._children and pid not in self._children:
            pid = 0  # the first process, which strace does not number while it is alone
        seconds, _, fraction = found.group(3).partition(".")
        at_ns = int(seconds) * 1_000_000_000 + int(fraction.ljust(9, "0")[:9])
        self.first_ns = min(self.first_ns or at_ns, at_ns)
        self.last_ns = max(self.last_ns, at_ns)
        self._call(pid, at_ns, found.group(4))

    def _call(self, pid: int, at_ns: int, text: str) -> None:
        if begun := _UNFINISHED.match(text):
            self._waiting[pid] = (at_ns, begun.group(1))
            self.reader.cloning(pid, begun.group(1))
        elif (resumed := _RESUMED.match(text)) and pid in self._waiting:
            begin_ns, call = self._waiting.pop(pid)
            self.reader.call(pid, begin_ns, call + resumed.group(2))
        else:
            self.reader.call(pid, at_ns, text)

    def notes(self, files: tuple[RecordedFile, ...]) -> tuple[str, ...]:
        """Return what the trace does not tell."""
        reader = self.reader
        notes = [
            "imported from strace: time between calls counts as work, since CPU times are not known"
        ]
        if not reader.rows:
            notes.append(
                "no call on a file with a known name: strace -y names files that were open "
                "before; strace-log-merge joins the files of -ff"
            )
        if reader.hidden:
            ways = ", ".join(sorted(reader.hidden))
            notes.append(f"{ways} was used: what was read and written that way is not in the trace")
        if reader.strangers:
            several = reader.strangers > 1
            notes.append(
                f"the start of {reader.strangers} process{'es' if several else ''} is not in the "
                "trace: what was done to files that were open before is missing, unless strace "
                "had -y"
            )
        if unnamed := sum(file.path[:1] != "/" and not file.software for file in files):
            one = unnamed == 1
            notes.append(
                f"{unnamed} file{' has a name' if one else 's have names'} relative to a folder "
                "that the trace does not name: strace -y names it"
            )
        if reader.maps:
            notes.append(
                f"{reader.maps} map{'s' if reader.maps > 1 else ''} of files (mmap): what was "
                "read and written through them is not in the trace"
            )
        if reader.holes:
            notes.append(
                f"{reader.holes} calls of fallocate made holes or zeroes, or moved data: they are "
                "left out"
            )
        if reader.untimed:
            notes.append("traced without -T: how long calls took is not known")
        return tuple(notes)


def read_strace(text: TextIO, path: Path, name: str) -> Recording:
    """Return the job of a trace. Raises StudyError that names the first line that does not fit, if
    the file is not a trace."""
    lines = _Lines()
    for number, line in enumerate(text, 1):
        try:
            lines.read(line.rstrip("\n"))
        except ValueError as error:
            raise StudyError(
                [FileProblem(path, number, "line", line.strip()[:60], str(error))]
            ) from None
    if not lines.count:
        raise StudyError([FileProblem(path, 0, "", "", "is empty: no call was traced")])
    reader, first = lines.reader, lines.first_ns
    named, rows = reader.files.finished(reader.rows)
    steps = columns([(start - first, end - first, *rest) for start, end, *rest in rows])
    files = opened_alone(named, steps)
    return Recording(
        name,
        "strace",
        files,
        steps,
        lines.last_ns - first,
        cpu_ns=int(steps.cpu_ns.sum()),
        processes=len(reader.pids),
        notes=lines.notes(files),
    )
