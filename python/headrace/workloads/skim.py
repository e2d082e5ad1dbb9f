"""The workload `skim`: reads a share of the events, every column, and writes those that survive a selection."""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from headrace.datasets import DatasetSpec, estimated_bytes
from headrace.errors import Problem
from headrace.readers.options import ReadingOptions, reader_problems
from headrace.workloads import JobInput, JobOutput, ModelledJob, Workload, WorkloadOptions

if TYPE_CHECKING:
    from headrace.readers.asking import Asked


class SkimOptions(ReadingOptions, WorkloadOptions):
    """Fields of `[workload.NAME]` with `kind = "skim"`."""

    fraction: float = Field(
        0.5, gt=0, le=1, description="share of the events that is read; whole clusters are left out"
    )
    min_leptons: int = Field(
        2, ge=0, description="good electrons and muons that an event must have to survive"
    )
    sync: bool = Field(False, description="wait until what was written is on the device before the job ends")


class Skim(Workload):
    """Copies the events with enough leptons into a file of its own, in the format and codec of the input."""

    kind: ClassVar[str] = "skim"
    Options: ClassVar[type[WorkloadOptions]] = SkimOptions
    feeds: ClassVar[frozenset[str]] = frozenset({"files", "packets"})
    reads_urls: ClassVar[bool] = True

    def __init__(self, name: str, options: SkimOptions) -> None:
        super().__init__(name, options)
        self.skim: SkimOptions = options

    def check(self) -> list[Problem]:
        """The reader's library."""
        needed_by = f"workload.{self.name}"
        if self.skim.reader == "event-loop":
            return [
                Problem(
                    what="a way to write events in a classic event loop",
                    needed_by=needed_by,
                    remedy='use reader = "uproot" or reader = "rdataframe" for a skim',
                )
            ]
        return reader_problems(self.skim, needed_by)

    def dataset(self, slots_max: int) -> DatasetSpec | None:
        """The data set that is read."""
        return self.skim.data

    def target_bytes(self, slots_max: int) -> int:
        """The data set, and as much of it again as the jobs can write at once at most."""
        whole = estimated_bytes(self.skim.data)
        copies = max(1.0, slots_max / self.skim.data.files)
        return whole + int(whole * self.skim.fraction * copies)

    def warm(self) -> None:
        """Skims a few events of its own."""
        from headrace.readers.warming import warm_by_running

        warm_by_running(self, self.skim.data)

    def run(self, job: JobInput) -> JobOutput:
        """Reads, selects, writes. Raises HeadraceError for a file that cannot be read whole."""
        return self._run_uproot(job) if self.skim.reader == "uproot" else self._run_root(job)

    def _run_root(self, job: JobInput) -> JobOutput:
        from headrace.readers.root_skim import skim_with_root

        begun = time.monotonic()
        totals, files = skim_with_root(self.skim, job, self.skim.fraction, self.skim.min_leptons)
        written = [file for file in files if file.exists()]
        if self.skim.sync:
            for file in written:
                _sync(file)
        return JobOutput(
            bytes_written=sum(file.stat().st_size for file in written),
            phases=[("read and write", begun, time.monotonic())],
            results={"events_kept": totals.found},
            **totals.output(),
        )

    def _run_uproot(self, job: JobInput) -> JobOutput:
        import awkward as ak

        from headrace.datasets.writing.events_file import EventsFile
        from headrace.readers.tables import table_of
        from headrace.readers.uproot_reading import UprootReading
        from headrace.workloads.higgs.selection import collection, good_leptons

        reading = UprootReading(self.skim, job)
        path = job.scratch / f"skim-{job.slot}.root"
        phases: list[tuple[str, float, float]] = []
        survivors = 0
        with EventsFile(path, self.skim.data, job.slot) as output:
            begun = time.monotonic()
            for chunk in reading.chunks(None, self.skim.fraction):
                electrons, muons = good_leptons(
                    collection(chunk.columns, "Electron"), collection(chunk.columns, "Muon")
                )
                keep = ak.num(electrons) + ak.num(muons) >= self.skim.min_leptons
                read = time.monotonic()
                table = table_of(chunk.columns, keep)
                if table.events:
                    output.write(table)
                survivors += table.events
                written = time.monotonic()
                phases += [("read", begun, read), ("write", read, written)]
                begun = written
        begun = time.monotonic()
        if self.skim.sync and path.exists():
            _sync(path)
        phases.append(("write", begun, time.monotonic()))
        return JobOutput(
            bytes_written=path.stat().st_size if path.exists() else 0,
            phases=phases,
            results={"events_kept": survivors},
            **reading.output(),
        )

    def profile(self, site: Any) -> ModelledJob:
        """The reads that the file's layout and the reader make, and one write for the survivors of each run of events."""
        from headrace.readers.costs import COMPRESSION_NS, SELECTION_EVENT_NS
        from headrace.readers.modelled_reading import modelled_reading

        options, data = self.skim, self.skim.data
        kept, stored_share = _survivors(data.model_dump_json(), options.min_leptons)
        compression_ns = 0.0 if data.level == 0 else COMPRESSION_NS[data.codec]

        def write(run: Asked) -> list[dict[str, Any]]:
            if not kept:
                return []
            survivors_bytes = kept * run.uncompressed_bytes
            return [
                {"do": "compute", "cpu_ns": round(compression_ns * survivors_bytes)},
                {
                    "do": "write",
                    "file": "skimmed",
                    "length_bytes": max(1, round(stored_share * survivors_bytes)),
                },
            ]

        made = modelled_reading(
            options, None, SELECTION_EVENT_NS[options.reader], fraction=options.fraction, after_run=write
        )
        made.files.append({"name": "skimmed", "on": "target", "share": "new"})
        made.steps.insert(0, {"do": "create", "file": "skimmed"})
        if options.sync:
            made.steps.append({"do": "fsync", "file": "skimmed"})
        made.steps.append({"do": "close", "file": "skimmed"})
        return made

    def merge(self, outputs: list[dict[str, Any]]) -> dict[str, Any]:
        """The events kept by all jobs."""
        return {"events_kept": sum(int(output.get("events_kept", 0)) for output in outputs)}


@cache
def _survivors(data_json: str, min_leptons: int) -> tuple[float, float]:
    """The share of events that survive, and stored by uncompressed bytes: of the data set's first clusters."""
    import awkward as ak

    from headrace.datasets.layout import layout, sample_file
    from headrace.readers.counts import ReadCounts
    from headrace.readers.spans import Span
    from headrace.readers.uproot_reader import UprootReader
    from headrace.workloads.higgs.columns import COLLECTIONS
    from headrace.workloads.higgs.selection import collection, good_leptons

    columns = [f"{name}_{each}" for name in ("Electron", "Muon") for each in COLLECTIONS[name]]
    survivors = events = 0
    with sample_file(DatasetSpec.model_validate_json(data_json)) as path:
        pieces = layout(path)
        reader = UprootReader("pread", 10_000, ReadCounts())
        for chunk in reader.read(Span(str(path)), columns):
            electrons, muons = good_leptons(
                collection(chunk.columns, "Electron"), collection(chunk.columns, "Muon")
            )
            survivors += int(ak.sum(ak.num(electrons) + ak.num(muons) >= min_leptons))
            events += chunk.events
        reader.close()
    stored = sum(piece.compressed_bytes for piece in pieces)
    return survivors / events, stored / sum(piece.uncompressed_bytes for piece in pieces)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
