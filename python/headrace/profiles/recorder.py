"""Runs a program with the recorder preloaded and returns a recording of it.

The program's terminal and exit status stay unchanged.
"""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headrace.errors import HeadraceError
from headrace.profiles.arena import Arena, Fact
from headrace.profiles.launching import EndedProgram, KernelCounts, Watching, launch, unwatched
from headrace.profiles.places import temporary_places
from headrace.profiles.preloading import preloaded
from headrace.profiles.programs import ProgramError, find_program, not_executed, why_not_recorded
from headrace.profiles.recording import Read, join
from headrace.profiles.steps import Op, Recording, Unseen
from headrace.system.children import signal_name
from headrace.system.identity import start_ticks
from headrace.system.own_variables import users_environment
from headrace.units import format_amount

_NOTED_BYTES = 16 << 10
"""Fewer unseen bytes get no note: they are the C library's own reads of its settings. They are in
the profile."""


@dataclass(frozen=True)
class RecordedRun:
    """A recording and its program's exit code (as in `subprocess`: negative for a signal)."""

    recording: Recording
    exit_code: int
    full: bool
    """Whether its place became full: the recording ends before the program."""


@dataclass(frozen=True)
class ObservedRun:
    """A program that has ended, and its recording where there is one."""

    ended: EndedProgram
    recording: Recording | None
    not_recorded: str = ""
    """Why there is no recording."""
    full: bool = False
    """Whether the place of the recording became full, so that it ends before the program."""


def record(command: Sequence[str], name: str, place: Path) -> RecordedRun:
    """Run the command until it ends and return its recording.

    The data is kept in an unnamed file on the filesystem of `place`, or in the folder for temporary
    files if that filesystem does not support it. Raises ProgramError for a program that does not
    exist, may not be run, or in which a library cannot be preloaded; MissingError without the
    library; HeadraceError if nothing was recorded.
    """
    program = find_program(command[0])
    if (why := why_not_recorded(program)) is not None:
        raise ProgramError(
            f"{command[0]} cannot be recorded: it is {why}",
            hint=(
                f"strace -f -ttt -T -o TRACE {command[0]} … sees it from outside; headrace "
                "profile import TRACE reads that"
            ),
        )
    ended, read, started, full = _run(program, command, place, unwatched)
    if isinstance(read, HeadraceError):
        raise read
    return RecordedRun(_recording(read, ended, name, command, started), ended.exit_code, full)


def observe(command: Sequence[str], name: str, place: Path, watching: Watching) -> ObservedRun:
    """Run the command until it ends, watched, and recorded if that is possible.

    `place` and errors as for `record`, but a program that cannot be recorded is run without.
    """
    program = find_program(command[0])
    if (why := why_not_recorded(program)) is not None:
        try:
            return ObservedRun(
                launch(program, command, users_environment(), watching), None, f"it is {why}"
            )
        except OSError as error:
            raise not_executed(command[0], error) from error
    ended, read, started, full = _run(program, command, place, watching)
    if isinstance(read, HeadraceError):
        return ObservedRun(ended, None, read.message, full)
    return ObservedRun(ended, _recording(read, ended, name, command, started), full=full)


def _run(
    program: str, command: Sequence[str], place: Path, watching: Watching
) -> tuple[EndedProgram, Read | HeadraceError, datetime.datetime, bool]:
    """Run a program with the recorder; return its end, its records or why there are none, when it
    began, and whether the place of the records became full."""
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HeadraceError(
            f"{place}: the recording cannot be kept: {error.strerror or error}"
        ) from error
    with (
        Arena([place, *temporary_places()]) as arena,
        preloaded(arena) as environment,
    ):
        started = datetime.datetime.now(datetime.UTC)
        try:
            ended = launch(program, command, environment, watching)
        except OSError as error:
            raise not_executed(command[0], error) from error
        written = arena.read()
        full = Fact.FULL in written.facts
        try:
            return ended, join(written), started, full
        except HeadraceError as error:
            return ended, error, started, full


def _recording(
    read: Read, ended: EndedProgram, name: str, command: Sequence[str], started: datetime.datetime
) -> Recording:
    """Return the recording; times count from the program's start."""
    shift = read.begin_ns - ended.begin_ns
    unseen = _unseen(read, ended.counts)
    return Recording(
        name=name,
        by="headrace record",
        files=read.files,
        steps=read.steps.shifted(shift),
        duration_ns=max(ended.end_ns, read.end_ns) - ended.begin_ns,
        cpu_ns=round((ended.usage.ru_utime + ended.usage.ru_stime) * 1e9),
        cpu_wait_ns=max(read.cpu_wait_ns, ended.cpu_wait_ns),
        memory_bytes=ended.usage.ru_maxrss * 1024,
        command=tuple(command),
        started_utc=started.isoformat(timespec="milliseconds"),
        processes=read.processes,
        exit=_exit_words(ended.exit_code),
        machine=(
            f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()} "
            f"{platform.release()}"
        ),
        unseen=unseen,
        notes=tuple(_notes(read, unseen)),
    )


def _exit_words(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"killed by {signal_name(-code)}"


def _unseen(read: Read, counts: KernelCounts | None) -> Unseen | None:
    """Return the bytes that the kernel counted and no record covers."""
    if counts is None:
        return None
    # The kernel can count less than was seen: processes that no parent waited for are in no
    # parent's counts.
    return Unseen(
        max(0, counts.read_bytes - read.read_bytes),
        max(0, counts.written_bytes - read.written_bytes),
        counts.read_bytes,
        counts.written_bytes,
    )


def _notes(read: Read, unseen: Unseen | None) -> list[str]:
    """Return what a reader of the profile must know."""
    notes = list(read.notes)
    if unseen is None:
        notes.append(
            "the kernel's counts could not be read: whether reads or writes are missing is "
            "not known"
        )
    elif max(unseen.read_bytes, unseen.written_bytes) >= _NOTED_BYTES:
        notes.append(
            f"not seen: {format_amount(unseen.read_bytes)} read (the kernel counted "
            f"{format_amount(unseen.kernel_read_bytes)})"
            f" and {format_amount(unseen.written_bytes)} written (of "
            f"{format_amount(unseen.kernel_written_bytes)}):"
            " the profile lacks them"
        )
    elif (
        max(
            read.read_bytes - unseen.kernel_read_bytes,
            read.written_bytes - unseen.kernel_written_bytes,
        )
        >= _NOTED_BYTES
    ):
        notes.append(
            "the kernel's counts lack processes that nobody waited for: what else they may "
            "lack is not known"
        )
    notes += _notes_on_unfinished(read.unfinished)
    if not np.isin(read.steps.op, (Op.READ, Op.WRITE, Op.MAPPED_READ)).any():
        notes.append(
            "no reads or writes of files were seen; a program that makes its system calls "
            "itself (Go) is seen by strace only"
        )
    return notes


def _notes_on_unfinished(pids: Sequence[int]) -> list[str]:
    """Return notes on processes that did not say that they ended: what the profile lacks of them.

    Called right after the program's end: an id is not yet that of another process.
    """
    running = sum(start_ticks(pid) is not None for pid in pids)
    ended = len(pids) - running
    notes: list[str] = []
    if running:
        notes.append(
            f"{running} process{'es' if running > 1 else ''} still ran when the program had ended: "
            "the profile lacks what they read and wrote later"
        )
    if ended:
        notes.append(
            f"{ended} process{'es were' if ended > 1 else ' was'} killed or ended unseen:"
            " the profile is complete up to there"
        )
    return notes
