"""Mistakes that a user can make, and conditions that a machine can be in: one clear message each.

Ground of every room: whoever finds such a thing raises one of these, the command line prints it and exits
with its code. Anything else that escapes is a defect of Headrace.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path


class ExitCode(IntEnum):
    """What the exit code of `headrace` means (docs/commands.md lists them for users)."""

    OK = 0
    DEFECT = 1
    """An error of Headrace itself."""
    BAD_INPUT = 2
    """The command line or a file that the user wrote is wrong; nothing was started."""
    MISSING = 3
    """A program, privilege or kernel feature is missing; nothing was started."""
    REFUSED = 4
    """What was asked could harm what is there (a mounted or filled device, results of another study)."""
    INVALID_TRIALS = 5
    """The study ran, and some trials failed or are invalid."""
    RUN_FAILED = 6
    """The study could not go on (disk full, target gone)."""
    INTERRUPTED = 130
    """Stopped by the user; `headrace resume` goes on."""


class HeadraceError(Exception):
    """A condition with one message for the user, an optional way out, and an exit code."""

    exit_code: ExitCode = ExitCode.RUN_FAILED

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class RefusedError(HeadraceError):
    """Doing it could harm something that was there before (law 7)."""

    exit_code = ExitCode.REFUSED


class MissingError(HeadraceError):
    """A program, privilege or kernel feature is missing. `hint` says what to install or do."""

    exit_code = ExitCode.MISSING


class UnsupportedLevelError(HeadraceError):
    """A level cannot be had on this machine; the trial is recorded as unsupported with this reason."""


class InterruptedRunError(HeadraceError):
    """The user stopped the run."""

    exit_code = ExitCode.INTERRUPTED


@dataclass(frozen=True)
class Fault:
    """One thing wrong with a file that the user wrote."""

    file: Path
    line: int
    """1-based; 0 when the fault lies in no line (something is missing)."""
    field: str
    """Dotted path of the field, such as `workload.higgs.data.codec`."""
    given: str
    """What stands there, as text; empty when nothing does."""
    problem: str
    """What is wrong with it, one clause."""
    allowed: str = ""
    """What may stand there instead."""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else f"{self.file}"
        given = f" (given: {self.given})" if self.given else ""
        allowed = f"; allowed: {self.allowed}" if self.allowed else ""
        return f"{place}: {self.field}: {self.problem}{given}{allowed}"


class StudyError(HeadraceError):
    """A file that the user wrote is wrong. Carries every fault at once."""

    exit_code = ExitCode.BAD_INPUT

    def __init__(self, faults: list[Fault]) -> None:
        count = len(faults)
        super().__init__(
            f"{count} fault{'s' if count != 1 else ''} in {faults[0].file if faults else 'the study'}"
        )
        self.faults = faults


@dataclass(frozen=True)
class Problem:
    """Something that this machine lacks for a study, found before anything starts."""

    what: str
    """What was looked for and not found."""
    needed_by: str
    """The target, workload, probe or factor that needs it."""
    remedy: str
    """What to install or do."""
    fatal: bool = True
    """False when the study can go on without it (`without` says what is lost)."""
    without: str = ""
    """What still works, or is lost, without it."""
    level: tuple[str, str] | None = field(default=None)
    """(factor, level) when only that level cannot be had."""
