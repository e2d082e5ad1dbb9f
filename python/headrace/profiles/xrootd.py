"""Imports the CSV of XRootD's client recorder (XrdClRecorder, `XRD_RECORDERPATH`).

It has opens, reads, vector reads and writes of URLs, with times. A line is
`file id,action,start,arguments;timeout,end,status,response`, each between quotes from XRootD 6 on;
times in seconds since 1970. A vector read becomes one step per range, all with its times. CPU times
are unknown: time between two actions of a file counts as work.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from headrace.errors import FileProblem, StudyError
from headrace.profiles.steps import Op, RecordedFile, Recording, columns, in_range, whole_number

_LINE = re.compile(r"^(\d+),(\w+),(\d+\.\d+),(.*?),(\d+\.\d+),([^,]*),?(.*)$")
_TIME = re.compile(r"^\d+\.\d+$")
_UPDATES = 0x0002 | 0x0008
"""XrdCl's OpenFlags::Delete and ::New: the file is created anew."""


@dataclass
class _Actions:
    """What the lines read so far say."""

    files: dict[str, int] = field(default_factory=dict[str, int])
    facts: dict[int, RecordedFile] = field(default_factory=dict[int, RecordedFile])
    rows: list[tuple[int, int, int, int, int, int]] = field(
        default_factory=list[tuple[int, int, int, int, int, int]]
    )
    """Start, end, operation, file, offset, length."""
    failed: int = 0
    _opened: dict[str, int] = field(default_factory=dict[str, int])

    def read(self, line: str) -> None:
        """Read one line. Raises ValueError if it does not fit the format."""
        fields = _fields(line)
        if fields is None:
            raise ValueError(
                "no line of XRootD's recorder: id,action,start,arguments,end,status,response"
            )
        identity, action, start_text, argument_text, end_text, status, response = fields
        start, end = (_ns(each) for each in (start_text, end_text))
        arguments = argument_text.split(";")[:-1]
        if "SUCCESS" not in status:
            self.failed += 1
        elif action == "Open":
            self.rows.append((start, end, int(Op.OPEN), self._open(identity, arguments), 0, 0))
        elif (index := self._opened.get(identity)) is not None:
            steps = self._on_open_file(action, index, arguments, response)
            self.rows += [(start, end, *each) for each in steps]

    def _open(self, identity: str, arguments: list[str]) -> int:
        if not arguments:
            raise ValueError("an open without a URL")
        url = arguments[0]
        index = self._opened[identity] = self.files.setdefault(url, len(self.files))
        flags = int(arguments[1]) if len(arguments) > 1 and arguments[1].isdigit() else 0
        self.facts.setdefault(index, RecordedFile(url, 0, bool(flags & _UPDATES)))
        return index

    def _on_open_file(
        self, action: str, index: int, arguments: list[str], response: str
    ) -> list[tuple[int, int, int, int]]:
        try:
            steps = _steps(action, index, arguments, response)
            if action == "Stat" and (size := response.split(";")[0]).isdigit():
                known = self.facts[index]
                self.facts[index] = RecordedFile(known.path, whole_number(size), known.created)
        except IndexError:
            raise ValueError(f"{action} lacks arguments") from None
        except ValueError as error:
            raise ValueError(f"arguments of {action}: {error}") from None
        return steps

    def ordered(self) -> list[tuple[int, ...]]:
        """Return the rows of a profile in order of time; files are as long as was read of them."""
        first = reached = min(row[0] for row in self.rows)
        found: list[tuple[int, ...]] = []
        for start, end, op, index, offset, length in sorted(self.rows):
            work = max(0, start - reached)
            found.append(
                (start - first, max(start, end) - first, 0, op, index, offset, length, work)
            )
            reached = max(reached, end)
            known = self.facts[index]
            if op == Op.READ and not known.created and offset + length > known.bytes:
                self.facts[index] = RecordedFile(known.path, offset + length)
        return found


def read_xrootd(text: TextIO, path: Path, name: str) -> Recording:
    """Return the job of a recording. Raises StudyError that names the first line that does not fit
    the format."""
    actions = _Actions()
    for number, line in enumerate(text, 1):
        if line := line.strip():
            try:
                actions.read(line)
            except ValueError as error:
                raise StudyError(
                    [FileProblem(path, number, "line", line[:60], str(error))]
                ) from None
    if not actions.rows:
        raise StudyError(
            [FileProblem(path, 0, "", "", "no action of XRootD's recorder succeeded in it")]
        )
    steps = columns(actions.ordered())
    notes = ["imported from XRootD's client recorder: time between actions counts as work"]
    if actions.failed:
        notes.append(f"{actions.failed} actions that failed are left out")
    return Recording(
        name,
        "xrootd",
        tuple(actions.facts[index] for index in range(len(actions.files))),
        steps,
        int(steps.end_ns.max()),
        cpu_ns=int(steps.cpu_ns.sum()),
        notes=tuple(notes),
    )


def _fields(line: str) -> Sequence[str] | None:
    """Return the seven fields of a line; None if it is no such line."""
    if line.startswith('"'):
        # Nothing within the quotes is escaped, and a URL or a message can contain commas.
        fields = line.removeprefix('"').removesuffix('"').split('","')
        return (
            fields if len(fields) == 7 and all(_TIME.match(fields[at]) for at in (2, 4)) else None
        )
    found = _LINE.match(line)
    return None if found is None else found.groups()


def _ns(text: str) -> int:
    seconds, _, fraction = text.partition(".")
    return in_range(whole_number(seconds) * 1_000_000_000 + int(fraction.ljust(9, "0")[:9]))


def _steps(
    action: str, file: int, arguments: list[str], response: str
) -> list[tuple[int, int, int, int]]:
    """Return (operation, file, offset, bytes) of an action on an open file."""
    if action in ("Read", "PgRead"):
        got = response.split(";")[0]
        return [
            (
                int(Op.READ),
                file,
                whole_number(arguments[0]),
                whole_number(got if got.isdigit() else arguments[1]),
            )
        ]
    if action in ("Write", "PgWrite"):
        return [(int(Op.WRITE), file, whole_number(arguments[0]), whole_number(arguments[1]))]
    if action in ("VectorRead", "VectorWrite"):
        op = Op.READ if action == "VectorRead" else Op.WRITE
        if len(arguments) % 2:
            raise IndexError
        pairs = zip(arguments[0::2], arguments[1::2], strict=True)
        return [
            (int(op), file, whole_number(offset), whole_number(length)) for offset, length in pairs
        ]
    simple = {"Close": Op.CLOSE, "Sync": Op.SYNC, "Stat": Op.STAT}
    return [(int(simple[action]), file, 0, 0)] if action in simple else []
