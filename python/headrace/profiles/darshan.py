"""Imports the output of `darshan-dxt-parser`: all POSIX reads and writes, with times.

Each rank, or each thread of a rank where the listing names threads, becomes a thread. DXT has no
opens, stats or CPU times: time between two accesses of a thread counts as work.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from headrace.errors import FileProblem, StudyError
from headrace.profiles.software import is_software
from headrace.profiles.steps import (
    MOST_THREADS,
    Op,
    RecordedFile,
    Recording,
    columns,
    nanoseconds,
    whole_number,
)

_MODULE = "X_POSIX"
_OF_POSIX = "X_MPIIO"
"""Ignored: MPI-IO accesses are made by POSIX accesses, and would count twice."""
_FILE = re.compile(r"^# DXT, file_id: *(?P<id>\d*), file_name:(?P<name>.*)$")
_COUNTS = re.compile(r"^# DXT, write_count: (\d{1,18}), read_count: (\d{1,18})")


@dataclass
class _Listing:
    """What the lines read so far say."""

    files: dict[str, int] = field(default_factory=dict[str, int])
    """Identity (file_id) -> number. Names do not tell files apart: all that Darshan does not know
    are called `?`."""
    names: list[str] = field(default_factory=list[str])
    sizes: dict[int, int] = field(default_factory=dict[int, int])
    """File -> end of what was read of it, bytes."""
    written: dict[int, int] = field(default_factory=dict[int, int])
    """File -> end of what was written to it, bytes."""
    first: dict[tuple[int, Op], int] = field(default_factory=dict[tuple[int, Op], int])
    """File and operation -> start of the earliest access that moved bytes. A listing has all writes
    of a file before its reads."""
    threads: dict[tuple[int, str], int] = field(default_factory=dict[tuple[int, str], int])
    """Rank and thread as printed -> number, in the order of the listing."""
    accesses: list[tuple[int, int, int, int, int, int, int]] = field(
        default_factory=list[tuple[int, int, int, int, int, int, int]]
    )
    """Start, end, thread, operation, file, offset, length."""
    facts: dict[str, str] = field(default_factory=dict[str, str])
    other_modules: set[str] = field(default_factory=set[str])
    counted: int = 0
    """Accesses of all modules, as the heads of the files count them."""
    listed: int = 0
    current: int | None = None
    """The file that the following accesses are of."""

    def head(self, line: str) -> None:
        """Read a line that begins with #."""
        key, _, value = line.lstrip("# ").partition(":")
        self.facts.setdefault(key.strip(), value.strip())
        if file := _FILE.match(line):
            name = file["name"].strip()
            self.current = self.files.setdefault(file["id"] or name, len(self.files))
            if self.current == len(self.names):
                self.names.append(name)
        elif counts := _COUNTS.match(line):
            self.counted += int(counts.group(1)) + int(counts.group(2))

    def access(self, fields: list[str]) -> None:
        """Read a line of one access. Raises ValueError if it does not fit the format."""
        # MPI-IO lines have an offset in some versions only.
        if len(fields) > 3 and fields[3].startswith(f"{fields[0]}_"):
            raise ValueError(
                "a counter, as darshan-parser prints it: import what darshan-dxt-parser prints of "
                "the log (the program must have run with DXT_ENABLE_IO_TRACE set)"
            )
        if not fields[0].startswith("X_") or len(fields) < (8 if fields[0] == _MODULE else 7):
            raise ValueError(
                "no line of darshan-dxt-parser: module, rank, read or write, segment, "
                "offset, length, start, end"
            )
        self.listed += 1
        if fields[0] != _MODULE:
            self.other_modules.add(fields[0])
            return
        if self.current is None:
            raise ValueError("an access before any file was named")
        offset, length = (whole_number(fields[at]) for at in (4, 5))
        rank = whole_number(fields[1], MOST_THREADS)
        start, end = (nanoseconds(each) for each in fields[6:8])
        if end < start:
            raise ValueError("the access ends before it starts")
        op = Op.WRITE if fields[2] == "write" else Op.READ
        if length:
            key = (self.current, op)
            self.first[key] = min(self.first.get(key, start), start)
        reached = self.sizes if op == Op.READ else self.written
        reached[self.current] = max(reached.get(self.current, 0), offset + length)
        named = fields[8] if len(fields) > 8 and fields[8].isdecimal() else ""
        thread = self.threads.setdefault((rank, named), len(self.threads))
        self.accesses.append((start, end, thread, int(op), self.current, offset, length))

    def notes(self) -> tuple[str, ...]:
        """Return what the listing does not tell."""
        notes = [
            "imported from Darshan DXT: time between accesses counts as work; opens and stats are "
            "not known"
        ]
        if left_out := sorted(self.other_modules - {_OF_POSIX}):
            notes.append(f"accesses of {', '.join(left_out)} are left out")
        if self.listed < self.counted:
            notes.append(
                f"the listing is not complete: it has {self.listed} of the {self.counted} accesses "
                "that it counts"
            )
        return tuple(notes)

    def _created(self, index: int) -> bool:
        """Return whether a file was written before anything was read of it, as far as was read."""
        written, read = (self.first.get((index, op)) for op in (Op.WRITE, Op.READ))
        if written is None or self.sizes.get(index, 0) > self.written[index]:
            return False
        return read is None or written <= read

    def ordered(self) -> list[tuple[int, ...]]:
        """Return the accesses in order of time, their threads numbered in order of rank."""
        number = {self.threads[key]: at for at, key in enumerate(sorted(self.threads))}
        return sorted((*each[:2], number[each[2]], *each[3:]) for each in self.accesses)

    def recorded_files(self) -> tuple[RecordedFile, ...]:
        """Return the files. Names that several have are told apart by the files' identities."""
        several = {name for name, times in Counter(self.names).items() if times > 1}
        return tuple(
            RecordedFile(
                f"{name} (file_id {identity})" if name in several else name,
                self.sizes.get(index, 0),
                self._created(index),
                False,
                is_software(name),
            )
            for name, (identity, index) in zip(self.names, self.files.items(), strict=True)
        )


