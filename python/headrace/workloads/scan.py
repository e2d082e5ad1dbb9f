"""The workload `scan`: one variable read and histogrammed. As light on CPU as a real job gets."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from pydantic import Field

from headrace.datasets import DatasetSpec, estimated_bytes
from headrace.errors import Problem
from headrace.readers import ReadCounts, spans_of
from headrace.readers.options import ReadingOptions, finish_counts, reader_problems
from headrace.workloads import JobInput, JobOutput, Workload, WorkloadOptions


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
        """Imports the reader and runs it once over a few events of its own."""
        import hist  # noqa: F401 - a job would otherwise import it while it is measured

        import headrace.higgs.histograms
        import headrace.readers.verification  # noqa: F401
        from headrace.readers.warming import warm_column

        # The variable itself may be one that only the study's shape has.
        warm_column(self.scan, "Muon_pt")

    def run(self, job: JobInput) -> JobOutput:
        """Reads and fills. Raises HeadraceError for a file that cannot be read whole."""
        return self._run_uproot(job)

    def merge(self, outputs: list[dict[str, Any]]) -> dict[str, Any]:
        """The sum of the jobs' histograms."""
        from headrace.higgs.histograms import merged

        found = [output["histogram"] for output in outputs if "histogram" in output]
        return {"variable": self.scan.variable, "histogram": merged(found)} if found else {}

    def _run_uproot(self, job: JobInput) -> JobOutput:
        import awkward as ak
        import hist
        import numpy as np

        from headrace.higgs.histograms import as_numbers
        from headrace.readers.uproot_reader import UprootReader
        from headrace.readers.verification import verify

        counts = ReadCounts()
        reader = UprootReader(self.scan.access, self.scan.step_events, counts)
        axis = hist.axis.Regular(self.scan.bins, self.scan.low, self.scan.high)
        histogram: Any = hist.Hist(axis, storage=hist.storage.Int64())
        begun = time.monotonic()
        events_by_file: dict[str, int] = {}
        try:
            for span in spans_of(job):
                events_by_file.setdefault(span.file, 0)
                for chunk in reader.read(span, [self.scan.variable]):
                    histogram.fill(np.asarray(ak.ravel(chunk.columns[self.scan.variable]), np.float64))
                    events_by_file[span.file] += chunk.events
        finally:
            reader.close()
        if self.scan.verify:
            verify(events_by_file, whole=job.packets is None)
        return JobOutput(
            events=sum(events_by_file.values()),
            phases=[("read", begun, time.monotonic())],
            results={"variable": self.scan.variable, "histogram": as_numbers(histogram)},
            **finish_counts(counts),  # pyright: ignore[reportArgumentType]
        )
