"""Options that all event-reading workloads share, and what follows from them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, Field, model_validator

from headrace.datasets.data import Data
from headrace.datasets.own_files import OwnFiles, anchored_files
from headrace.datasets.spec import DatasetSpec
from headrace.document import anchored_path
from headrace.errors import Problem

Reader = Literal["uproot", "rdataframe", "event-loop"]
WrongField = tuple[tuple[str | int, ...], str]
"""Path of a field in a workload's table, and its problem."""


class ReadingOptions(BaseModel):
    """What is read, and how. A workload's options add fields of their own."""

    data: Data = Field(
        default_factory=lambda: DatasetSpec.model_validate({}),
        description="what is read: a data set that is generated, or ROOT files of your own",
    )
    reader: Reader = Field(
        "uproot", description="uproot, ROOT's RDataFrame, or a compiled loop over events with ROOT"
    )
    access: Literal["pread", "mmap"] = Field(
        "pread",
        description="how uproot reads local files: a pread for each basket, or a memory map",
    )
    step_events: int = Field(
        10_000,
        ge=1,
        description="events that uproot holds in memory at once, rounded up to whole clusters",
    )
    threads: int = Field(
        1,
        ge=1,
        le=1024,
        description="threads of one job that share its clusters, as RDataFrame's with implicit "
        "multithreading; measured: at most the CPUs of a node",
    )
    verify: bool = Field(
        False,
        description="compare each file with the data set's manifest, if that lies beside it: size, "
        "number of events and, by reading it once more when the job has done its work, "
        "contents",
    )

    @model_validator(mode="after")
    def _threads_of_rdataframe(self) -> Self:
        if self.threads > 1 and self.reader != "rdataframe":
            raise ValueError(
                f'threads = {self.threads} needs reader = "rdataframe"; the others read in one '
                "thread"
            )
        return self

    @classmethod
    def anchored(cls, written: dict[str, object], base: Path) -> dict[str, object]:
        """Return the table with absolute paths for the user's files. Called before validation."""
        if "data" not in written:
            return written
        data = anchored_files(written["data"], lambda text: str(anchored_path(base, text)))
        return {**written, "data": data}

    def wrong_fields(self) -> list[WrongField]:
        """Return the problems of the user's own files, which are opened but not read."""
        if self.own is None:
            return []
        from headrace.datasets.own_check import wrong_files

        found: list[WrongField] = [
            (("data", *place), problem) for place, problem in wrong_files(self.own)
        ]
        return found or self._wrong_columns(self.own)

    def _wrong_columns(self, own: OwnFiles) -> list[WrongField]:
        """Return the problems of the fields that name columns of the user's own files."""
        return []

    @property
    def own(self) -> OwnFiles | None:
        """The user's own files, when the workload reads them."""
        return self.data if isinstance(self.data, OwnFiles) else None

    @property
    def crash_note(self) -> str:
        """A likely reason why a job was killed by a crash; empty when there is none."""
        if self.own is None or self.reader == "uproot":
            return ""
        return (
            "ROOT crashes at some objects of classes for which it has no code; "
            'reader = "uproot" needs none'
        )

    @property
    def generated(self) -> DatasetSpec:
        """The generated data set. Raises TypeError when the workload reads the user's own files."""
        if not isinstance(self.data, DatasetSpec):
            raise TypeError("the user's own files are read")
        return self.data


def reader_problems(options: ReadingOptions, needed_by: str) -> list[Problem]:
    """Return what this machine lacks for the reader."""
    if options.reader != "uproot" and importlib.util.find_spec("ROOT") is None:
        return [
            Problem(
                what=f"ROOT's Python package (reader {options.reader!r})",
                needed_by=needed_by,
                remedy="make setup-all in a clone, pip install 'headrace[root]', or use reader = "
                '"uproot"',
            )
        ]
    return []
