"""Options that every workload with events has, and what follows from them for every one."""

from __future__ import annotations

import importlib.util
from typing import Literal

from pydantic import BaseModel, Field

from headrace.datasets.spec import DatasetSpec
from headrace.errors import Problem

Reader = Literal["uproot", "rdataframe", "event-loop"]


class ReadingOptions(BaseModel):
    """What is read, and how. A workload's options have these fields beside its own."""

    data: DatasetSpec = Field(
        default_factory=lambda: DatasetSpec.model_validate({}), description="the data set that is read"
    )
    reader: Reader = Field(
        "uproot", description="uproot, ROOT's RDataFrame, or a compiled loop over events with ROOT"
    )
    access: Literal["pread", "mmap"] = Field(
        "pread", description="how uproot reads local files: a pread for each basket, or a memory map"
    )
    step_events: int = Field(
        10_000, ge=1, description="events that uproot holds in memory at once, rounded up to whole clusters"
    )
    verify: bool = Field(
        False,
        description="compare each file with the data set's manifest, if that lies beside it: size, number of events and,"
        " by reading it once more when the job has done its work, contents",
    )


def reader_problems(options: ReadingOptions, needed_by: str) -> list[Problem]:
    """What this machine lacks for the reader."""
    if options.reader != "uproot" and importlib.util.find_spec("ROOT") is None:
        return [
            Problem(
                what=f"ROOT's Python package (reader {options.reader!r})",
                needed_by=needed_by,
                remedy="pip install 'headrace[root]', or use reader = \"uproot\"",
            )
        ]
    return []
