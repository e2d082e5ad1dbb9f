"""A whole trace in memory, for `headrace drive replay`, and its response times as CSV.

Each request has its position. `headrace.traces` reads it; damages are errors here, because a
missing request would change all later ones.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headrace._core import SECTOR_BYTES
from headrace.errors import FileProblem, StudyError
from headrace.traces import open_trace, read_rows
from headrace.traces.files import empty
from headrace.traces.rows import (
    DISCARD,
    FLUSH,
    OP_WORDS,
    READ,
    UNSEEN_NS,
    WRITE,
    RequestRows,
    device_text,
)

__all__ = ["DISCARD", "FLUSH", "OP_WORDS", "READ", "WRITE", "Trace", "read_trace"]


@dataclass(frozen=True)
class Trace:
    """Requests ordered by time."""

    file: Path
    time_ns: npt.NDArray[np.uint64]
    """Since the first request."""
    op: npt.NDArray[np.uint8]
    """0 read, 1 write, 2 flush, 3 discard."""
    sector: npt.NDArray[np.uint64]
    """First sector, in sectors of 512 bytes."""
    sectors: npt.NDArray[np.uint32]
    response_ns: npt.NDArray[np.uint64] | None = None
    """Time from issue to completion; None if the trace lacks a completion."""

    def __len__(self) -> int:
        return len(self.time_ns)

    def line_naming(self, index: int) -> int:
        """Return the first line of a text file that contains a request's sector (its byte offset,
        in an iolog); 0 if none does."""
        sector = int(self.sector[index])
        wanted = {str(sector).encode(), str(sector * SECTOR_BYTES).encode()}
        if not self.file.is_file():
            return 0
        with self.file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if wanted & set(line.replace(b",", b" ").split()):
                    return number
        return 0

    def write(self, path: Path, response_ns: npt.NDArray[np.uint64]) -> None:
        """Write CSV: the trace's columns and `response_ns`; `headrace trace` reads it."""
        with path.open("w") as out:
            out.write("time_ns,op,sector,sectors,response_ns\n")
            for time_ns, op, sector, sectors, response in zip(
                self.time_ns, self.op, self.sector, self.sectors, response_ns, strict=True
            ):
                out.write(f"{time_ns},{OP_WORDS[int(op)]},{sector},{sectors},{response}\n")


def read_trace(file: Path) -> Trace:
    """Read a trace of any format that `headrace trace show` reads. Raises StudyError with the
    invalid place, or if it is empty, or has requests of several devices."""
    trace = open_trace(file)
    batches: list[RequestRows] = []
    missing = 0
    for rows in read_rows(trace):
        if rows.damages:
            raise StudyError(
                [
                    FileProblem(
                        each.file, each.line, each.field, each.given, each.problem, each.allowed
                    )
                    for each in rows.damages
                ]
            )
        batches.append(rows)
        missing = rows.missing
    if not sum(len(rows) for rows in batches):
        raise empty(trace)
    if missing:
        # Without its other requests the drive would seem less busy than it was.
        problem = f"{missing:,} events are missing, which were lost when it was recorded"
        allowed = (
            f"a whole trace; the requests that are there: headrace trace convert {file} NEW.csv"
        )
        raise StudyError([FileProblem(file, 0, "file", "", problem, allowed)])
    _check_one_device(file, np.concatenate([rows.device for rows in batches]))
    time_ns = np.concatenate([rows.time_ns for rows in batches])
    complete_ns = np.concatenate([rows.complete_ns for rows in batches])
    seen = bool(np.all(complete_ns != UNSEEN_NS))
    return Trace(
        file,
        time_ns - time_ns[0],
        np.concatenate([rows.op for rows in batches]).astype(np.uint8),
        np.concatenate([rows.sector for rows in batches]),
        np.concatenate([rows.sectors for rows in batches]),
        complete_ns - time_ns if seen else None,
    )


def _check_one_device(file: Path, device: npt.NDArray[np.uint32]) -> None:
    """Raise StudyError for several devices: one drive did not serve the requests of all."""
    found = [device_text(int(each)) for each in np.unique(device[device != 0])]
    if len(found) > 1:
        problem = f"has requests of {len(found)} devices, which one drive did not serve"
        command = shlex.join(["headrace", "trace", "convert", str(file), "one.csv"])
        allowed = f"one device: {command} --device {found[0]}"
        raise StudyError([FileProblem(file, 0, "device", ", ".join(found), problem, allowed)])
