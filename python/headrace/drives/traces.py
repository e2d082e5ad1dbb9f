"""Traces of block requests from files: fio's iolog (version 2 and 3), blkparse's text, CSV; and the response times out again.

A trace is columns: time since its first request, operation (0 read, 1 write, 2 flush, 3 discard), first sector and sectors of 512 bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headrace.errors import Fault, StudyError

READ, WRITE, FLUSH, DISCARD = range(4)
_WORDS = {
    "read": READ, "r": READ, "write": WRITE, "w": WRITE, "sync": FLUSH, "datasync": FLUSH, "flush": FLUSH, "f": FLUSH,
    "trim": DISCARD, "discard": DISCARD, "d": DISCARD,
}  # fmt: skip
_BLKPARSE = re.compile(
    r"^\s*\d+,\d+\s+\d+\s+\d+\s+(?P<time>\d+\.\d+)\s+\d+\s+(?P<action>[A-Z]+)\s+(?P<rwbs>[A-Z]+)"
    r"(?:\s+(?P<sector>\d+)\s+\+\s+(?P<sectors>\d+))?"
)


@dataclass(frozen=True)
class Trace:
    """Requests in the order of their file."""

    file: Path
    time_ns: npt.NDArray[np.uint64]
    op: npt.NDArray[np.uint8]
    sector: npt.NDArray[np.uint64]
    sectors: npt.NDArray[np.uint32]
    line: npt.NDArray[np.uint32]
    """1-based line in the file."""

    def __len__(self) -> int:
        return len(self.time_ns)

    def write(self, path: Path, response_ns: npt.NDArray[np.uint64]) -> None:
        """CSV: the trace's columns and `response_ns`."""
        words = ("read", "write", "flush", "discard")
        with path.open("w") as out:
            out.write("time_ns,op,sector,sectors,response_ns\n")
            for time_ns, op, sector, sectors, response in zip(
                self.time_ns, self.op, self.sector, self.sectors, response_ns, strict=True
            ):
                out.write(f"{time_ns},{words[int(op)]},{sector},{sectors},{response}\n")


