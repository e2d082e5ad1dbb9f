"""Workload `command`: any program of the user (cmsRun, root, a script), run on each input file.

The command is a list of arguments, never a shell line. Headrace measures what the kernel counts for
the program and its child processes. The number of events comes from the user or from the program's
output.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import ClassVar

from pydantic import Field, field_validator, model_validator

from headrace.datasets import DatasetSpec, estimated_bytes
from headrace.errors import Problem
from headrace.system import children
from headrace.system.accounting import io_counts
from headrace.system.own_variables import users_environment
from headrace.system.program_pages import hold_program
from headrace.workloads import JobInput, JobOutput, JobResults, Workload, WorkloadOptions
from headrace.workloads.programs.files import files_that_fit
from headrace.workloads.programs.lacking import lack_of
from headrace.workloads.programs.options import ProgramOptions
from headrace.workloads.programs.output import events_in, shorten
from headrace.workloads.programs.placeholders import (
    STUDY,
    check_placeholders,
    fill,
    placeholders_in,
)

_OF_A_JOB = ("file", "directory", "scratch", "slot", "seed")
PLACEHOLDERS = (*_OF_A_JOB, STUDY)


class CommandOptions(ProgramOptions):
    """Fields of `[workload.NAME]` with `kind = "command"`."""

    command: tuple[str, ...] = Field(
        min_length=1,
        description="program and arguments, one each, no shell; {file}, {directory} (of the "
        "target), {scratch} (the job's own directory on the target, where the program is "
        "started), {slot}, {seed} and {study} (the study file's folder) are filled in",
        examples=[["root", "-b", "-q", 'macro.C("{file}")']],
    )
    environment: dict[str, str] = Field(
        default_factory=dict[str, str],
        description="environment variables for the program; placeholders as in `command`",
    )

    @field_validator("command")
    @classmethod
    def _known_placeholders(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        check_placeholders(command, PLACEHOLDERS)
        return command

    @model_validator(mode="after")
    def _consistent(self) -> CommandOptions:
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
    users_program: ClassVar[bool] = True

    options: CommandOptions

    def check(self) -> list[Problem]:
        """Return a problem when the program, or what its first line names, is not found."""
        program = self.options.command[0]
        if placeholders_in(program, _OF_A_JOB):
            return []
        lack = lack_of(program, self.options.environment)
        return [] if lack is None else [Problem(lack[0], f"workload {self.name}", lack[1])]

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
        return files_that_fit(self.name, self.options.files, directory)

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
                [fill(argument, values) for argument in options.command],
                directory=job.scratch,
                stdout=logs[0],
                stderr=logs[1],
                environment={
                    **users_environment(),
                    **{name: fill(text, values) for name, text in options.environment.items()},
                },
            )
            end_s, moved = time.monotonic(), io_counts(os.getpid()) - before
            end.check()
            return JobOutput(
                events=events_in(logs[0], options.events, options.events_pattern),
                bytes_asked=moved.read_chars,
                bytes_written=moved.written_chars,
                read_calls=moved.read_calls,
                phases=[("command", start_s, end_s)],
                results={"left_running": end.left_running},
                measured_child=True,
            )
        finally:
            for log in logs:
                shorten(log)

    def merge(self, outputs: list[JobResults]) -> JobResults:
        """Return the number of processes that the programs left running, if any."""
        left = sum(output.get("left_running", 0) for output in outputs)
        return {"left_running": left} if left else {}
