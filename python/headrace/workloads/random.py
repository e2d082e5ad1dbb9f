"""Workload `random`: small requests at random offsets, run by fio.

It measures IOPS and latency percentiles by block size and queue depth.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from headrace.errors import Problem
from headrace.site import Site
from headrace.system.program_pages import hold_program
from headrace.units import MOST_FILE_BYTES, Bytes, Seconds, format_bytes
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


class RandomOptions(WorkloadOptions):
    """Fields of `[workload.NAME]` with `kind = "random"`."""

    block_size: Bytes = Field(4 << 10, ge=512, description="bytes a request")
    iodepth: int = Field(1, ge=1, le=4096, description="requests that each client keeps in flight")
    read_fraction: float = Field(1.0, ge=0, le=1, description="share of reads; the rest are writes")
    file_size: Bytes = Field(
        256 << 20,
        gt=0,
        le=MOST_FILE_BYTES,
        description="size of each client's file, over which its requests are spread",
    )
    duration: Seconds | None = Field(
        5.0,
        gt=0,
        description="how long each client goes on, over its file again and again; ignored when "
        "`amount` is given",
    )
    amount: Bytes | None = Field(
        None, gt=0, description="bytes that each client moves, instead of a duration"
    )
    direct: bool = Field(True, description="past the page cache (O_DIRECT)")
    engine: Literal["psync", "libaio", "io_uring"] | None = Field(
        None, description="fio's I/O engine; psync for a depth of 1, libaio for more when not given"
    )

    @model_validator(mode="after")
    def _possible(self) -> RandomOptions:
        if self.file_size % self.block_size:
            raise ValueError(
                f"file_size ({format_bytes(self.file_size)}) is not a whole number of blocks of "
                f"{format_bytes(self.block_size)}"
            )
        if self.amount is not None and self.amount % self.block_size:
            raise ValueError(
                f"amount ({format_bytes(self.amount)}) is not a whole number of blocks of "
                f"{format_bytes(self.block_size)}"
            )
        if self.duration is None and self.amount is None:
            raise ValueError("either duration or amount must be given")
        if self.iodepth > 1 and self.io_engine == "psync":
            raise ValueError(
                "engine psync makes one request at a time: iodepth must be 1, or the engine "
                "libaio or io_uring"
            )
        if self.iodepth > 1 and not self.direct and self.io_engine == "libaio":
            raise ValueError(
                "libaio waits in each request that goes through the page cache: direct must be "
                "true, or the engine io_uring"
            )
        return self

    @property
    def io_engine(self) -> str:
        """The engine given, or the default for the queue depth."""
        return self.engine or ("psync" if self.iodepth == 1 else "libaio")


class Random(Workload):
    """One fio process per job, on one file."""

    kind: ClassVar[str] = "random"
    Options: ClassVar[type[WorkloadOptions]] = RandomOptions
    loads_storage: ClassVar[bool] = True
    bound_by_storage: ClassVar[bool] = True

    options: RandomOptions

    def check(self) -> list[Problem]:
        """Return a problem when fio is missing."""
        return client.missing(f"workload {self.name}")

    def target_bytes(self, slots_max: int) -> int:
        """Return the size of one file per slot."""
        return slots_max * self.options.file_size

    def prepare_files(self, directory: Path, slots: int, seed: int) -> list[str]:
        """Make one file per slot, for writes too: they overwrite existing blocks."""
        return client.prepare_files(directory, self.options.file_size, slots, seed)

    def warm(self) -> None:
        """Load fio into memory, so that the program is not read from a cold device."""
        hold_program("fio")

    def run(self, job: JobInput) -> JobOutput:
        """Issue requests for the duration or until the amount is moved."""
        options = self.options
        run = client.run(job, Path(job.files[0]), self.fio_options(job.seed))
        phase = (
            "read"
            if options.read_fraction == 1
            else "write"
            if options.read_fraction == 0
            else "mixed"
        )
        return client.job_output(
            job,
            [run],
            [phase],
            file_size=options.file_size,
            asynchronous=options.io_engine != "psync",
        )

    def fio_options(self, seed: int) -> dict[str, str | int]:
        """Return fio's options, except for file and output."""
        options = self.options
        told: dict[str, str | int] = {
            "rw": {1.0: "randread", 0.0: "randwrite"}.get(options.read_fraction, "randrw"),
            "bs": options.block_size,
            "size": options.file_size,
            "ioengine": options.io_engine,
            "iodepth": options.iodepth,
            "direct": int(options.direct),
            "randseed": seed,
            "allow_file_create": 0,
            "overwrite": int(options.read_fraction < 1),
        }
        if told["rw"] == "randrw":
            told["rwmixread"] = round(100 * options.read_fraction)
        if options.amount is not None:
            told["io_size"] = options.amount
        else:
            told["time_based"] = 1
            told["runtime"] = f"{round(1e6 * (options.duration or 0))}us"
        return told

    def profile(self, site: Site | None) -> ModelledJob:
        """Return fio's requests on a file of the job's own."""
        options = self.options
        step = modelled.requests(
            length_bytes=options.block_size,
            span_bytes=options.file_size,
            shuffled=True,
            in_flight=options.iodepth,
            read_fraction=options.read_fraction,
            access="direct" if options.direct else "buffered",
        )
        if options.amount is not None:
            step["count"] = options.amount // options.block_size
        else:
            step["duration_ns"] = round(1e9 * (options.duration or 0))
        return modelled.modelled_fio([step], file_size=options.file_size)

    def merge(self, outputs: list[JobResults]) -> JobResults:
        """Return the sum of IOPS and rates over clients, and percentiles over all requests."""
        return merge_results(outputs)
