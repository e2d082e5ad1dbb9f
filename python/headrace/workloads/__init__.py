"""Workloads: what runs in the slots, one file each. This file is the contract that all keep.

A workload says which data set it wants, cuts it into jobs, and runs one job in one slot. `run` is called in a process
of its own that has been warmed (imports done) and released together with the others; around it the ledger is taken.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from headrace.datasets import DatasetSpec
from headrace.errors import HeadraceError, Problem
from headrace.registry import parts

SET_FOR_JOBS = "HEADRACE_SET_FOR_JOBS"
"""Environment variable of a job process: names of the variables that Headrace set for its own code, comma between."""


class WorkloadOptions(BaseModel):
    """Base of every workload's options: the fields of `[workload.NAME]`. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class Packet:
    """A run of events of one file, handed to a worker that asked for work (`feed = "packets"`)."""

    file: str
    first_event: int
    events: int


@dataclass(frozen=True)
class JobInput:
    """What one job is given."""

    files: tuple[str, ...]
    """Paths or URLs of the files that are this job's own (`feed = "files"`); empty when packets are pulled."""
    directory: Path | None
    """The target's directory for what the job writes, or None for a target without one."""
    scratch: Path
    """A private directory of this job on the target (made before, removed after); for a URL target on local disk."""
    slot: int
    slots: int
    seed: int
    packets: Callable[[], Iterator[Packet]] | None = None
    """Yields packets until the query is done, when fed so. Ask for the next only when done with the last."""
    keep: Path | None = None
    """A directory whose files are kept in the record (fio's JSON, a log)."""
    job: int = 0
    """Its number within the trial: 0, 1, ... over all nodes."""
    jobs: int = 1
    """Jobs that are released together, over all nodes."""
    url: str | None = None
    """On a target that is reached by URL: the prefix of what this job may write there; removed after the trial. Its parent is shared by
    the trial's jobs."""
    node: int = 0
    """Number of the node that it runs on."""
    first_here: int = 0
    """Number of the first of the jobs that share the file system of `directory`: of this node's first, where each node has a drive of its
    own."""
    meeting: Path | None = None
    """A directory of this machine, empty when the trial begins and removed after it, that its jobs share: where they can keep in step."""


@dataclass
class JobOutput:
    """What one job did. Byte counts are of what the workload itself knows; the harness adds what the kernel saw."""

    events: int = 0
    bytes_uncompressed: int = 0
    """Bytes of the event data read, as they lie in memory after decompression."""
    bytes_asked: int = 0
    """Bytes that the job asked of the storage (sum of its read sizes)."""
    bytes_unique: int = 0
    """Of these, bytes not asked for before by this job: what a cold cache must move at least."""
    bytes_written: int = 0
    read_calls: int = 0
    read_wait_s: float = 0.0
    """Wall time inside read calls, as far as the workload sees them (0 when it cannot)."""
    asynchronous: bool = False
    """True when the kernel does not see these waits as such (libaio): all sleep in read calls then counts as waiting for them."""
    phases: list[tuple[str, float, float]] = field(default_factory=list[tuple[str, float, float]])
    """(name, start, end) in seconds of time.monotonic(): stage-in, read, write."""
    results: dict[str, Any] = field(default_factory=dict[str, Any])
    """What it found (peak mass, IOPS, percentiles): JSON-able; histograms as lists."""
    measured_child: bool = False
    """True when the work was done by a child process (fio, a user's program) whose usage counts as the job's."""


@dataclass(frozen=True)
class ModelledJob:
    """A job as the simulator takes it: parts of a scenario (crates/simulator, `Scenario`), JSON-able."""

    steps: list[dict[str, Any]]
    files: list[dict[str, Any]]
    """File sets; `on` is `"target"`, `"source"` (the workload's own server) or `"node"` (the node's first drive), `count` is of the
    whole site; 0 stands for one a slot."""
    memory_bytes: int = 0
    events: int = 0
    """Of one job."""
    packets: dict[str, Any] | None = None
    """How a master would hand out packets of it, when the study feeds packets."""
    run: dict[str, Any] = field(default_factory=dict[str, Any])
    """What it says of a run: spread and variation of CPU work, staggered starts, pCache."""
    servers: tuple[dict[str, Any], ...] = ()
    services: tuple[dict[str, Any], ...] = ()
    source: str | None = None
    """Name of the service that files on `"source"` lie in."""
    description: dict[str, Any] = field(default_factory=dict[str, Any])


