"""Workload `skim`: reads a fraction of the events and writes those that pass a selection."""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, field_validator, model_validator
from typing_extensions import override

from headrace.datasets import Data, DatasetSpec, OwnFiles, data_bytes, data_files
from headrace.errors import HeadraceError, Problem
from headrace.readers.options import ReadingOptions, WrongField, reader_problems
from headrace.scenario import AccessList, Step
from headrace.site import Site
from headrace.workloads import (
    JobInput,
    JobOutput,
    JobResults,
    ModelledJob,
    Workload,
    WorkloadOptions,
)
from headrace.workloads.reading.output import write_out

if TYPE_CHECKING:
    from headrace.readers.asking import Asked


class SkimOptions(ReadingOptions, WorkloadOptions):
    """Fields of `[workload.NAME]` with `kind = "skim"`."""

    fraction: float = Field(
        0.5, gt=0, le=1, description="share of the events that is read; whole clusters are left out"
    )
    min_leptons: int = Field(
        2,
        ge=0,
        description="generated data: good electrons and muons that an event must have to survive",
    )
    keep: float = Field(
        0.1,
        gt=0,
        le=1,
        description="your own files: share of the events read that survive, drawn evenly",
    )
    columns: tuple[str, ...] | None = Field(
        None,
        min_length=1,
        description="your own files: columns that are read and written, names or patterns with * "
        "and ?; all when not given",
    )
    sync: bool = Field(
        False, description="wait until what was written is on the device before the job ends"
    )

    @field_validator("columns", mode="before")
    @classmethod
    def _one_is_a_list(cls, columns: object) -> object:
        return [columns] if isinstance(columns, str) else columns

    @override
    def _wrong_columns(self, own: OwnFiles) -> list[WrongField]:
        from headrace.readers.own_columns import check_other_files, facts_of, matching

        facts = facts_of(own)
        try:
            matching(
                [column.name for column in facts.columns],
                self.columns,
                f"{facts.file}: tree {facts.name}",
            )
            check_other_files(own, self.columns)
        except HeadraceError as error:
            return [(("columns",), error.message)]
        return []

    @model_validator(mode="after")
    def _of_their_data(self) -> SkimOptions:
        of_own = {"keep", "columns"} & self.model_fields_set
        if of_own and self.own is None:
            raise ValueError(f"{min(of_own)} is for files of your own: data = {{ files = [...] }}")
        if self.own is not None and "min_leptons" in self.model_fields_set:
            raise ValueError(
                "min_leptons is for generated data; of your own files keep says how many survive"
            )
        if self.threads > 1 and self.fraction < 1:
            raise ValueError(
                f"threads = {self.threads} needs fraction = 1: RDataFrame's Range has one thread"
            )
        return self


