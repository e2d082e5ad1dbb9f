"""Workload `command`: any program of the user (cmsRun, root, a script), run on each input file.

The command is a list of arguments, never a shell line. Headrace measures what the kernel counts for
the program and its child processes. The number of events comes from the user or from the program's
output.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import time
from pathlib import Path
from typing import ClassVar, cast

from pydantic import Field, field_validator, model_validator

from headrace.datasets import DatasetSpec, estimated_bytes
from headrace.errors import HeadraceError, Problem
from headrace.registry import nearest
from headrace.system import children
from headrace.system.accounting import io_counts
from headrace.system.program_pages import hold_program
from headrace.workloads import (
    SET_FOR_JOBS,
    JobInput,
    JobOutput,
    JobResults,
    Workload,
    WorkloadOptions,
)

_OF_A_JOB = ("file", "directory", "scratch", "slot", "seed")
_STUDY = "{study}"
PLACEHOLDERS = (*_OF_A_JOB, _STUDY.strip("{}"))
_PLACEHOLDER = re.compile(r"\{(" + "|".join(_OF_A_JOB) + r")\}")
_BRACED_WORD = re.compile(r"\{([a-z]+)\}")
_LOG_BYTES = 1 << 20
"""Bytes kept of a program's output: the last ones."""


class CommandOptions(WorkloadOptions):
    """Fields of `[workload.NAME]` with `kind = "command"`."""

    command: tuple[str, ...] = Field(
        min_length=1,
        description="program and arguments, one each, no shell; {file}, {directory} (of the "
        "target), {scratch} (the job's own directory on the target, where the program is "
        "started), {slot}, {seed} and {study} (the study file's folder) are filled in",
        examples=[["root", "-b", "-q", 'macro.C("{file}")']],
    )
    files: str | None = Field(
        None,
        min_length=1,
        description="input files, one a job, in turn: a pattern below the target's directory, or a "
        "full path with * and **",
        examples=["nano/*.root"],
    )
    data: DatasetSpec | None = Field(
        None, description="a generated data set instead of files of one's own"
    )
    events: int | None = Field(
        None, ge=0, description="events that one job processes, when the number is known"
    )
    events_pattern: str | None = Field(
        None,
        description="regular expression on a line of the program's output: the number in its first "
        "group, of the last line that fits, is the job's events; without a group, every line "
        "that fits is an event",
        examples=["processed (\\d+) events"],
    )
    environment: dict[str, str] = Field(
        default_factory=dict[str, str],
        description="environment variables for the program; placeholders as in `command`",
    )

    @classmethod
    def anchored(cls, written: dict[str, object], base: Path) -> dict[str, object]:
        """Return the table with {study} filled in, and `./run.sh` as an absolute path.

        Called before validation, with the folder of the study file.
        """
        command, environment = written.get("command"), written.get("environment")
        if isinstance(command, list) and command:
            words = [_with_study(word, base) for word in cast("list[object]", command)]
            if isinstance(words[0], str) and "/" in words[0] and not _PLACEHOLDER.search(words[0]):
                words[0] = str(base / words[0])
            written = {**written, "command": words}
        if isinstance(environment, dict):
            pairs = cast("dict[str, object]", environment).items()
            filled = {name: _with_study(value, base) for name, value in pairs}
            written = {**written, "environment": filled}
        return written

    @field_validator("command")
    @classmethod
    def _known_placeholders(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        for argument in command:
            for word in _BRACED_WORD.findall(argument):
                # Braces may belong to the program itself; report only words that are close to a
                # placeholder.
                near = nearest(word, list(PLACEHOLDERS))
                if word not in PLACEHOLDERS and near is not None:
                    raise ValueError(f"unknown placeholder {{{word}}}; did you mean {{{near}}}?")
        return command

    @field_validator("events_pattern")
    @classmethod
    def _is_a_pattern(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"not a regular expression: {error}") from error
        return pattern

    @model_validator(mode="after")
    def _consistent(self) -> CommandOptions:
        if self.files is not None and self.data is not None:
            raise ValueError("files and data exclude each other")
        if self.events is not None and self.events_pattern is not None:
            raise ValueError("events and events_pattern exclude each other")
        if (
            self.files is None
            and self.data is None
            and any("{file}" in argument for argument in self.command)
        ):
            raise ValueError("the command names {file}: either files or data must say which")
        return self


class Command(Workload):
    """One run of the program per job."""

    kind: ClassVar[str] = "command"
    Options: ClassVar[type[WorkloadOptions]] = CommandOptions
    reads_urls: ClassVar[bool] = True

    options: CommandOptions

    def check(self) -> list[Problem]:
        """Return a problem when the program is not found."""
        program = self.options.command[0]
        if _PLACEHOLDER.search(program) or shutil.which(
            program, path=self.options.environment.get("PATH")
        ):
            return []
        return [
            Problem(
                what=f"the program {program} is not there, or may not be run",
                needed_by=f"workload {self.name}",
                remedy=f"install {program}, or give its full path in `command`",
            )
        ]

    def dataset(self, slots_max: int) -> DatasetSpec | None:
        """Return the generated data set, if the study requests one."""
        return self.options.data

    def target_bytes(self, slots_max: int) -> int:
        """Return the size of the generated data set; the program's output is unknown."""
        return estimated_bytes(self.options.data) if self.options.data is not None else 0

    def prepare_files(self, directory: Path, slots: int, seed: int) -> list[str]:
        """Return the user's files that match the pattern. Raises HeadraceError when none does.

        `directory` is Headrace's own directory within the target's.
        """
        pattern = self.options.files
        if pattern is None:
            return []
        below = "" if pattern.startswith("/") else glob.escape(str(directory.parent)) + "/"
        # Path.glob does not accept absolute patterns.
        names = glob.glob(below + pattern, recursive=True)  # noqa: PTH207
        found = sorted(path for path in names if Path(path).is_file())
        if not found:
            raise HeadraceError(
                f"workload {self.name}: no file fits {pattern}",
                hint=f"a pattern is looked for below {directory.parent}",
            )
        return found

    def warm(self) -> None:
        """Load the program and its linked libraries into memory; dlopen is part of the job."""
        hold_program(self.options.command[0])

    def run(self, job: JobInput) -> JobOutput:
        """Run the program in the job's scratch directory.

        Raises HeadraceError when its exit code is not 0.
        """
        options = self.options
        values = {
            "file": job.files[0] if job.files else "",
            "directory": "" if job.directory is None else str(job.directory),
            "scratch": str(job.scratch),
            "slot": str(job.slot),
            "seed": str(job.seed),
        }
        # The program runs in another directory, so paths must be absolute.
        folder = (job.keep or job.scratch).absolute()
        logs = (
            folder / f"command-{job.scratch.name}.out",
            folder / f"command-{job.scratch.name}.err",
        )
        before, start_s = io_counts(os.getpid()), time.monotonic()
        try:
            end = children.run(
                [_fill(argument, values) for argument in options.command],
                directory=job.scratch,
                stdout=logs[0],
                stderr=logs[1],
                environment={
                    **_users_environment(),
                    **{name: _fill(text, values) for name, text in options.environment.items()},
                },
            )
            end_s, moved = time.monotonic(), io_counts(os.getpid()) - before
            end.check()
            return JobOutput(
                events=self._events(logs[0]),
                bytes_asked=moved.read_chars,
                bytes_written=moved.write_bytes,
                read_calls=moved.read_calls,
                phases=[("command", start_s, end_s)],
                results={"left_running": end.left_running},
                measured_child=True,
            )
        finally:
            for log in logs:
                _shorten(log)

    def merge(self, outputs: list[JobResults]) -> JobResults:
        """Return the number of processes that the programs left running, if any."""
        left = sum(output.get("left_running", 0) for output in outputs)
        return {"left_running": left} if left else {}

    def _events(self, log: Path) -> int:
        options = self.options
        if options.events_pattern is None:
            return options.events or 0
        pattern = re.compile(options.events_pattern)
        count, number = 0, None
        with log.open(errors="replace") as lines:
            for line in lines:
                if fits := pattern.search(line):
                    count += 1
                    number = fits.group(1) if pattern.groups else None
        if not pattern.groups:
            return count
        if number is None:
            raise HeadraceError(
                f"no line of the program's output fits events_pattern {options.events_pattern}"
            )
        try:
            return int(number.replace(",", "").replace("_", ""))
        except ValueError as error:
            raise HeadraceError(f"events_pattern found {number!r}, which is no number") from error


def _with_study(value: object, base: Path) -> object:
    return value.replace(_STUDY, str(base)) if isinstance(value, str) else value


def _fill(text: str, values: dict[str, str]) -> str:
    """Fill in the placeholders of one argument.

    Placeholders within inserted values are not expanded.
    """
    return _PLACEHOLDER.sub(lambda found: values[found.group(1)], text)


def _shorten(log: Path) -> None:
    """Keep only the end of a long log, and delete an empty one."""
    if not log.exists():
        return
    size = log.stat().st_size
    if size == 0:
        log.unlink()
    elif size > _LOG_BYTES:
        with log.open("r+b") as file:
            file.seek(size - _LOG_BYTES)
            end = file.read()
            file.seek(0)
            file.write(f"[the first {size - _LOG_BYTES} bytes are left out]\n".encode() + end)
            file.truncate()


def _users_environment() -> dict[str, str]:
    """Return the user's environment, without the variables that Headrace set for its own code."""
    ours = {SET_FOR_JOBS, *os.environ.get(SET_FOR_JOBS, "").split(",")}
    return {name: value for name, value in os.environ.items() if name not in ours}