class Workload(ABC):
    """One kind of job. A subclass is one file: `kind`, `Options`, and these methods."""

    kind: ClassVar[str]
    Options: ClassVar[type[WorkloadOptions]]
    feeds: ClassVar[frozenset[str]] = frozenset({"files"})
    """How its slots can be filled: `files`, `packets`."""
    reads_urls: ClassVar[bool] = False
    """True when it can run on a target that is reached by URL alone."""
    loads_storage: ClassVar[bool] = False
    """True when its jobs are there to load the storage and compute nothing: their efficiency says nothing, and the answer is their own
    rate and how it grows with clients, never slots fed. In the record."""
    bound_by_storage: ClassVar[bool] = False
    """True when it exists to measure the storage itself: a trial whose clients' CPU was the limit is then invalid."""

    def __init__(self, name: str, options: Any) -> None:
        self.name = name
        self.options = options

    @abstractmethod
    def check(self) -> list[Problem]:
        """Programs and libraries that this machine lacks for it."""

    def why_not_by_url(self, url_prefix: str) -> str | None:
        """Why these options cannot be had on storage whose URLs begin so (`hdfs://`), or None; asked where `reads_urls`."""
        return None

    def why_not_on_own_drives(self) -> str | None:
        """Why these options cannot be had where each of several nodes has a file system of its own, or None."""
        return None

    def check_room(self, directory: Path, slots: int) -> None:
        """Raises HeadraceError when a target's directory cannot take what the jobs make there, besides bytes."""

    def dataset(self, slots_max: int) -> DatasetSpec | None:
        """The data set that it reads, or None when it needs none (or makes its files itself in `lay_out`)."""
        return None

    def source(self) -> str | None:
        """Name of the target that its data set lies on, when that is not the one under test."""
        return None

    def reads_source(self) -> bool:
        """Whether jobs read their data set where it lies on `source`, so that waiting for it is waiting for that storage."""
        return False

    def target_bytes(self, slots_max: int) -> int:
        """Bytes that it takes on the target: data set and everything it writes, for `plan` and the free-space check."""
        return 0

    def lay_out(self, directory: Path, slots: int, seed: int) -> list[str]:
        """Makes the files that are not a data set (fio's), before caches are dropped. Idempotent. Returns their paths.

        For a target that is reached by URL they are made in a directory of this machine and put there."""
        return []

    def cut(self, files: list[str], job: int, slots: int) -> tuple[str, ...]:
        """The files of job number `job` (0, 1, ...) when fed by files: one file of its own, in turn."""
        return (files[job % len(files)],)

    def warm(self) -> None:
        """Imports and set-up that must not be measured. Called once in a slot process before the release; no threads."""

    @abstractmethod
    def run(self, job: JobInput) -> JobOutput:
        """One job. Raises for failure; the message becomes the job's cause."""

    def profile(self, site: Any) -> ModelledJob:
        """The same job as a profile in virtual time; `site` is the study's Site or None. Pure.

        Raises HeadraceError when it cannot be modelled."""
        raise HeadraceError(f"workload {self.name}: a workload of kind {self.kind!r} has no model yet")

    def merge(self, outputs: list[dict[str, Any]]) -> dict[str, Any]:
        """The trial's own result from its jobs' `results` (sum of histograms, a fit over all). JSON-able."""
        return {}


def kinds() -> dict[str, type[Workload]]:
    """Every registered workload by kind."""
    return parts("headrace.workloads", Workload)  # pyright: ignore[reportReturnType, reportArgumentType, reportAbstractUsage]
