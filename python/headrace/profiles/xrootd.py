"""Imports the CSV of XRootD's client recorder (XrdClRecorder, `XRD_RECORDERPATH`): opens, reads, vector reads, writes of URLs, with times.

A line is `file id,action,start,arguments;timeout,end,status,response`, each between quotes from XRootD 6 on; times in seconds since 1970. A
vector read becomes one step a range, all with its times. CPU times are not known: what lies between two actions of a file counts as work.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from headrace.errors import Fault, StudyError
from headrace.profiles.steps import Op, RecordedFile, Recording, columns

_LINE = re.compile(r"^(\d+),(\w+),(\d+\.\d+),(.*?),(\d+\.\d+),([^,]*),?(.*)$")
_TIME = re.compile(r"^\d+\.\d+$")
_UPDATES = 0x0002 | 0x0008
"""XrdCl's OpenFlags::Delete and ::New: the file is made anew."""


def read_xrootd(path: Path, name: str) -> Recording:
    """The job that a recording is of. Raises StudyError naming the line that is none of such a recording."""
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
                problem = "no line of XRootD's recorder: id,action,start,arguments,end,status,response"
                raise StudyError([Fault(path, number, "line", line[:60], problem)])
            identity, action, start_text, argument_text, end_text, status, response = fields
            start, end = (_ns(each) for each in (start_text, end_text))
            arguments = argument_text.split(";")[:-1]
            if "SUCCESS" not in status:
                failed += 1
                continue
            if action == "Open":
                url = arguments[0]
                index = opened[identity] = files.setdefault(url, len(files))
                flags = int(arguments[1]) if len(arguments) > 1 and arguments[1].isdigit() else 0
                facts.setdefault(index, RecordedFile(url, 0, bool(flags & _UPDATES)))
                raw.append((start, end, int(Op.OPEN), index, 0, 0))
                continue
            index = opened.get(identity)
            if index is None:
                continue
            raw += [(start, end, *each) for each in _steps(action, index, arguments, response)]
            if action == "Stat" and (size := response.split(";")[0]).isdigit():
                facts[index] = RecordedFile(facts[index].path, int(size), facts[index].created)
    if not raw:
        raise StudyError([Fault(path, 0, "file", "", "no action of XRootD's recorder succeeded in it")])
    first = min(row[0] for row in raw)
    raw.sort()
    rows: list[tuple[int, ...]] = []
    reached = first
    for start, end, op, index, offset, length in raw:
        rows.append((start - first, end - first, 0, op, index, offset, length, max(0, start - reached)))
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
    """The seven fields of a line; None when it is no such line."""
    if line.startswith('"'):
        # Nothing within the quotes is escaped, and a URL or a message may have commas.
        fields = line.removeprefix('"').removesuffix('"').split('","')
        return fields if len(fields) == 7 and all(_TIME.match(fields[at]) for at in (2, 4)) else None
    found = _LINE.match(line)
    return None if found is None else found.groups()


def _ns(text: str) -> int:
    seconds, _, fraction = text.partition(".")
    return int(seconds) * 1_000_000_000 + int(fraction.ljust(9, "0")[:9])


def _steps(action: str, file: int, arguments: list[str], response: str) -> list[tuple[int, int, int, int]]:
    """(operation, file, offset, bytes) of an action on an open file."""
    if action in ("Read", "PgRead"):
        got = response.split(";")[0]
        return [(int(Op.READ), file, int(arguments[0]), int(got) if got.isdigit() else int(arguments[1]))]
    if action in ("Write", "PgWrite"):
        return [(int(Op.WRITE), file, int(arguments[0]), int(arguments[1]))]
    if action in ("VectorRead", "VectorWrite"):
        op = Op.READ if action == "VectorRead" else Op.WRITE
        pairs = zip(arguments[0::2], arguments[1::2], strict=True)
        return [(int(op), file, int(offset), int(length)) for offset, length in pairs]
    simple = {"Close": Op.CLOSE, "Sync": Op.SYNC, "Stat": Op.STAT}
    return [(int(simple[action]), file, 0, 0)] if action in simple else []
