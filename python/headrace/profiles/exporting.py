"""Exports a recording: CSV (every step), fio's iolog version 3, XRootD's replay CSV of one file."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path

from headrace.errors import HeadraceError, UsageError
from headrace.profiles.steps import Op, Recording
from headrace.profiles.summary import sizes_given
from headrace.profiles.timeline import timeline
from headrace.whole_file import whole

FORMATS = ("csv", "fio")


def export(recording: Recording, path: Path, format: str, *, software: bool = False) -> int:
    """Write the data steps (and steps on software if requested) to a file, whole or not at all;
    return their number. Raises UsageError for a recording or format that cannot be written,
    HeadraceError when writing fails."""
    if format not in FORMATS:
        raise UsageError(f"--format: unknown format {format!r}; allowed: {', '.join(FORMATS)}")
    write = _csv if format == "csv" else partial(_fio, out=path)
    try:
        return whole(path, lambda part: write(recording, part, software))
    except OSError as error:
        raise HeadraceError(f"{path}: cannot be written: {error.strerror}") from error


def left_out(recording: Recording, format: str, *, software: bool = False) -> str:
    """Return what the format cannot express, as a note; empty if it expresses all of this
    recording."""
    told = sizes_given(recording, software=software)
    if format != "fio" or not told:
        return ""
    return (
        f"fio's iolog has no sizes or space of files: left out are {told}; files grow as they "
        "are written"
    )


def _csv(recording: Recording, path: Path, software: bool) -> int:
    steps = recording.steps
    written = 0
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ("start_ns", "end_ns", "thread", "op", "file", "offset_bytes", "length_bytes", "cpu_ns")
        )
        for row in zip(
            steps.start_ns.tolist(),
            steps.end_ns.tolist(),
            steps.thread.tolist(),
            steps.op.tolist(),
            steps.file.tolist(),
            steps.offset.tolist(),
            steps.length.tolist(),
            steps.cpu_ns.tolist(),
            strict=True,
        ):
            about = recording.files[row[4]]
            if about.software and not software:
                continue
            name = Op(row[3]).name.lower().replace("_", "-")
            writer.writerow((*row[:3], name, about.path, *row[5:]))
            written += 1
    return written


def _fio(recording: Recording, path: Path, software: bool, *, out: Path) -> int:
    """Write fio's iolog version 3 (`milliseconds file action offset length`) from the timeline of
    all threads. `out`: what messages call the file."""
    line = timeline(recording.steps, recording.files, recording.duration_ns, software=software)
    names = {Op.READ: "read", Op.MAPPED_READ: "read", Op.WRITE: "write"}
    used = {
        number: _word(recording.files[number].path, out)
        for number in sorted(set(line.steps.file.tolist()))
    }
    written = 0
    with path.open("w") as file:
        file.write("fio version 3 iolog\n")
        for name in used.values():
            file.write(f"0 {name} add\n0 {name} open\n")
        for start, op, number, offset, length in zip(
            line.steps.start_ns.tolist(),
            line.steps.op.tolist(),
            line.steps.file.tolist(),
            line.steps.offset.tolist(),
            line.steps.length.tolist(),
            strict=True,
        ):
            if (action := names.get(Op(op))) is not None and length:
                file.write(f"{start // 1_000_000} {used[number]} {action} {offset} {length}\n")
                written += 1
        end = recording.duration_ns // 1_000_000
        for name in used.values():
            file.write(f"{end} {name} close\n")
    return written


def _word(path: str, out: Path) -> str:
    if any(letter.isspace() for letter in path):
        raise UsageError(
            f"{out}: {path!r}: an iolog of fio cannot have a file name with spaces",
            hint="--format csv writes it",
        )
    return path
