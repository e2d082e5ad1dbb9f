"""Runs a program with the recorder preloaded and makes a recording of what it wrote; the program itself, its terminal, its exit stay as they are."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import numpy as np

from headrace.errors import HeadraceError
from headrace.profiles.programs import ProgramError, find_program, why_not_recorded
from headrace.profiles.recording import Read, read_directory
from headrace.profiles.steps import Op, Recording
from headrace.system.own_programs import own_library

LIBRARY = "libheadrace_recorder.so"
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


@dataclass(frozen=True)
class Recorded:
    """A recording, and how its program ended (as `subprocess` has it: negative for a signal)."""

    recording: Recording
    exit_code: int


def record(command: Sequence[str], name: str, place: Path) -> Recorded:
    """Runs the command to its end and returns what it did. Raw records lie in a private folder in `place` meanwhile, which is left
    there (and named in the error) only when they cannot be read.

    Raises ProgramError for a program that is not there, may not be run, is static or set-uid; MissingError without the library.
    """
    program = find_program(command[0])
    if (why := why_not_recorded(command[0])) is not None:
        raise ProgramError(
            f"{command[0]} cannot be recorded: it is {why}",
            hint=f"strace -f -ttt -T -o TRACE {command[0]} … sees it from outside; headrace profile import TRACE reads that",
        )
    library = own_library(LIBRARY)
    place.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix=".headrace-record-", dir=place)).absolute()
    try:
        preloaded = " ".join(part for part in (str(library), os.environ.get("LD_PRELOAD", "")) if part)
        environment = {**os.environ, "LD_PRELOAD": preloaded, "HEADRACE_RECORD_DIR": str(directory)}
        started = datetime.datetime.now(datetime.UTC)
        begin_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        exit_code = _run(program, command, environment)
        end_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        read = read_directory(directory)
        return Recorded(
            recording_of(
                read,
                name=name,
                command=tuple(command),
                begin_ns=begin_ns,
                end_ns=end_ns,
                cpu_ns=round(cpu_s * 1e9),
                memory_bytes=after.ru_maxrss * 1024,
                started_utc=started.isoformat(timespec="milliseconds"),
                exit=_exit_words(exit_code),
            ),
            exit_code,
        )
    except BaseException as error:
        if isinstance(error, OSError):
            raise HeadraceError(
                f"{place}: the recording cannot be kept: {error.strerror or error}"
            ) from error
        raise
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _run(program: Path, command: Sequence[str], environment: dict[str, str]) -> int:
    child = subprocess.Popen([str(program), *command[1:]], executable=str(program), env=environment)

    def pass_on(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(number)

    # Ctrl-C reaches the program by the terminal; it decides what to do, and we wait for it.
    earlier = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    earlier[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return child.wait()
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _exit_words(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


def recording_of(
    read: Read,
    *,
    name: str,
    command: tuple[str, ...] = (),
    begin_ns: int | None = None,
    end_ns: int | None = None,
    cpu_ns: int | None = None,
    memory_bytes: int = 0,
    started_utc: str = "",
    exit: str = "",
) -> Recording:
    """A recording from what a directory held; times count from `begin_ns` of the monotonic clock."""
    begin = read.begin_ns if begin_ns is None else begin_ns
    end = read.end_ns if end_ns is None else max(end_ns, read.end_ns)
    steps = read.steps
    shift = read.begin_ns - begin
    steps = type(steps)(
        steps.start_ns + shift, steps.end_ns + shift, *(getattr(steps, field) for field in
        ("thread", "op", "file", "offset", "length", "cpu_ns"))
    )  # fmt: skip
    notes = list(read.notes)
    if read.unfinished:
        notes.append(
            f"{read.unfinished} process{'es were' if read.unfinished > 1 else ' was'} killed: the profile is whole up to there"
        )
    if not np.isin(steps.op, (Op.READ, Op.WRITE, Op.MAPPED_READ)).any():
        notes.append(
            "no reads or writes of files were seen; a program that makes its system calls itself (Go) is seen by strace only"
        )
    return Recording(
        name=name,
        by="headrace record",
        files=read.files,
        steps=steps,
        duration_ns=end - begin,
        cpu_ns=read.cpu_ns if cpu_ns is None else cpu_ns,
        cpu_wait_ns=read.cpu_wait_ns,
        memory_bytes=memory_bytes,
        command=command,
        started_utc=started_utc,
        processes=read.processes,
        exit=exit,
        machine=f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        notes=tuple(notes),
    )
