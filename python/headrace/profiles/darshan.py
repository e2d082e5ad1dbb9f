"""Imports what `darshan-dxt-parser` prints: every POSIX read and write of every rank, with its time. Each rank is a thread.

DXT has no opens, stats or CPU times: what lies between two accesses of a rank counts as work.
"""

from __future__ import annotations

from pathlib import Path

from headrace.errors import Fault, StudyError
from headrace.profiles.recording import is_software
from headrace.profiles.steps import Op, RecordedFile, Recording, columns

_MODULE = "X_POSIX"
_OF_POSIX = "X_MPIIO"
"""MPI-IO's own accesses are made by POSIX ones: they would count twice."""


def read_darshan(path: Path, name: str) -> Recording:
    """The job that a listing is of. Raises StudyError naming the line that is none of such a listing."""
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
            # MPI-IO's lines have an offset in some versions and none in others.
            if not fields[0].startswith("X_") or len(fields) < (8 if fields[0] == _MODULE else 7):
                problem = "no line of darshan-dxt-parser: module, rank, read or write, segment, offset, length, start, end"
                raise StudyError([Fault(path, number, "line", line[:60], problem)])
            if fields[0] != _MODULE:
                others.add(fields[0])
                continue
            if current is None:
                raise StudyError(
                    [Fault(path, number, "line", line[:60], "an access before any file was named")]
                )
            try:
                rank, offset, length = int(fields[1]), int(fields[4]), int(fields[5])
                start, end = (round(float(field) * 1e9) for field in fields[6:8])
            except ValueError as error:
                raise StudyError([Fault(path, number, "line", line[:60], f"no number: {error}")]) from None
            op = Op.WRITE if fields[2] == "write" else Op.READ
            first_writes.setdefault(current, op == Op.WRITE)
            if op == Op.READ:
                sizes[current] = max(sizes.get(current, 0), offset + length)
            raw.append((start, end, rank, int(op), current, offset, length))
    if not raw:
        raise StudyError([Fault(path, 0, "file", "", f"has no access of the module {_MODULE}")])
    raw.sort()
    ends: dict[int, int] = {}
    rows: list[tuple[int, ...]] = []
    for start, end, rank, *rest in raw:
        rows.append((start, end, rank, *rest, max(0, start - ends.get(rank, 0))))
        ends[rank] = end
    steps = columns(rows)
    run_s = float(facts.get("run time", facts.get("run time (s)", "0")).split()[0])
    notes = ["imported from Darshan DXT: time between accesses counts as work; opens and stats are not known"]
    if left_out := sorted(others - {_OF_POSIX}):
        notes.append(f"accesses of {', '.join(left_out)} are left out")
    return Recording(
        name,
        "darshan-dxt",
        tuple(
            RecordedFile(file, sizes.get(index, 0), first_writes.get(index, False), False, is_software(file))
            for file, index in files.items()
        ),
        steps,
        max(round(run_s * 1e9), int(steps.end_ns.max())),
        cpu_ns=int(steps.cpu_ns.sum()),
        command=tuple(facts.get("exe", "").split()),
        processes=len(ends),
        notes=tuple(notes),
    )