class _Rows:
    """Gathers requests, checks each, and puts them in the order of their times."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.rows: list[tuple[int, int, int, int, int]] = []

    def fault(self, line: int, field: str, problem: str, given: str = "", allowed: str = "") -> StudyError:
        return StudyError([Fault(self.file, line, field, given, problem, allowed)])

    def add(self, line: int, time_ns: int, op: int, sector: int, sectors: int) -> None:
        if op != FLUSH and sectors < 1:
            raise self.fault(line, "sectors", "a request moves at least one sector", str(sectors))
        if not 0 <= sector < 2**63 or sectors >= 2**32 or time_ns < 0:
            raise self.fault(line, "request", "out of range", f"{time_ns},{sector},{sectors}")
        self.rows.append((time_ns, op, sector, sectors, line))

    def trace(self) -> Trace:
        if not self.rows:
            raise self.fault(0, "file", "holds no requests")
        # Per-CPU buffers of blktrace come merged but not always in order; the sort is stable.
        rows = sorted(self.rows, key=lambda row: row[0])
        first = rows[0][0]
        time, op, sector, sectors, line = zip(*rows, strict=True)
        return Trace(
            self.file,
            np.asarray([each - first for each in time], np.uint64),
            np.asarray(op, np.uint8),
            np.asarray(sector, np.uint64),
            np.asarray(sectors, np.uint32),
            np.asarray(line, np.uint32),
        )


def read_trace(file: Path) -> Trace:
    """Reads a trace; what it is shows in its first lines. Raises StudyError with the line that is wrong."""
    try:
        lines = file.read_text().splitlines()
    except OSError as error:
        raise StudyError([Fault(file, 0, "file", "", f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError:
        problem = "is not text; binary traces of blktrace become text with blkparse -i"
        raise StudyError([Fault(file, 0, "file", "", problem)]) from None
    rows = _Rows(file)
    head = next((line.strip() for line in lines if line.strip()), "")
    iolog = re.fullmatch(r"fio version (\d+) iolog", head)
    if iolog:
        _iolog(lines, int(iolog.group(1)), rows)
    elif head.replace(" ", "").startswith("time_ns,op,sector,sectors"):
        _csv(lines, rows)
    elif any(_BLKPARSE.match(line) for line in lines[:50]):
        _blkparse(lines, rows)
    else:
        problem = "is no trace that Headrace knows"
        allowed = "fio iolog version 2 or 3, blkparse text, CSV with the header time_ns,op,sector,sectors"
        raise StudyError([Fault(file, 1, "file", head[:60], problem, allowed)])
    return rows.trace()


def _iolog(lines: list[str], version: int, rows: _Rows) -> None:
    """Version 2: `file action offset length`, with `wait` in microseconds between. Version 3: a time in microseconds first.

    All files of the log are taken as the drive itself. https://fio.readthedocs.io, "Trace file format".
    """
    if version not in (2, 3):
        raise rows.fault(1, "file", "this version of fio's iolog is not known", str(version), "2, 3")
    now_us = 0
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[:2] == ["fio", "version"]:
            continue
        try:
            if version == 3:
                now_us = int(words.pop(0))
            action = words[1] if len(words) > 1 else ""
            if action in ("add", "open", "close"):
                continue
            if action == "wait":
                now_us += int(words[2])
                continue
            offset_bytes, length_bytes = (int(words[2]), int(words[3])) if len(words) >= 4 else (0, 0)
        except (ValueError, IndexError):
            raise rows.fault(number, "line", "is no line of an iolog", line[:60]) from None
        if action not in _WORDS:
            raise rows.fault(
                number, "action", "unknown", action, "add, open, close, wait, " + ", ".join(_WORDS)
            )
        if offset_bytes % 512 or length_bytes % 512:
            raise rows.fault(
                number, "offset", "not a multiple of 512 bytes", f"{offset_bytes} {length_bytes}"
            )
        rows.add(number, now_us * 1000, _WORDS[action], offset_bytes // 512, length_bytes // 512)


def _csv(lines: list[str], rows: _Rows) -> None:
    header = True
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if header:
            header = False
            continue
        parts = [part.strip() for part in line.split(",")]
        if len(parts) < 4 or parts[1].lower() not in _WORDS:
            raise rows.fault(
                number,
                "line",
                "must be time_ns,op,sector,sectors with op read, write, flush or discard",
                line[:60],
            )
        try:
            time_ns, sector, sectors = int(parts[0]), int(parts[2]), int(parts[3])
        except ValueError:
            raise rows.fault(
                number, "line", "time_ns, sector and sectors must be whole numbers", line[:60]
            ) from None
        rows.add(number, time_ns, _WORDS[parts[1].lower()], sector, sectors)


def _blkparse(lines: list[str], rows: _Rows) -> None:
    """What was dispatched to the drive (D), or, in a trace without dispatches, what was queued (Q)."""
    found = [(number, match) for number, line in enumerate(lines, 1) if (match := _BLKPARSE.match(line))]
    action = "D" if any(match["action"] == "D" for _, match in found) else "Q"
    for number, match in found:
        if match["action"] != action:
            continue
        rwbs = match["rwbs"]
        if "D" in rwbs:
            op = DISCARD
        elif "R" in rwbs:
            op = READ
        elif "W" in rwbs and match["sectors"]:
            op = WRITE
        else:
            op = FLUSH
        if op != FLUSH and not match["sectors"]:
            continue
        seconds, _, fraction = match["time"].partition(".")
        time_ns = int(seconds) * 10**9 + int(fraction.ljust(9, "0")[:9])
        rows.add(number, time_ns, op, int(match["sector"] or 0), int(match["sectors"] or 0))
