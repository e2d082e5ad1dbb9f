"""The workload `analysis`: a search for Higgs to four leptons that reads every collection, heavy on CPU."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from headrace.datasets import DatasetSpec, estimated_bytes
from headrace.errors import Problem
from headrace.readers.options import ReadingOptions, reader_problems
from headrace.workloads import JobInput, JobOutput, ModelledJob, Workload, WorkloadOptions


class AnalysisOptions(ReadingOptions, WorkloadOptions):
    """Fields of `[workload.NAME]` with `kind = "analysis"`."""


class Analysis(Workload):
    """Reads all collections, fills the search's histograms, and fits their peaks."""

    kind: ClassVar[str] = "analysis"
    Options: ClassVar[type[WorkloadOptions]] = AnalysisOptions
    feeds: ClassVar[frozenset[str]] = frozenset({"files", "packets"})
    reads_urls: ClassVar[bool] = True

    def __init__(self, name: str, options: AnalysisOptions) -> None:
        super().__init__(name, options)
        self.analysis: AnalysisOptions = options

    def check(self) -> list[Problem]:
        """The reader's library."""
        return reader_problems(self.analysis, f"workload.{self.name}")

    def dataset(self, slots_max: int) -> DatasetSpec | None:
        """The data set that is read."""
        return self.analysis.data

    def target_bytes(self, slots_max: int) -> int:
        """The data set alone: nothing is written."""
        return estimated_bytes(self.analysis.data)

    def warm(self) -> None:
        """Runs the whole search once over a few events of its own."""
        from headrace.readers.warming import warm_by_running

        warm_by_running(self, self.analysis.data)

    def run(self, job: JobInput) -> JobOutput:
        """Reads, fills and fits. Raises HeadraceError for a file that cannot be read whole."""
        from headrace.workloads.higgs.fits import peaks

        begun = time.monotonic()
        candidates, numbers, reading = self._search(job)
        read = time.monotonic()
        found = peaks(numbers) if numbers else {}
        return JobOutput(
            phases=[("read", begun, read), ("fit", read, time.monotonic())],
            results={"four_lepton_events": candidates, "peaks": found, "histograms": numbers},
            **reading,
        )

    def _search(self, job: JobInput) -> tuple[int, dict[str, dict[str, Any]], dict[str, Any]]:
        """Four-lepton events, histograms, and the fields of a JobOutput that reading gives."""
        from headrace.workloads.higgs.columns import SEARCH_COLUMNS
        from headrace.workloads.higgs.histograms import AXES, Histograms

        if self.analysis.reader != "uproot":
            from headrace.readers.root_reader import run_with_root

            totals, numbers = run_with_root(self.analysis, job, SEARCH_COLUMNS, AXES, search=True)
            return totals.found, numbers, totals.output()

        from headrace.readers.uproot_reading import UprootReading
        from headrace.workloads.higgs.selection import search

        reading = UprootReading(self.analysis, job)
        histograms = Histograms()
        candidates = sum(search(chunk.columns, histograms) for chunk in reading.chunks(SEARCH_COLUMNS))
        return candidates, histograms.numbers(), reading.output()

    def profile(self, site: Any) -> ModelledJob:
        """The reads that the file's layout and the reader make, and the time that the search takes."""
        from headrace.readers.costs import SEARCH_EVENT_NS, SEARCH_NS
        from headrace.readers.modelled_reading import modelled_reading
        from headrace.workloads.higgs.columns import SEARCH_COLUMNS

        made = modelled_reading(self.analysis, SEARCH_COLUMNS, SEARCH_EVENT_NS[self.analysis.reader])
        made.steps.append({"do": "compute", "cpu_ns": SEARCH_NS[self.analysis.reader]})
        return made

    def merge(self, outputs: list[dict[str, Any]]) -> dict[str, Any]:
        """The sum of the jobs' histograms, and the peaks fitted in it: mass, width and yield of the Higgs boson."""
        from headrace.workloads.higgs.fits import peaks
        from headrace.workloads.higgs.histograms import merged

        parts = [output for output in outputs if output.get("histograms")]
        if not parts:
            return {}
        names = list(parts[0]["histograms"])
        histograms = {name: merged([part["histograms"][name] for part in parts]) for name in names}
        return {
            "four_lepton_events": sum(int(part["four_lepton_events"]) for part in parts),
            "peaks": peaks(histograms),
            "histograms": histograms,
        }
