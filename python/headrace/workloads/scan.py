"""Workload `scan`: reads columns and fills a histogram of one of them.

It is as light on CPU as a real job gets.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator, model_validator
from typing_extensions import override

from headrace.datasets import Data, OwnFiles, data_bytes
from headrace.errors import HeadraceError, Problem
from headrace.jobs import Histogram
from headrace.readers.options import ReadingOptions, WrongField, reader_problems
from headrace.registry import nearest
from headrace.site import Site
from headrace.workloads import (
    JobInput,
    JobOutput,
    JobResults,
    ModelledJob,
    Workload,
    WorkloadOptions,
)

if TYPE_CHECKING:
    from headrace.readers.own_columns import OwnNotes
    from headrace.readers.root_reader import RootTotals

DEFAULT_VARIABLE = "Muon_pt"


class ScanOptions(ReadingOptions, WorkloadOptions):
    """Fields of `[workload.NAME]` with `kind = "scan"`."""

    variable: str | None = Field(
        None,
        min_length=1,
        description="the column that is read and histogrammed; Muon_pt of a generated data set, "
        "the largest column of numbers of your own files when not given (without any, all columns "
        "or `columns` are read, and nothing is histogrammed)",
    )
    columns: tuple[str, ...] | None = Field(
        None,
        min_length=1,
        description="your own files: further columns that are read, names or patterns with * and ?",
        examples=[["Electron_*", "Muon_*"]],
    )
    bins: int = Field(100, ge=1, le=100_000, description="bins of the histogram")
    low: float = Field(0.0, description="lower edge of the histogram")
    high: float = Field(200.0, description="upper edge of the histogram")

    @field_validator("columns", mode="before")
    @classmethod
    def _one_is_a_list(cls, columns: object) -> object:
        return [columns] if isinstance(columns, str) else columns

    @model_validator(mode="after")
    def _of_their_data(self) -> ScanOptions:
        if self.columns is not None and self.own is None:
            raise ValueError("columns is for files of your own: data = { files = [...] }")
        return self

    @override
    def wrong_fields(self) -> list[WrongField]:
        # Every shape has the default; the names of the others take a second.
        if self.own is not None or self.variable in (None, DEFAULT_VARIABLE):
            return super().wrong_fields()
        from headrace.datasets.shapes import column_names

        shape = self.generated.shape
        known = column_names(shape)
        if self.variable in known:
            return []
        near = nearest(str(self.variable), known)
        problem = f"generated events of shape {shape} have no column {self.variable}"
        return [(("variable",), problem + (f'; did you mean "{near}"?' if near else ""))]

    @override
    def _wrong_columns(self, own: OwnFiles) -> list[WrongField]:
        from headrace.readers.own_columns import check_other_files, has_numbers, wanted_columns

        found: list[WrongField] = []
        for name, variable, columns in (
            ("variable", self.variable, None),
            ("columns", None, self.columns),
        ):
            try:
                first = wanted_columns(own, variable, columns, self.reader)[0]
                filled = [first] if has_numbers(own, self.reader) else None
                check_other_files(own, filled if name == "variable" else columns)
            except HeadraceError as error:
                text = error.message + (f"; {error.hint}" if error.hint else "")
                found.append(((name if variable or columns else "data",), text))
        return list(dict.fromkeys(found))


def _filled(variable: str | None, histogram: Histogram) -> dict[str, object]:
    """Return the results of a scan with a variable; nothing of one without."""
    return {} if variable is None else {"variable": variable, "histogram": histogram}


class Scan(Workload):
    """Read columns of every event and fill one histogram."""

    kind: ClassVar[str] = "scan"
    Options: ClassVar[type[WorkloadOptions]] = ScanOptions
    feeds: ClassVar[frozenset[str]] = frozenset({"files", "packets"})
    reads_urls: ClassVar[bool] = True
    thread_a_cpu: ClassVar[bool] = True

    def __init__(self, name: str, options: ScanOptions) -> None:
        super().__init__(name, options)
        self.scan: ScanOptions = options

    def check(self) -> list[Problem]:
        """Return a problem when the reader's library is missing."""
        return reader_problems(self.scan, f"workload.{self.name}")

    def dataset(self, slots_max: int) -> Data | None:
        """Return the data that the jobs read."""
        return self.scan.data

    def target_bytes(self, slots_max: int) -> int:
        """Return the size of the data read; nothing is written."""
        return data_bytes(self.scan.data)

    def options_for_jobs(self) -> ScanOptions:
        """Return the options with the variable of the user's own files, to save jobs the search."""
        if self.scan.variable is not None:
            return self.scan
        return self.scan.model_copy(update={"variable": self._variable()})

    @property
    @override
    def threads(self) -> int:
        """Threads that share the loop of RDataFrame."""
        return self.scan.threads

    @property
    @override
    def crash_note(self) -> str:
        """What ROOT may crash at."""
        return self.scan.crash_note

    def warm(self) -> None:
        """Read and fill once over a few generated events."""
        from headrace.workloads.reading.warming import warm_by_running

        variable = (
            {"variable": DEFAULT_VARIABLE, "columns": None} if self.scan.own is not None else {}
        )
        warm_by_running(self, self.scan.data, variable)
        if self.scan.own is not None and self.scan.reader == "rdataframe":
            from headrace.readers.root_own import compile_for_own

            variable = self.scan.variable
            wanted = None if variable is None else [variable, *(self.scan.columns or ())]
            compile_for_own(self.scan, wanted, variable)

    def run(self, job: JobInput) -> JobOutput:
        """Read the columns and fill the histogram.

        Raises HeadraceError for a file that cannot be read completely.
        """
        if self.scan.reader == "uproot":
            return self._run_uproot(job)
        return self._run_root(job) if self.scan.own is None else self._run_root_on_own(job)

    def _run_root(self, job: JobInput) -> JobOutput:
        from headrace.readers.root_reader import run_with_root

        axes = {"histogram": (self.scan.bins, self.scan.low, self.scan.high)}
        begun = time.monotonic()

        def output(totals: RootTotals, histograms: dict[str, Histogram]) -> JobOutput:
            return JobOutput(
                phases=[("read", begun, time.monotonic())],
                results={"variable": self._histogrammed, **histograms},
                **totals.output(),
            )

        wanted = self._wanted()
        return output(*run_with_root(self.scan, job, wanted, axes, search=False, so_far=output))

    def _run_root_on_own(self, job: JobInput) -> JobOutput:
        from headrace.readers.root_own import scan_own_files

        axis = (self.scan.bins, self.scan.low, self.scan.high)
        variable = self._histogrammed
        begun = time.monotonic()

        def output(totals: RootTotals, histogram: Histogram, notes: OwnNotes) -> JobOutput:
            return JobOutput(
                phases=[("read", begun, time.monotonic())],
                results={**_filled(variable, histogram), **notes.results()},
                **totals.output(),
            )

        wanted = self._named(variable)
        return output(*scan_own_files(self.scan, job, variable, wanted, axis, output))

    def _run_uproot(self, job: JobInput) -> JobOutput:
        import awkward as ak
        import hist
        import numpy as np

        from headrace.readers.uproot_reading import UprootReading
        from headrace.workloads.higgs.histograms import as_numbers

        reading = UprootReading(self.scan, job)
        axis = hist.axis.Regular(self.scan.bins, self.scan.low, self.scan.high)
        histogram: Any = hist.Hist(axis, storage=hist.storage.Int64())
        variable = self._histogrammed
        begun = time.monotonic()
        columns = self._wanted() if self.scan.own is None else self._named(variable)

        def output() -> JobOutput:
            return JobOutput(
                phases=[("read", begun, time.monotonic())],
                results={**_filled(variable, as_numbers(histogram)), **reading.notes.results()},
                **reading.output(),
            )

        for chunk in reading.chunks(columns, so_far=output):
            if variable is None:
                continue
            if variable not in chunk.columns:
                why = reading.notes.unread.get(variable)
                what = (
                    f"column {variable} holds no numbers"
                    if why is None
                    else (f"uproot cannot read the numbers of column {variable}: {why}")
                )
                hint = None if why is None else "name another variable, or a reader of ROOT's"
                raise HeadraceError(f"{chunk.span.file}: {what}", hint=hint)
            values = ak.ravel(chunk.columns[variable])
            histogram.fill(np.asarray(values, np.float64))
        return output()

    @property
    def _histogrammed(self) -> str | None:
        """The column that a job histograms: of own files the one that `options_for_jobs` found."""
        return self.scan.variable or (DEFAULT_VARIABLE if self.scan.own is None else None)

    def _variable(self) -> str | None:
        """Return the column that is histogrammed; None for own files without columns of numbers.

        Raises HeadraceError when the reader reads nothing else in such files.
        """
        if self.scan.variable is not None:
            return self.scan.variable
        if self.scan.own is None:
            return DEFAULT_VARIABLE
        from headrace.readers.own_columns import has_numbers, wanted_columns

        first = wanted_columns(self.scan.own, None, None, self.scan.reader)[0]
        return first if has_numbers(self.scan.own, self.scan.reader) else None

    def _named(self, variable: str | None) -> list[str]:
        """Return the names and patterns of what is read of own files; "*" for all of it."""
        columns = self.scan.columns or ()
        return [variable, *columns] if variable is not None else [*columns] or ["*"]

    def _wanted(self) -> list[str]:
        """Return the columns to read, the variable first.

        Raises HeadraceError for a missing column.
        """
        if self.scan.own is None:
            return [self.scan.variable or DEFAULT_VARIABLE]
        from headrace.readers.own_columns import wanted_columns

        return wanted_columns(
            self.scan.own, self.scan.variable, self.scan.columns, self.scan.reader
        )

    def profile(self, site: Site | None) -> ModelledJob:
        """Return the reads that the file's layout and the reader cause, and the CPU time."""
        from headrace.readers.costs import SCAN_EVENT_NS
        from headrace.readers.modelled_data import modelled_data
        from headrace.readers.modelled_reading import first_look, modelled_reading

        data = modelled_data(self.scan)
        made = modelled_reading(
            self.scan,
            data,
            self._wanted(),
            SCAN_EVENT_NS[self.scan.reader],
            packets=self.fed_by_packets,
        )
        if self.scan.reader != "uproot" and self.scan.own is None:
            # The type of the column is first looked up with uproot (readers/root_reader.py).
            made.steps.insert(1, first_look(data, self.scan, self._wanted()[0]))
        return made

    def merge(self, outputs: list[JobResults]) -> JobResults:
        """Return the sum of the jobs' histograms, with the notes on columns."""
        from headrace.readers.own_columns import merged_notes
        from headrace.workloads.higgs.histograms import merged

        found = [output for output in outputs if "histogram" in output]
        if not found:
            return {**merged_notes(outputs)}
        return {
            "variable": found[0]["variable"],
            "histogram": merged([output["histogram"] for output in found]),
            **merged_notes(found),
        }
