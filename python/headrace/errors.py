"""Errors with one clear message for the user: wrong input, and conditions of the machine.

Base layer, used by every package: the code that detects such a condition raises one of these
errors; the command line prints it and exits with its code. Any other exception that escapes is a
defect of Headrace.
"""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path


def as_word(value: object) -> str:
    """Return a path or name as one word of a shell command.

    `-x` becomes `./-x`, because it would be read as an option.
    """
    text = str(value)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


class ExitCode(IntEnum):
    """Exit codes of `headrace` (docs/commands.md lists them for users)."""

    OK = 0
    DEFECT = 1
    """An error of Headrace itself."""
    BAD_INPUT = 2
    """The command line or a file of the user is wrong; nothing was started."""
    MISSING = 3
    """A program, privilege or kernel feature is missing; nothing was started."""
    REFUSED = 4
    """The request could harm existing data.

    Examples: a device that is mounted or holds data, results of another study.
    """
    INVALID_TRIALS = 5
    """The study ran, and some trials failed or are invalid."""
    RUN_FAILED = 6
    """The study could not continue (disk full, target gone)."""
    REGRESSION = 7
    """`headrace gate`: a cell got worse than in the baseline."""
    INTERRUPTED = 130
    """Stopped by the user; `headrace resume` continues the run."""


class HeadraceError(Exception):
    """An error with one message for the user, an optional remedy (`hint`) and an exit code."""

    exit_code: ExitCode = ExitCode.RUN_FAILED

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.left: tuple[str, ...] = ()
        """Changes of the machine that could not be undone after the error; `headrace undo` can."""


class RefusedError(HeadraceError):
    """The operation could harm something that existed before (law 7)."""

    exit_code = ExitCode.REFUSED


class IncomparableError(RefusedError):
    """Two result sets have nothing that can be compared: no valid trial, or no common cell."""


class NotJudgedError(HeadraceError):
    """Results that cannot be judged: they say neither yes nor no."""

    exit_code = ExitCode.INVALID_TRIALS


class UsageError(HeadraceError):
    """The command line is wrong: an option, or a path that it names. Nothing was started."""

    exit_code = ExitCode.BAD_INPUT


class MissingError(HeadraceError):
    """A program, privilege or kernel feature is missing. `hint` says what to install or do."""

    exit_code = ExitCode.MISSING


class UnsupportedLevelError(HeadraceError):
    """This machine cannot provide a level; the trial is recorded as unsupported."""


class InterruptedRunError(HeadraceError):
    """The user stopped the run."""

    exit_code = ExitCode.INTERRUPTED


class CannotRecordError(HeadraceError):
    """Records cannot be written; the run cannot go on."""


def all_of(errors: Sequence[HeadraceError]) -> HeadraceError:
    """Return one error that says what at least one other says; the first one's remedies first."""
    if len(errors) == 1:
        return errors[0]
    hints = dict.fromkeys(error.hint for error in errors if error.hint)
    return HeadraceError(
        "; ".join(error.message for error in errors), hint="; ".join(hints) or None
    )


class NoSpaceError(HeadraceError):
    """There is no space for a file that Headrace needs for a moment. No study is wrong."""


MOUNT_GONE = (errno.ENOTCONN, errno.ESTALE, errno.EHOSTDOWN)
"""Numbers of errors of a mount whose client in user space (FUSE) or server is gone."""
MOUNT_AGAIN = "the program or server behind its mount is gone: unmount it, and mount it again"

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of errors of a file system, or of a quota, without space or inodes left."""


def system_error(error: BaseException) -> OSError | None:
    """Return the error of the system that an error is, or was raised for; None without one."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, OSError):
        found = found.__cause__ or found.__context__
    return found


def system_words(error: OSError) -> str:
    """Return the system's words for an error, also for one of a library (pyarrow) that has put
    its own text in their place."""
    return os.strerror(error.errno) if error.errno else error.strerror or str(error)


def describe(error: Exception) -> str:
    """Return the text of an error for people, on one line."""
    if isinstance(error, HeadraceError):
        return error.message
    if isinstance(error, OSError) and error.strerror:
        words = system_words(error)
        return f"{error.filename}: {words}" if error.filename else words
    return " ".join(f"{type(error).__name__}: {error}".split())[:400]


@dataclass(frozen=True)
class FileProblem:
    """One problem of a file that the user wrote."""

    file: Path
    line: int
    """1-based; 0 when the problem has no line (something is missing)."""
    field: str
    """Dotted path of the field, such as `workload.higgs.data.codec`; empty for the whole file."""
    given: str
    """The value in the file as text; empty when there is none."""
    problem: str
    """What is wrong, in one clause."""
    allowed: str = ""
    """Allowed values."""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else f"{self.file}"
        return f"{place}: {self.words}"

    @property
    def words(self) -> str:
        """The problem without its place: for who did not write the file."""
        field = f"{self.field}: " if self.field else ""
        given = f" (given: {self.given})" if self.given else ""
        allowed = f"; allowed: {self.allowed}" if self.allowed else ""
        return f"{field}{self.problem}{given}{allowed}"


class StudyError(HeadraceError):
    """A file that the user wrote is wrong. Carries every problem; the message has one line each."""

    exit_code = ExitCode.BAD_INPUT

    def __init__(self, problems: list[FileProblem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems) or "the study is wrong")
        self.problems = problems


@dataclass(frozen=True)
class Problem:
    """Something that this machine lacks for a study, found before anything starts."""

    what: str
    """The missing thing."""
    needed_by: str
    """The target, workload, probe or factor that needs it."""
    remedy: str
    """What to install or do."""
    fatal: bool = True
    """False when the study can run without it (`without` says what is lost)."""
    without: str = ""
    """What still works, or is lost, without it."""
    level: tuple[str, str] | None = field(default=None)
    """(factor, level) when only that level is unavailable."""
    of_study: FileProblem | None = None
    """The field of the study that is wrong, where no machine lacks anything."""
