"""A recording for other tools: CSV (every step), fio's iolog version 3, XRootD's replay CSV of one file."""

from __future__ import annotations

import csv
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.profiles.steps import Op, Recording
from headrace.profiles.timeline import timeline

FORMATS = ("csv", "fio")


def export(recording: Recording, path: Path, format: str, *, software: bool = False) -> int:
    """Writes data steps (and those on software when asked for) to a file; returns how many. Raises HeadraceError."""
    if format not in FORMATS:
        raise HeadraceError(f"unknown format {format!r}", hint=f"formats: {', '.join(FORMATS)}")
    try:
        return (_csv if format == "csv" else _fio)(recording, path, software)
    except OSError as error:
        raise HeadraceError(f"{path}: cannot be written: {error.strerror}") from error


def _csv(recording: Recording, path: Path, software: bool) -> int:
    steps = recording.steps
    written = 0
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ("start_ns", "end_ns", "thread", "op", "file", "offset_bytes", "length_bytes", "cpu_ns")
        )
        for row in zip(
            steps.start_ns.tolist(), steps.end_ns.tolist(), steps.thread.tolist(), steps.op.tolist(),
            steps.file.tolist(), steps.offset.tolist(), steps.length.tolist(), steps.cpu_ns.tolist(), strict=True,
        ):  # fmt: skip
            about = recording.files[row[4]]
            if about.software and not software:
                continue
            name = Op(row[3]).name.lower().replace("_", "-")
            writer.writerow((*row[:3], name, about.path, *row[5:]))
            written += 1
    return written


def _fio(recording: Recording, path: Path, software: bool) -> int:
    """fio's iolog version 3: `milliseconds file action offset length`, by the line of all threads."""
    line = timeline(recording.steps, recording.files, recording.duration_ns, software=software)
    names = {Op.READ: "read", Op.MAPPED_READ: "read", Op.WRITE: "write"}
    used = sorted(set(line.steps.file.tolist()))
    written = 0
    with path.open("w") as file:
        file.write("fio version 3 iolog\n")
        for number in used:
            file.write(
                f"0 {_word(recording.files[number].path)} add\n0 {_word(recording.files[number].path)} open\n"
            )
        for start, op, number, offset, length in zip(
            line.steps.start_ns.tolist(), line.steps.op.tolist(), line.steps.file.tolist(), line.steps.offset.tolist(),
            line.steps.length.tolist(), strict=True,
        ):  # fmt: skip
            if (action := names.get(Op(op))) is not None and length:
                name = _word(recording.files[number].path)
                file.write(f"{start // 1_000_000} {name} {action} {offset} {length}\n")
                written += 1
        end = recording.duration_ns // 1_000_000
        for number in used:
            file.write(f"{end} {_word(recording.files[number].path)} close\n")
    return written


def _word(path: str) -> str:
    if any(letter.isspace() for letter in path):
        raise HeadraceError(f"{path!r}: fio's iolog has no way to write a name with spaces")
    return path
