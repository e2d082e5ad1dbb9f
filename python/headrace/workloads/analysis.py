"""Workload `analysis`: a CPU-intensive search for Higgs to four leptons, on all collections."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from pydantic import model_validator
from typing_extensions import override

from headrace.datasets import Data, data_bytes
from headrace.errors import Problem
from headrace.jobs import Histogram, ReadFields
from headrace.readers.options import ReadingOptions, reader_problems
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
    from headrace.readers.root_reader import RootTotals

Found = tuple[int, dict[str, Histogram], ReadFields]
"""Four-lepton events, histograms, and the reading fields of JobOutput."""
Unfitted = Callable[[int, dict[str, Histogram], ReadFields], JobOutput]
"""Makes the output of a job from `Found`, before the fit."""


class AnalysisOptions(ReadingOptions, WorkloadOptions):
    """Fields of `[workload.NAME]` with `kind = "analysis"`."""

    @model_validator(mode="after")
    def _generated_data(self) -> AnalysisOptions:
        if self.own is not None:
            raise ValueError(
                "the search is for generated data; read files of your own with scan, skim, stage, "
                "or your program with command"
            )
        return self


class Analysis(Workload):
    """Read all collections, fill the search's histograms, and fit their peaks."""

    kind: ClassVar[str] = "analysis"
    Options: ClassVar[type[WorkloadOptions]] = AnalysisOptions
    feeds: ClassVar[frozenset[str]] = frozenset({"files", "packets"})
    reads_urls: ClassVar[bool] = True
    thread_a_cpu: ClassVar[bool] = True

    def __init__(self, name: str, options: AnalysisOptions) -> None:
        super().__init__(name, options)
        self.analysis: AnalysisOptions = options

    def check(self) -> list[Problem]:
        """Return a problem when the reader's library is missing."""
        return reader_problems(self.analysis, f"workload.{self.name}")

    def dataset(self, slots_max: int) -> Data | None:
        """Return the data that the jobs read."""
        return self.analysis.data

    def target_bytes(self, slots_max: int) -> int:
        """Return the size of the data read; nothing is written."""
        return data_bytes(self.analysis.data)

    @property
    @override
    def threads(self) -> int:
        """Threads that share the loop of RDataFrame."""
        return self.analysis.threads

    def warm(self) -> None:
        """Run the whole search once over a few generated events."""
        from headrace.workloads.reading.warming import warm_by_running

        warm_by_running(self, self.analysis.data)

    def run(self, job: JobInput) -> JobOutput:
        """Read, fill and fit. Raises HeadraceError for a file that cannot be read completely."""
        from headrace.workloads.higgs.fits import peaks

        begun = time.monotonic()

        def unfitted(
            candidates: int, numbers: dict[str, Histogram], reading: ReadFields
        ) -> JobOutput:
            return JobOutput(
                phases=[("read", begun, time.monotonic())],
                results={"four_lepton_events": candidates, "peaks": {}, "histograms": numbers},
                **reading,
            )

        output = unfitted(*self._search(job, unfitted))
        read = time.monotonic()
        if numbers := output.results["histograms"]:
            output.results["peaks"] = peaks(numbers)
        output.phases.append(("fit", read, time.monotonic()))
        return output

    def _search(self, job: JobInput, unfitted: Unfitted) -> Found:
        """Search, and report each packet's output, made by `unfitted`."""
        from headrace.workloads.higgs.columns import SEARCH_COLUMNS
        from headrace.workloads.higgs.histograms import AXES, Histograms

        if self.analysis.reader != "uproot":
            from headrace.readers.root_reader import run_with_root

            def so_far(totals: RootTotals, numbers: dict[str, Histogram]) -> JobOutput:
                return unfitted(totals.found, numbers, totals.output())

            totals, numbers = run_with_root(
                self.analysis, job, SEARCH_COLUMNS, AXES, search=True, so_far=so_far
            )
            return totals.found, numbers, totals.output()

        from headrace.readers.uproot_reading import UprootReading
        from headrace.workloads.higgs.selection import search

        reading = UprootReading(self.analysis, job)
        histograms = Histograms()
        candidates = 0

        def found() -> Found:
            return candidates, histograms.numbers(), reading.output()

        for chunk in reading.chunks(SEARCH_COLUMNS, so_far=lambda: unfitted(*found())):
            candidates += search(chunk.columns, histograms)
        return found()

    def profile(self, site: Site | None) -> ModelledJob:
        """Return the reads that the file's layout and the reader cause, and the CPU time."""
        from headrace.readers.costs import SEARCH_EVENT_NS, SEARCH_NS
        from headrace.readers.modelled_data import modelled_data
        from headrace.readers.modelled_reading import modelled_reading
        from headrace.workloads.higgs.columns import SEARCH_COLUMNS

        data = modelled_data(self.analysis)
        made = modelled_reading(
            self.analysis,
            data,
            SEARCH_COLUMNS,
            SEARCH_EVENT_NS[self.analysis.reader],
            packets=self.fed_by_packets,
        )
        if not self.fed_by_packets:  # the steps of such a job are those of one packet
            made.steps.append({"do": "compute", "cpu_ns": SEARCH_NS[self.analysis.reader]})
        return made

    def merge(self, outputs: list[JobResults]) -> JobResults:
        """Return the sum of the jobs' histograms, and the Higgs boson's mass, width and yield."""
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