class Skim(Workload):
    """Copy the events with enough leptons into a new file, in the format and codec of the input."""

    kind: ClassVar[str] = "skim"
    Options: ClassVar[type[WorkloadOptions]] = SkimOptions
    feeds: ClassVar[frozenset[str]] = frozenset({"files", "packets"})
    reads_urls: ClassVar[bool] = True
    thread_a_cpu: ClassVar[bool] = True

    def __init__(self, name: str, options: SkimOptions) -> None:
        super().__init__(name, options)
        self.skim: SkimOptions = options

    def check(self) -> list[Problem]:
        """Return a problem when the reader cannot write events or its library is missing."""
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

    def dataset(self, slots_max: int) -> Data | None:
        """Return the data that the jobs read."""
        return self.skim.data

    def target_bytes(self, slots_max: int) -> int:
        """Return the size of the data read, plus the most that concurrent jobs can write."""
        whole = data_bytes(self.skim.data)
        copies = max(1.0, slots_max / data_files(self.skim.data))
        return whole + int(whole * self.skim.fraction * copies)

    @property
    @override
    def threads(self) -> int:
        """Threads that share the loop of RDataFrame."""
        return self.skim.threads

    @property
    @override
    def crash_note(self) -> str:
        """What ROOT may crash at."""
        return self.skim.crash_note

    def warm(self) -> None:
        """Skim a few generated events."""
        from headrace.workloads.reading.warming import warm_by_running

        own, with_root = self.skim.own is not None, self.skim.reader == "rdataframe"
        # One column of the generated file: what others need is compiled for the user's own file.
        columns = ("Muon_pt",) if with_root else None
        warm_by_running(self, self.skim.data, {"columns": columns} if own else None)
        if own and with_root:
            from headrace.readers.root_own import compile_for_own

            compile_for_own(self.skim, self.skim.columns, copied=True)

    def run(self, job: JobInput) -> JobOutput:
        """Read, select and write. Raises HeadraceError for an unreadable file."""
        if self.skim.own is not None and self.skim.reader == "uproot":
            from headrace.workloads.reading.own_skim import skim_own_files

            return skim_own_files(self.skim, job)
        return self._run_uproot(job) if self.skim.reader == "uproot" else self._run_root(job)

    def _run_root(self, job: JobInput) -> JobOutput:
        from headrace.readers.own_columns import OwnNotes
        from headrace.readers.root_skim import skim_own_with_root, skim_with_root

        skim, notes = self.skim, OwnNotes()
        begun = time.monotonic()
        if skim.own is None:
            totals, files = skim_with_root(skim, job, skim.fraction, skim.min_leptons)
        else:
            totals, files, notes = skim_own_with_root(
                skim, job, skim.columns, skim.fraction, skim.keep
            )
        written = [file for file in files if file.exists()]
        if self.skim.sync:
            for file in written:
                write_out(file)
        return JobOutput(
            bytes_written=sum(file.stat().st_size for file in written),
            phases=[("read and write", begun, time.monotonic())],
            results={"events_kept": totals.found, **notes.results()},
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
        with EventsFile(path, self.skim.generated, job.slot) as output:
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
            write_out(path)
        phases.append(("write", begun, time.monotonic()))
        return JobOutput(
            bytes_written=path.stat().st_size if path.exists() else 0,
            phases=phases,
            results={"events_kept": survivors},
            **reading.output(),
        )

    def profile(self, site: Site | None) -> ModelledJob:
        """Return the reads that the file's layout and the reader cause, and a write per run."""
        from headrace.readers.costs import COMPRESSION_NS, SELECTION_EVENT_NS
        from headrace.readers.modelled_data import modelled_data
        from headrace.readers.modelled_reading import FILE, modelled_reading

        options, data = self.skim, modelled_data(self.skim)
        if options.own is None:
            kept, stored_share = _survivors(
                options.generated.model_dump_json(), options.min_leptons
            )
        else:
            kept, stored_share = options.keep, data.stored_share
        compression_ns = COMPRESSION_NS[data.codec] if data.compressed else 0.0

        def write(run: Asked) -> list[Step]:
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
            options,
            data,
            options.columns,
            SELECTION_EVENT_NS[options.reader],
            fraction=options.fraction,
            packets=self.fed_by_packets,
            after_run=write,
        )
        if options.own is not None and options.reader == "rdataframe":
            # Snapshot reads the tree's metadata again.
            again: AccessList = {
                "do": "sequence",
                "file": FILE,
                "ranges_bytes": data.layout.opening[2:],
            }
            made.steps.insert(1, again)
        made.files.append({"name": "skimmed", "on": "target", "share": "new"})
        made.steps.insert(0, {"do": "create", "file": "skimmed"})
        if options.sync:
            made.steps.append({"do": "fsync", "file": "skimmed"})
        made.steps.append({"do": "close", "file": "skimmed"})
        return made

    def merge(self, outputs: list[JobResults]) -> JobResults:
        """Return the number of events kept by all jobs, with the notes on columns."""
        from headrace.readers.own_columns import merged_notes

        kept = sum(int(output.get("events_kept", 0)) for output in outputs)
        return {"events_kept": kept, **merged_notes(outputs)}


@cache
def _survivors(data_json: str, min_leptons: int) -> tuple[float, float]:
    """Return the first clusters' surviving fraction of events, and stored per uncompressed
    bytes.
    """
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
