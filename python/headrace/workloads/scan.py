"""The workload `scan`: one variable read and histogrammed. As light on CPU as a real job gets."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from pydantic import Field

from headrace.datasets import DatasetSpec, estimated_bytes
from headrace.errors import Problem
from headrace.readers.options import ReadingOptions, reader_problems
from headrace.workloads import JobInput, JobOutput, ModelledJob, Workload, WorkloadOptions


class ScanOptions(ReadingOptions, WorkloadOptions):
    """Fields of `[workload.NAME]` with `kind = "scan"`."""

    variable: str = Field("Muon_pt", description="the column that is read")
    bins: int = Field(100, ge=1, le=100_000, description="bins of the histogram")
    low: float = Field(0.0, description="lower edge of the histogram")
    high: float = Field(200.0, description="upper edge of the histogram")


class Scan(Workload):
    """Reads one column of every event and fills one histogram."""

    kind: ClassVar[str] = "scan"
    Options: ClassVar[type[WorkloadOptions]] = ScanOptions
    feeds: ClassVar[frozenset[str]] = frozenset({"files", "packets"})
    reads_urls: ClassVar[bool] = True

    def __init__(self, name: str, options: ScanOptions) -> None:
        super().__init__(name, options)
        self.scan: ScanOptions = options

    def check(self) -> list[Problem]:
        """The reader's library."""
        return reader_problems(self.scan, f"workload.{self.name}")

    def dataset(self, slots_max: int) -> DatasetSpec | None:
        """The data set that is read."""
        return self.scan.data

    def target_bytes(self, slots_max: int) -> int:
        """The data set alone: nothing is written."""
        return estimated_bytes(self.scan.data)

    def warm(self) -> None:
        """Reads and fills once over a few events of its own."""
        from headrace.readers.warming import warm_by_running

        warm_by_running(self, self.scan.data)

    def run(self, job: JobInput) -> JobOutput:
        """Reads and fills. Raises HeadraceError for a file that cannot be read whole."""
        return self._run_uproot(job) if self.scan.reader == "uproot" else self._run_root(job)

    def _run_root(self, job: JobInput) -> JobOutput:
        from headrace.readers.root_reader import run_with_root

        axes = {"histogram": (self.scan.bins, self.scan.low, self.scan.high)}
        begun = time.monotonic()
        totals, histograms = run_with_root(self.scan, job, [self.scan.variable], axes, search=False)
        return JobOutput(
            phases=[("read", begun, time.monotonic())],
            results={"variable": self.scan.variable, **histograms},
            **totals.output(),
        )

    def _run_uproot(self, job: JobInput) -> JobOutput:
        import awkward as ak
        import hist
        import numpy as np

        from headrace.readers.uproot_reading import UprootReading
        from headrace.workloads.higgs.histograms import as_numbers

        reading = UprootReading(self.scan, job)
        axis = hist.axis.Regular(self.scan.bins, self.scan.low, self.scan.high)
        histogram: Any = hist.Hist(axis, storage=hist.storage.Int64())
        begun = time.monotonic()
        for chunk in reading.chunks([self.scan.variable]):
            histogram.fill(np.asarray(ak.ravel(chunk.columns[self.scan.variable]), np.float64))
        return JobOutput(
            phases=[("read", begun, time.monotonic())],
            results={"variable": self.scan.variable, "histogram": as_numbers(histogram)},
            **reading.output(),
        )

    def profile(self, site: Any) -> ModelledJob:
        """The reads that the file's layout and the reader make, and the time that a histogram takes."""
        from headrace.datasets.layout import layout_of_dataset
        from headrace.readers.costs import SCAN_EVENT_NS
        from headrace.readers.modelled_reading import first_look, modelled_reading

        made = modelled_reading(self.scan, [self.scan.variable], SCAN_EVENT_NS[self.scan.reader])
        if self.scan.reader != "uproot":
            # The type of the column is looked up with uproot first (readers/root_reader.py).
            made.steps.insert(1, first_look(layout_of_dataset(self.scan.data), self.scan, self.scan.variable))
        return made

    def merge(self, outputs: list[dict[str, Any]]) -> dict[str, Any]:
        """The sum of the jobs' histograms."""
        from headrace.workloads.higgs.histograms import merged

        found = [output["histogram"] for output in outputs if "histogram" in output]
        return {"variable": self.scan.variable, "histogram": merged(found)} if found else {}
