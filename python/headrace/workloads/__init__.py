"""Workloads: the programs that run in the slots, one module each. This module is their interface.

A workload names the data set that it needs, divides it into jobs, and runs one job in one slot.
`run` is called in a process of its own that is warmed (imports are done) and released together with
the others; the CPU and I/O ledger is taken around the call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from headrace.datasets import Data
from headrace.errors import HeadraceError, Problem
from headrace.jobs import JobInput as JobInput
from headrace.jobs import JobOutput as JobOutput
from headrace.jobs import JobResults as JobResults
from headrace.jobs import ModelledJob as ModelledJob
from headrace.jobs import Packet as Packet
from headrace.registry import Plugins, parts
from headrace.site import Site


class WorkloadOptions(BaseModel):
    """Base class of every workload's options: the fields of `[workload.NAME]`.

    Unknown fields are errors.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Workload(ABC):
    """One kind of job. A subclass is one module with `kind`, `Options` and these methods."""

    kind: ClassVar[str]
    Options: ClassVar[type[WorkloadOptions]]
    feeds: ClassVar[frozenset[str]] = frozenset({"files"})
    """Supported values of `feed`: `files`, `packets`."""
    reads_urls: ClassVar[bool] = False
    """True when the workload can run on a target that is reached only by URL."""
    loads_storage: ClassVar[bool] = False
    """True when the jobs only load the storage and compute nothing.

    Job efficiency and slots fed then mean nothing; the result is the jobs' own rate and how it
    grows with the number of clients. Stored in the record.
    """
    fed_by_packets: bool = False
    """Whether `profile` is for jobs that are fed by packets; the simulator sets it."""
    bound_by_storage: ClassVar[bool] = False
    """True when it measures the storage itself: a trial limited by its clients' CPU is invalid."""

    thread_a_cpu: ClassVar[bool] = False
    """True when a job cannot have more threads than it may use CPUs, and none fed by packets."""
    users_program: ClassVar[bool] = False
    """True when jobs run a program of the user, which only the nodes that run jobs must have."""
    leads: ClassVar[bool] = False
    """True when a trial's first job gets ready before the others are started, for what it offers.
    """
    measured_process: int | None = None
    """Process whose ledger, with its descendants, is the job's, once the job is ready; None: the
    job's own process."""

    def __init__(self, name: str, options: Any) -> None:
        self.name = name
        self.options = options

    @abstractmethod
    def check(self) -> list[Problem]:
        """Return a problem for each program or library that this machine lacks."""

    def why_not_by_url(self, url_prefix: str) -> str | None:
        """Return why this URL prefix (`hdfs://`) rules out these options, or None.

        Called when `reads_urls` is true.
        """
        return None

    @property
    def crash_note(self) -> str:
        """A likely reason why a job was killed by a crash of its own; empty when not known."""
        return ""

    def why_not_on_local_drives(self) -> str | None:
        """Return why file systems private to each node rule out these options, or None."""
        return None

    def check_room(self, directory: Path, slots: int) -> None:
        """Raise HeadraceError when a directory lacks what the jobs need besides bytes (inodes)."""

    def dataset(self, slots_max: int) -> Data | None:
        """Return the data set that the jobs read, generated or the user's own files.

        Return None when the workload needs none or makes its files in `prepare_files`.
        """
        return None

    def options_for_jobs(self) -> Any:
        """Return the options for the jobs, with everything that takes time to find filled in.

        Raises HeadraceError.
        """
        return self.options

    def part_of_job(self) -> float:
        """Return the share of a job that each job of a trial is; below 1 for samples of long jobs.

        Metrics per job then refer to whole jobs.
        """
        return 1.0

    def not_modelled(self) -> str | None:
        """Return a note on what a simulation of the jobs leaves out, or None.

        Raises HeadraceError as `profile` does.
        """
        return None

    def source(self) -> str | None:
        """Return the target that stores the data set, when it is not the target under test."""
        return None

    def reads_source(self) -> bool:
        """Return whether jobs read the data set on `source`: read waits are then due to it."""
        return False

    def target_bytes(self, slots_max: int) -> int:
        """Return the bytes used on the target (data set and output): plan, free-space check."""
        return 0

    def prepare_files(self, directory: Path, slots: int, seed: int) -> list[str]:
        """Make the files that are not a data set (fio's) and return their paths. Idempotent.

        Called before caches are dropped. For a target that is reached by URL, the files are made in
        a local directory and then uploaded.
        """
        return []

    def cut(self, files: list[str], job: int, slots: int) -> tuple[str, ...]:
        """Return the files of job number `job` (0, 1, ...) when fed by files: one, in rotation."""
        return (files[job % len(files)],)

    @property
    def threads(self) -> int | None:
        """Threads among which each job shares its work: its ledger is that of their mean.

        Any others only read ahead. None: not known.
        """
        return None

    def warm(self) -> None:
        """Do the imports and set-up that must not be measured. Must start no threads.

        Called once in a slot process before the release.
        """

    def get_ready(self, job: JobInput) -> dict[str, str]:
        """Start what a job needs before its release, in its own process; unmeasured.

        The client libraries of URLs are imported here. Return the variables that jobs started
        after it receive (`leads`). Raises HeadraceError.
        """
        from headrace.protocols import load_clients

        load_clients(job.schemes)
        return {}

    @abstractmethod
    def run(self, job: JobInput) -> JobOutput:
        """Run one job. Any exception means failure, and its message becomes the job's cause."""

    def profile(self, site: Site | None) -> ModelledJob:
        """Return the same job as a profile for virtual time; `site` is the study's Site or None.

        Pure.

        Raises HeadraceError when the job cannot be modelled.
        """
        raise HeadraceError(
            f"workload {self.name}: a workload of kind {self.kind!r} has no model yet"
        )

    def merge(self, outputs: list[JobResults]) -> JobResults:
        """Merge the jobs' `results` into the trial's (sum of histograms, a fit over all).

        JSON-serialisable.
        """
        return {}


def kinds() -> Plugins[Workload]:
    """Return every registered workload by kind."""
    return parts("headrace.workloads", Workload)  # pyright: ignore[reportReturnType, reportArgumentType, reportAbstractUsage]
