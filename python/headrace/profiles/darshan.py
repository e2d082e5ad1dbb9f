"""Imports the output of `darshan-dxt-parser`: all POSIX reads and writes, with times.

Each rank becomes a thread. DXT has no opens, stats or CPU times: time between two accesses of a
rank counts as work.
"""

from __future__ import annotations

from pathlib import Path

from headrace.errors import Fault, StudyError
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


def read_darshan(path: Path, name: str) -> Recording:
    """Return the job of a listing. Raises StudyError that names the first line that does not fit
    the format."""
    files: dict[str, int] = {}
    sizes: dict[int, int] = {}
    first_writes: dict[int, bool] = {}
    raw: list[tuple[int, int, int, int, int, int, int]] = []
    facts: dict[str, str] = {}
    others: set[str] = set()
    current: int | None = None
    with path.open(errors="replace") as text:
        for number, line in enumerate(text, 1):
            line = line.strip()
            if line.startswith("#"):
                key, _, value = line.lstrip("# ").partition(":")
                facts.setdefault(key.strip(), value.strip())
                if line.startswith("# DXT, file_id") and "file_name:" in line:
                    file = line.partition("file_name:")[2].strip()
                    current = files.setdefault(file, len(files))
                continue
            if not line:
                continue
            fields = line.split()
            # MPI-IO lines have an offset in some versions only.
            if not fields[0].startswith("X_") or len(fields) < (8 if fields[0] == _MODULE else 7):
                problem = (
                    "no line of darshan-dxt-parser: module, rank, read or write, segment, "
                    "offset, length, start, end"
                )
                raise StudyError([Fault(path, number, "line", line[:60], problem)])
            if fields[0] != _MODULE:
                others.add(fields[0])
                continue
            if current is None:
                raise StudyError(
                    [Fault(path, number, "line", line[:60], "an access before any file was named")]
                )
            try:
                offset, length = (whole_number(fields[at]) for at in (4, 5))
                rank = whole_number(fields[1], MOST_THREADS)
                start, end = (nanoseconds(field) for field in fields[6:8])
            except ValueError as error:
                raise StudyError([Fault(path, number, "line", line[:60], str(error))]) from None
            op = Op.WRITE if fields[2] == "write" else Op.READ
            first_writes.setdefault(current, op == Op.WRITE)
            if op == Op.READ:
                sizes[current] = max(sizes.get(current, 0), offset + length)
            raw.append((start, end, rank, int(op), current, offset, length))
    if not raw:
        raise StudyError([Fault(path, 0, "", "", f"has no access of the module {_MODULE}")])
    raw.sort()
    ends: dict[int, int] = {}
    rows: list[tuple[int, ...]] = []
    for start, end, rank, *rest in raw:
        rows.append((start, max(start, end), rank, *rest, max(0, start - ends.get(rank, 0))))
        ends[rank] = end
    steps = columns(rows)
    run_ns = _run_time_ns(facts.get("run time", facts.get("run time (s)", "")))
    notes = [
        "imported from Darshan DXT: time between accesses counts as work; opens and stats are "
        "not known"
    ]
    if left_out := sorted(others - {_OF_POSIX}):
        notes.append(f"accesses of {', '.join(left_out)} are left out")
    return Recording(
        name,
        "darshan-dxt",
        tuple(
            RecordedFile(
                file, sizes.get(index, 0), first_writes.get(index, False), False, is_software(file)
            )
            for file, index in files.items()
        ),
        steps,
        max(run_ns, int(steps.end_ns.max())),
        cpu_ns=int(steps.cpu_ns.sum()),
        command=tuple(facts.get("exe", "").split()),
        processes=len(ends),
        notes=tuple(notes),
    )


def _run_time_ns(text: str) -> int:
    """Return the run time in the listing's head; 0 if it has none."""
    try:
        return nanoseconds(text.split()[0]) if text.split() else 0
    except ValueError:
        return 0
