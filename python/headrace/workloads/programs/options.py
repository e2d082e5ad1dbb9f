"""Fields of workloads that run a program of the user: its input, and the number of its events."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, field_validator, model_validator

from headrace.datasets import DatasetSpec
from headrace.workloads import WorkloadOptions
from headrace.workloads.programs.output import pattern_checked
from headrace.workloads.programs.placeholders import anchored


class ProgramOptions(WorkloadOptions):
    """Fields of `[workload.NAME]` of every kind that runs a program of the user."""

    files: str | None = Field(
        None,
        min_length=1,
        description="input files: a pattern below the target's directory, or a full path with * "
        "and **; of `command` each job has one, in turn; of `dask` the script has all",
        examples=["nano/*.root"],
    )
    data: DatasetSpec | None = Field(
        None, description="a generated data set instead of files of one's own"
    )
    events: int | None = Field(
        None,
        ge=0,
        description="events that one run of the program processes, when the number is known",
    )
    events_pattern: str | None = Field(
        None,
        description="regular expression on a line of the program's output: the number in its first "
        "group, of the last line that fits, is the job's events; without a group, every line "
        "that fits is an event",
        examples=["processed (\\d+) events"],
    )

    @classmethod
    def anchored(cls, written: dict[str, object], base: Path) -> dict[str, object]:
        """Return the table with {study} filled in, and `./run.sh` as an absolute path.

        Called before validation, with the folder of the study file.
        """
        return anchored(written, base)

    @field_validator("events_pattern")
    @classmethod
    def _is_a_pattern(cls, pattern: str | None) -> str | None:
        return pattern_checked(pattern)

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.files is not None and self.data is not None:
            raise ValueError("files and data exclude each other")
        if self.events is not None and self.events_pattern is not None:
            raise ValueError("events and events_pattern exclude each other")
        return self
