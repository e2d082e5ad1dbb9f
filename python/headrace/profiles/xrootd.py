"""Imports the CSV of XRootD's client recorder (XrdClRecorder, `XRD_RECORDERPATH`).

It has opens, reads, vector reads and writes of URLs, with times. A line is
`file id,action,start,arguments;timeout,end,status,response`, each between quotes from XRootD 6 on;
times in seconds since 1970. A vector read becomes one step per range, all with its times. CPU times
are unknown: time between two actions of a file counts as work.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from headrace.errors import Fault, StudyError
from headrace.profiles.steps import Op, RecordedFile, Recording, columns, in_range, whole_number

_LINE = re.compile(r"^(\d+),(\w+),(\d+\.\d+),(.*?),(\d+\.\d+),([^,]*),?(.*)$")
_TIME = re.compile(r"^\d+\.\d+$")
_UPDATES = 0x0002 | 0x0008
"""XrdCl's OpenFlags::Delete and ::New: the file is created anew."""


def read_xrootd(path: Path, name: str) -> Recording:
    """Return the job of a recording. Raises StudyError that names the first line that does not fit
    the format."""
    files: dict[str, int] = {}
    facts: dict[int, RecordedFile] = {}
    opened: dict[str, int] = {}
    raw: list[tuple[int, int, int, int, int, int]] = []
    failed = 0
    with path.open(errors="replace") as text:
        for number, line in enumerate(text, 1):
            line = line.strip()
            if not line:
                continue
            fields = _fields(line)
            if fields is None:
                problem = (
                    "no line of XRootD's recorder: id,action,start,arguments,end,status,response"
                )
                raise StudyError([Fault(path, number, "line", line[:60], problem)])
            identity, action, start_text, argument_text, end_text, status, response = fields
            try:
                start, end = (_ns(each) for each in (start_text, end_text))
            except ValueError as error:
                raise StudyError([Fault(path, number, "line", line[:60], str(error))]) from None
            arguments = argument_text.split(";")[:-1]
            if "SUCCESS" not in status:
                failed += 1
                continue
            if action == "Open":
                if not arguments:
                    raise StudyError(
                        [Fault(path, number, "line", line[:60], "an open without a URL")]
                    )
                url = arguments[0]
                index = opened[identity] = files.setdefault(url, len(files))
                flags = int(arguments[1]) if len(arguments) > 1 and arguments[1].isdigit() else 0
                facts.setdefault(index, RecordedFile(url, 0, bool(flags & _UPDATES)))
                raw.append((start, end, int(Op.OPEN), index, 0, 0))
                continue
            index = opened.get(identity)
            if index is None:
                continue
            try:
                raw += [(start, end, *each) for each in _steps(action, index, arguments, response)]
                if action == "Stat" and (size := response.split(";")[0]).isdigit():
                    facts[index] = RecordedFile(
                        facts[index].path, whole_number(size), facts[index].created
                    )
            except (ValueError, IndexError) as error:
                problem = (
                    f"arguments of {action}: {error}"
                    if isinstance(error, ValueError)
                    else f"{action} lacks arguments"
                )
                raise StudyError([Fault(path, number, "line", line[:60], problem)]) from None
    if not raw:
        raise StudyError([Fault(path, 0, "", "", "no action of XRootD's recorder succeeded in it")])
    first = min(row[0] for row in raw)
    raw.sort()
    rows: list[tuple[int, ...]] = []
    reached = first
    for start, end, op, index, offset, length in raw:
        rows.append(
            (
                start - first,
                max(start, end) - first,
                0,
                op,
                index,
                offset,
                length,
                max(0, start - reached),
            )
        )
        reached = max(reached, end)
        if op == Op.READ and not facts[index].created and offset + length > facts[index].bytes:
            facts[index] = RecordedFile(facts[index].path, offset + length)
    steps = columns(rows)
    notes = ["imported from XRootD's client recorder: time between actions counts as work"]
    if failed:
        notes.append(f"{failed} actions that failed are left out")
    return Recording(
        name,
        "xrootd",
        tuple(facts[index] for index in range(len(files))),
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
