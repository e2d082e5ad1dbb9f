"""Workload `sequential`: IOzone's throughput modes (write, rewrite, read, reread, random, mixed).

It runs fio on mounted storage, and the protocol's own client on storage that is reached by URL.
Each slot is one client with a file of its own, and all clients start together. A trial measures one
mode; to compare modes, a study lists them as levels of the factor `mode`.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from headrace.errors import Problem
from headrace.protocols import client_of
from headrace.scenario import Access as StepAccess
from headrace.scenario import Step
from headrace.site import Site
from headrace.system.program_pages import hold_program
from headrace.units import MOST_FILE_BYTES, Bytes, format_bytes
from headrace.workloads import (
    JobInput,
    JobOutput,
    JobResults,
    ModelledJob,
    Workload,
    WorkloadOptions,
)
from headrace.workloads.fio import client, modelled
from headrace.workloads.fio.results import merge_results
from headrace.workloads.fio.streaming import Access, Stream

Mode = Literal["write", "rewrite", "read", "reread", "random-read", "random-write", "mixed"]

_WRITING: frozenset[Mode] = frozenset({"write", "rewrite", "random-write", "mixed"})
_FIO_PATTERN: dict[Mode, str] = {
    "write": "write",
    "rewrite": "write",
    "read": "read",
    "reread": "read",
    "random-read": "randread",
    "random-write": "randwrite",
    "mixed": "randrw",
}


class SequentialOptions(WorkloadOptions):
    """Fields of `[workload.NAME]` with `kind = "sequential"`."""

    mode: Mode = Field(
        "read",
        description="write: a new file; rewrite: a file that is there; read; reread: a file that "
        "this job has just read; random-read, random-write: records in random order, each "
        "once; mixed: random reads and writes",
    )
    file_size: Bytes = Field(
        256 << 20, gt=0, le=MOST_FILE_BYTES, description="size of each client's file"
    )
    record_size: Bytes = Field(64 << 10, ge=512, description="bytes a request")
    direct: bool = Field(False, description="past the page cache (O_DIRECT)")
    flush: bool = Field(
        True,
        description="the time until written data is on the storage (fsync) counts, as IOzone -e",
    )
    read_fraction: float = Field(0.5, gt=0, lt=1, description="mixed: share of reads")
    engine: Literal["psync", "sync", "mmap", "libaio", "io_uring"] = Field(
        "psync", description="fio's I/O engine"
    )

    @model_validator(mode="after")
    def _whole_records(self) -> SequentialOptions:
        if self.file_size % self.record_size:
            raise ValueError(
                f"file_size ({format_bytes(self.file_size)}) is not a whole number of records of "
                f"{format_bytes(self.record_size)}"
            )
        if self.direct and self.engine == "mmap":
            raise ValueError("engine mmap goes through the page cache: it cannot be direct")
        return self


class Sequential(Workload):
    """One client per job, on one file."""

    kind: ClassVar[str] = "sequential"
    Options: ClassVar[type[WorkloadOptions]] = SequentialOptions
    reads_urls: ClassVar[bool] = True
    loads_storage: ClassVar[bool] = True
    bound_by_storage: ClassVar[bool] = True

    options: SequentialOptions

    def check(self) -> list[Problem]:
        """Return a problem when fio is missing."""
        return client.missing(f"workload {self.name}")

    def why_not_by_url(self, url_prefix: str) -> str | None:
        """Return why the protocol cannot do this; fio's own options need a mount."""
        options = self.options
        storage = client_of(url_prefix)
        if options.mode in ("random-write", "mixed") and not storage.random_writes:
            return (
                f"mode = {options.mode!r}: files of {url_prefix} are written from their beginning "
                "to their end"
            )
        if options.direct or "engine" in options.model_fields_set:
            return "direct and engine are of mounted files"
        return None

    def target_bytes(self, slots_max: int) -> int:
        """Return the size of one file per slot."""
        return slots_max * self.options.file_size

    def prepare_files(self, directory: Path, slots: int, seed: int) -> list[str]:
        """Make one file per slot, except for `write`, which creates its own."""
        if self.options.mode == "write":
            return []
        return client.prepare_files(directory, self.options.file_size, slots, seed)

    def warm(self) -> None:
        """Load fio into memory, so that the program is not read from a cold device."""
        hold_program("fio")

    def run(self, job: JobInput) -> JobOutput:
        """Read or write the whole file once; `reread` reads it twice."""
        options = self.options
        if job.url is not None:
            return self._run_by_url(job, job.files[0] if job.files else f"{job.url}/written.data")
        file = Path(job.files[0]) if job.files else job.scratch / "written.data"
        phases = ["read", "reread"] if options.mode == "reread" else [options.mode]
        runs = [
            client.run(job, file, self.fio_options(job.seed), f"fio-{phase}", together=True)
            for phase in phases
        ]
        return client.job_output(
            job,
            runs,
            phases,
            file_size=options.file_size,
            asynchronous=options.engine in ("libaio", "io_uring"),
            flushed=options.flush and options.mode in _WRITING,
        )

    def _run_by_url(self, job: JobInput, file: str) -> JobOutput:
        options = self.options
        phases = ["read", "reread"] if options.mode == "reread" else [options.mode]
        access: Access = (
            "mixed" if options.mode == "mixed" else "write" if options.mode in _WRITING else "read"
        )
        each = Stream(
            access,
            file_size=options.file_size,
            record_size=options.record_size,
            new=options.mode == "write",
            shuffled=options.mode in ("random-read", "random-write", "mixed"),
            read_fraction=options.read_fraction,
            flush=options.flush,
        )
        runs = [each.run(job, file, f"stream-{phase}") for phase in phases]
        return client.job_output(
            job, runs, phases, file_size=options.file_size, asynchronous=False, by_child=False
        )

    def fio_options(self, seed: int) -> dict[str, str | int]:
        """Return fio's options, except for file and output."""
        options = self.options
        told: dict[str, str | int] = {
            "rw": _FIO_PATTERN[options.mode],
            "bs": options.record_size,
            "size": options.file_size,
            "ioengine": options.engine,
            "direct": int(options.direct),
            "randseed": seed,
            "allow_file_create": int(options.mode == "write"),
        }
        if options.mode in _WRITING:
            told["end_fsync"] = int(options.flush)
            told["overwrite"] = int(options.mode != "write")
        if options.mode == "mixed":
            told["rwmixread"] = round(100 * options.read_fraction)
        return told

    def profile(self, site: Site | None) -> ModelledJob:
        """Return fio's requests on a file of the job's own."""
        options = self.options
        access: StepAccess = "direct" if options.direct else "buffered"
        reads = {"read": 1.0, "reread": 1.0, "random-read": 1.0, "mixed": options.read_fraction}
        read_fraction = reads.get(options.mode, 0.0)
        step = modelled.requests(
            length_bytes=options.record_size,
            span_bytes=options.file_size,
            shuffled=options.mode in ("random-read", "random-write", "mixed"),
            access="mapped" if options.engine == "mmap" else access,
            read_fraction=read_fraction,
        )
        step["count"] = options.file_size // options.record_size
        steps: list[Step] = [step] * (2 if options.mode == "reread" else 1)
        if read_fraction < 1 and options.flush:
            steps.append({"do": "fsync", "file": modelled.FILE})
        return modelled.modelled_fio(
            steps, file_size=options.file_size, new=options.mode == "write"
        )

    def merge(self, outputs: list[JobResults]) -> JobResults:
        """Return the sum of rates over clients, and percentiles over all requests."""
        return merge_results(outputs)
