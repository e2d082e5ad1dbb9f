"""Writes a trace in another format (fio's iolog, CSV, Parquet), row by row in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from headrace.errors import FileProblem, StudyError
from headrace.traces.files import TraceFile, empty
from headrace.traces.rows import OP_WORDS, UNSEEN_NS, RequestRows, device_text, read_rows
from headrace.traces.statistics import TraceDamage
from headrace.whole_file import whole, write_errors

FORMATS = {"iolog": "fio-iolog", "log": "fio-iolog", "csv": "csv", "parquet": "parquet"}
"""Formats by file suffix."""
_SECTOR_BYTES = 512
_IOLOG_WORDS = ("read", "write", "sync", "trim")


Told = Callable[[tuple[TraceDamage, ...], int, int], None]
"""Gets the first damages of a trace, the number of all, and how many events the trace lacks."""


def convert(
    trace: TraceFile, out: Path, format: str | None = None, *, damaged: Told | None = None
) -> int:
    """Write a trace's requests; return their number. `format`: `fio-iolog` (version 3), `csv`,
    `parquet`; by the suffix if None. `damaged` is called when places could not be read or events
    are missing: the rest is written.

    Times start at 0 with the first request. Queue or completion times that the trace lacks stay
    empty. Raises StudyError for an unknown format or a trace without requests, HeadraceError for a
    file that cannot be written.
    """
    kind = format or FORMATS.get(out.suffix.removeprefix("."))
    writers: dict[str, Callable[[Path, Generator[RequestRows]], int]] = {
        "fio-iolog": _write_iolog,
        "csv": _write_csv,
        "parquet": _write_parquet,
    }
    if kind not in writers:
        raise StudyError(
            [
                FileProblem(
                    out,
                    0,
                    "format",
                    str(kind or out.suffix),
                    "is not a format to write",
                    ", ".join(writers),
                )
            ]
        )

    last: RequestRows | None = None

    def batches() -> Generator[RequestRows]:
        nonlocal last
        for rows in read_rows(trace):
            last = rows
            yield rows

    def write(part: Path) -> int:
        count = writers[kind](part, batches())
        if not count:
            raise empty(trace, () if last is None else last.damages)
        return count

    with write_errors(out):
        count = whole(out, write, seeks=kind == "parquet")
    if damaged is not None and last is not None and (last.damage_count or last.missing):
        damaged(last.damages, last.damage_count, last.missing)
    return count


@contextmanager
def _text(path: Path) -> Generator[IO[str]]:
    with path.open("w", encoding="utf-8") as out:
        yield out


def _write_iolog(path: Path, batches: Generator[RequestRows]) -> int:
    """Write fio's iolog version 3 (fio's documentation, "Trace file format"): time in microseconds,
    file, action, offset, length.

    The first device of the trace is the file `drive`, another one is `drive-MAJOR-MINOR`.
    """
    count, first_ns, last_us = 0, 0, 0
    names: dict[int, str] = {}
    with _text(path) as out:
        out.write("fio version 3 iolog\n0 drive add\n0 drive open\n")
        for rows in batches:
            if not count and len(rows):
                first_ns = int(rows.time_ns[0])
            count += len(rows)
            lines: list[str] = []
            for time_ns, op, sector, sectors, device in zip(
                rows.time_ns.tolist(),
                rows.op.tolist(),
                rows.sector.tolist(),
                rows.sectors.tolist(),
                rows.device.tolist(),
                strict=True,
            ):
                last_us = max(last_us, (time_ns - first_ns) // 1000)
                if (name := names.get(device)) is None:
                    name = names[device] = _iolog_name(device, len(names))
                    if len(names) > 1:
                        lines += [f"{last_us} {name} {word}\n" for word in ("add", "open")]
                lines.append(
                    f"{last_us} {name} {_IOLOG_WORDS[op]} {sector * _SECTOR_BYTES} "
                    f"{sectors * _SECTOR_BYTES}\n"
                )
            out.writelines(lines)
        out.writelines(f"{last_us} {name} close\n" for name in names.values())
    return count


def _iolog_name(device: int, before: int) -> str:
    """Return the file name of a device in an iolog that has `before` others so far."""
    return f"drive-{device_text(device).replace(':', '-')}" if before else "drive"


def _relative(column: Any, first_ns: int) -> list[int | None]:
    return [None if value == UNSEEN_NS else value - first_ns for value in column.tolist()]


def _columns(rows: RequestRows, first_ns: int) -> dict[str, list[Any]]:
    """Return the columns of CSV and Parquet."""
    devices = [device_text(number) if number else None for number in rows.device.tolist()]
    return {
        "time_ns": (rows.time_ns - np.uint64(first_ns)).tolist(),
        "op": [OP_WORDS[op] for op in rows.op.tolist()],
        "sector": rows.sector.tolist(),
        "sectors": rows.sectors.tolist(),
        "pid": rows.pid.tolist(),
        "process": [rows.names.get(pid, "").replace(",", "_") for pid in rows.pid.tolist()],
        "device": devices,
        "queue_ns": _relative(rows.queue_ns, first_ns),
        "complete_ns": _relative(rows.complete_ns, first_ns),
    }


def _batches_of_columns(batches: Generator[RequestRows]) -> Generator[dict[str, list[Any]]]:
    # Time starts when the first request was queued, which is before it was issued, so that no time
    # is negative.
    first_ns: int | None = None
    for rows in batches:
        if first_ns is None and len(rows):
            queued = rows.queue_ns[rows.queue_ns != UNSEEN_NS]
            first_ns = min(
                int(rows.time_ns[0]), int(queued.min()) if len(queued) else int(rows.time_ns[0])
            )
        yield _columns(rows, first_ns or 0)


def _write_csv(path: Path, batches: Generator[RequestRows]) -> int:
    count = 0
    with _text(path) as out:
        for columns in _batches_of_columns(batches):
            if not count:
                out.write(",".join(columns) + "\n")
            count += len(columns["time_ns"])
            out.writelines(
                ",".join("" if value is None else str(value) for value in row) + "\n"
                for row in zip(*columns.values(), strict=True)
            )
    return count


def _write_parquet(path: Path, batches: Generator[RequestRows]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [
            ("time_ns", pa.uint64()),
            ("op", pa.string()),
            ("sector", pa.uint64()),
            ("sectors", pa.uint32()),
            ("pid", pa.uint32()),
            ("process", pa.string()),
            ("device", pa.string()),
            ("queue_ns", pa.int64()),
            ("complete_ns", pa.int64()),
        ]
    )
    count = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as out:
        for columns in _batches_of_columns(batches):
            count += len(columns["time_ns"])
            out.write_table(pa.table(columns, schema=schema))
    return count
