"""Finds the files of a trace and reads `trace.json`.

A trace is a capture's folder, one file, or blktrace's files of all CPUs.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace import _core
from headrace.errors import FileProblem, HeadraceError, StudyError
from headrace.text_file import check_unpacked, encoding_of
from headrace.traces.capture import SCHEMA, TRACE_FILE

_LONGEST_SHOWN = 120


@dataclass(frozen=True)
class TraceFile:
    """A readable trace."""

    name: str
    """Name in pictures and tables."""
    path: Path
    """Path as given."""
    files: tuple[str, ...]
    """The files of the trace."""
    device: int | None = None
    """Only requests of this device: `major << 20 | minor`."""
    begin_monotonic_ns: int | None = None
    """When the capture began, on the clock of its events; None for an imported trace."""
    lost: int = 0
    """Events that the capture lost."""
    moved: tuple[tuple[str, int], ...] = ()
    """Other disks that completed requests meanwhile."""
    command: tuple[str, ...] = ()

    @property
    def cpus_without_file(self) -> tuple[int, ...]:
        """CPUs below the highest that have no file in an imported trace: blktrace writes one for
        each CPU that is online, so the file is lost or the CPU was offline."""
        if self.begin_monotonic_ns is not None:
            return ()
        endings = [name.rpartition(".blktrace.")[2] for name in self.files]
        having = {int(each) for each in endings if each.isdecimal()}
        return tuple(cpu for cpu in range(max(having, default=0)) if cpu not in having)


def open_trace(path: Path, device: str | None = None) -> TraceFile:
    """Return a trace by a capture's folder, a file, or `NAME` of `NAME.blktrace.0 …`.

    `device`: `major:minor`, or the kernel name in the capture. Raises StudyError (exit code 2) if
    the trace does not exist or has a newer version, or if the capture has no such device.
    """
    try:
        folder = path.is_dir()
    except OSError as error:
        shown = str(path) if len(str(path)) <= _LONGEST_SHOWN else f"{str(path)[:_LONGEST_SHOWN]}…"
        raise _fault(Path(shown), "file", f"cannot be read: {error.strerror}") from None
    if folder:
        return _capture(path, device)
    found = [str(each) for each in _core.trace_files(str(path))]
    if not found and path.is_fifo():
        raise _fault(path, "file", "is a pipe: a trace is read more than once", "a file")
    if not found:
        raise _fault(path, "file", "there is no such trace")
    _check_readable(Path(found[0]))
    beside = path.parent / TRACE_FILE
    if beside.is_file() and ".blktrace." in Path(found[0]).name:
        described = _read_description(beside)
        return _described(path, described, tuple(found), Path(found[0]).name.split(".blktrace.")[0])
    number = None if device is None else _number(path, device)
    return TraceFile(path.name, path, tuple(found), number)


def _check_readable(file: Path) -> None:
    """Refuse a compressed file, and text in UTF-16. Raises StudyError."""
    try:
        with file.open("rb") as data:
            head = data.read(256)
    except OSError:
        return  # said by what reads it
    check_unpacked(file, head, "file")
    if encoding_of(head).startswith("utf-16"):
        allowed = f"UTF-8: iconv -f UTF-16 -t UTF-8 {shlex.quote(file.name)} > NEW"
        raise _fault(file, "file", "is text in UTF-16", allowed)


def _capture(path: Path, device: str | None) -> TraceFile:
    file = path / TRACE_FILE
    if not file.is_file():
        names = sorted({found.name.split(".blktrace.")[0] for found in path.glob("*.blktrace.*")})
        if len(names) == 1:  # left by a killed capture: complete up to the kill
            return TraceFile(
                path.name,
                path,
                tuple(str(each) for each in _core.trace_files(str(path / names[0]))),
            )
        allowed = f"one of {', '.join(str(path / name) for name in names)}" if names else ""
        raise _fault(
            path,
            "file",
            f"holds no {TRACE_FILE}, it is not a trace that Headrace captured",
            allowed,
        )
    described = _read_description(file)
    captured = [str(name) for name in described["devices"]]
    if device is not None and device not in captured:
        raise _fault(file, "device", "this trace is of another device", ", ".join(captured), device)
    if device is None and len(captured) > 1:
        having = [
            name
            for name in captured
            if any(str(each).startswith(f"{name}.") for each in described["files"])
        ]
        captured = having or captured
        if len(captured) > 1:
            raise _fault(
                file, "device", "this trace is of several devices, name one", ", ".join(captured)
            )
    name = device or captured[0]
    files = tuple(
        str(path / each) for each in described["files"] if str(each).startswith(f"{name}.blktrace.")
    )
    return _described(path, described, files, path.resolve().name)


def _described(
    path: Path, described: dict[str, Any], files: tuple[str, ...], name: str
) -> TraceFile:
    return TraceFile(
        name=name,
        path=path,
        files=files,
        begin_monotonic_ns=int(described["begin_monotonic_ns"]),
        lost=int(described["lost"]),
        moved=tuple((str(disk), int(count)) for disk, count in described.get("moved", {}).items()),
        command=tuple(str(word) for word in described.get("command", ())),
    )


def _read_description(file: Path) -> dict[str, Any]:
    try:
        values = json.loads(file.read_text())
        version = values["trace"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _fault(
            file, "file", f"cannot be read as the description of a trace ({error})"
        ) from None
    if version != SCHEMA:
        raise _fault(
            file,
            "trace",
            "this version of Headrace's traces is not known",
            str(SCHEMA),
            str(version),
        )
    missing = [
        key for key in ("devices", "files", "begin_monotonic_ns", "lost") if key not in values
    ]
    if missing:
        raise _fault(file, missing[0], "is missing")
    return values


def _number(path: Path, device: str) -> int:
    major, _, minor = device.replace(",", ":").partition(":")
    if not (major.isdigit() and minor.isdigit()):
        raise _fault(
            path, "--device", "must be major:minor for a trace of others", "such as 8:0", device
        )
    return int(major) << 20 | int(minor)


def _fault(file: Path, field: str, problem: str, allowed: str = "", given: str = "") -> StudyError:
    return StudyError([FileProblem(file, 0, field, given, problem, allowed)])


@contextmanager
def readable() -> Generator[None]:
    """Convert the core's trace errors to faults of the file."""
    try:
        yield
    except _core.TraceError as error:
        file, line, field, given, problem, allowed = error.args
        raise StudyError([FileProblem(Path(file), line, field, given, problem, allowed)]) from None
    except InterruptedError:
        raise KeyboardInterrupt from None


def empty(trace: TraceFile, damages: Sequence[object] = ()) -> HeadraceError:
    """Return the error for a trace without requests; `damages` are why none could be read."""
    cpus = ", ".join(map(str, trace.cpus_without_file))
    others = ", ".join(
        f"{name} ({count} requests)" for name, count in sorted(trace.moved, key=lambda x: -x[1])[:4]
    )
    return StudyError(
        [
            FileProblem(
                trace.path,
                0,
                "file",
                "",
                "holds no requests"
                + (f"; while it was captured these disks had some: {others}" if others else "")
                + (" of this device" if trace.device is not None else "")
                + (f"; no file of CPU {cpus}: they may be there" if cpus else "")
                + (f" that can be read; the first problem: {damages[0]}" if damages else ""),
                "" if others or damages else "events that queue (Q) or issue (D) requests",
            )
        ]
    )