def read_darshan(text: TextIO, path: Path, name: str) -> Recording:
    """Return the job of a listing. Raises StudyError that names the first line that does not fit
    the format."""
    listing = _Listing()
    for number, line in enumerate(text, 1):
        cut = not line.endswith("\n")
        line = line.strip()
        if line.startswith("#"):
            listing.head(line)
        elif line:
            try:
                listing.access(line.split())
                if cut and _lacks_digits(line.split()):
                    raise ValueError("the last line is cut within its last number")
            except ValueError as error:
                raise StudyError(
                    [FileProblem(path, number, "line", line[:60], str(error))]
                ) from None
    if not listing.accesses:
        problem = (
            f"has no access of the module {_MODULE}: the program must have run with "
            "DXT_ENABLE_IO_TRACE set"
        )
        raise StudyError([FileProblem(path, 0, "", "", problem)])
    ends: dict[int, int] = {}
    rows: list[tuple[int, ...]] = []
    for start, end, thread, *rest in listing.ordered():
        rows.append((start, max(start, end), thread, *rest, max(0, start - ends.get(thread, 0))))
        ends[thread] = end
    steps = columns(rows)
    facts = listing.facts
    run_ns = _run_time_ns(facts.get("run time", facts.get("run time (s)", "")))
    return Recording(
        name,
        "darshan-dxt",
        listing.recorded_files(),
        steps,
        max(run_ns, int(steps.end_ns.max())),
        cpu_ns=int(steps.cpu_ns.sum()),
        command=tuple(facts.get("exe", "").split()),
        processes=len({rank for rank, _ in listing.threads}),
        notes=listing.notes(),
    )


def _lacks_digits(fields: list[str]) -> bool:
    """Return whether the end of an access has fewer decimals than its start: Darshan writes as
    many."""
    start, end = (each.partition(".")[2] for each in fields[6:8])
    return len(fields) == 8 and len(end) < len(start)


def _run_time_ns(text: str) -> int:
    """Return the run time in the listing's head; 0 if it has none."""
    try:
        return nanoseconds(text.split()[0]) if text.split() else 0
    except ValueError:
        return 0
