"""Jobs: what one job of a workload receives and returns, shared by workloads and readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired, TypedDict
from urllib.parse import urlsplit

from headrace.scenario import FileSet, HostSpec, Packets, RunSettings, ServiceSpec, Step

JobResults = dict[str, Any]
"""A job's own results (peak mass, IOPS): JSON that only its workload and the record's readers know;
histograms are lists."""


class Histogram(TypedDict):
    """Counts of events by the value of a column."""

    low: float
    high: float
    counts: list[int]


class ReadFields(TypedDict):
    """The fields of a job's output that its reader counts."""

    events: int
    bytes_uncompressed: int
    bytes_asked: int
    bytes_unique: int
    read_calls: int
    read_wait_s: NotRequired[float]
    open_s: NotRequired[float]


@dataclass(frozen=True)
class Packet:
    """A range of events of one file, given to a worker that requested work (`feed = "packets"`)."""

    file: str
    first_event: int
    events: int


@dataclass(frozen=True)
class JobInput:
    """The input of one job."""

    files: tuple[str, ...]
    """Paths or URLs of this job's own files (`feed = "files"`); empty for packets."""
    directory: Path | None
    """The target's directory for the job's output, or None when the target has none."""
    scratch: Path
    """A private directory of this job on the target, or on local disk for a URL target.

    Headrace makes it before the job and removes it afterwards.
    """
    slot: int
    slots: int
    seed: int
    packets: Callable[[], Iterator[Packet]] | None = None
    """Yield packets until none is left; None when fed by files.

    Request the next one only when done with the last.
    """
    report_so_far: Callable[[JobOutput], None] | None = None
    """Take the output of all packets so far, before the next is requested; None when not wanted.

    If the job dies later, this output counts, and only its last packet is processed again.
    """
    keep: Path | None = None
    """A directory for files that are kept in the record (fio's JSON, a log).

    All jobs share it: a name contains that of `scratch`. From other machines come files only, and
    one without that name gets it in front."""
    job: int = 0
    """Number of the job within the trial: 0, 1, ... over all nodes."""
    jobs: int = 1
    """Number of jobs that are released together, over all nodes."""
    url: str | None = None
    """On a URL target: prefix of the URLs that this job may write; removed after the trial.

    The trial's jobs share its parent.
    """
    node: int = 0
    """Number of the node that the job runs on."""
    first_here: int = 0
    """Number of the first job that shares the file system of `directory`.

    This is the node's first job where each node has a drive of its own.
    """
    clock_offset_s: float = 0.0
    """Seconds to add to time.monotonic() for a time that compares with those of other nodes' jobs.
    """
    meeting: Path | None = None
    """A local directory shared by the trial's jobs, with which they can synchronise.

    It is empty when the trial begins and removed after it.
    """

    packet_url: str | None = None
    """One of the files of its packets, where these have URLs."""

    @property
    def schemes(self) -> frozenset[str]:
        """Schemes of the URLs of its files and packets, and of those that it may write; paths have
        none."""
        places = (*self.files, *(each for each in (self.url, self.packet_url) if each is not None))
        urls = (urlsplit(place) for place in places if "://" in place)
        return frozenset(url.scheme for url in urls if url.scheme)


@dataclass
class JobOutput:
    """The result of one job.

    Byte counts are those that the workload knows; the engine adds the kernel's.
    """

    events: int = 0
    bytes_uncompressed: int = 0
    """Bytes of the event data read, at their size in memory after decompression."""
    bytes_asked: int = 0
    """Bytes that the job requested from the storage (sum of its read sizes)."""
    bytes_unique: int = 0
    """Bytes of `bytes_asked` requested for the first time: the least that a cold cache moves."""
    bytes_written: int = 0
    """Bytes that the job passed to the storage to write (sum of its write sizes)."""
    read_calls: int = 0
    read_wait_s: float = 0.0
    """Wall time inside read calls, as far as the workload sees it (0 when it cannot)."""
    open_s: float | None = None
    """Wait until the job was connected and its files were open, which `read_wait_s` leaves out.

    Wall time less the CPU time of the process. None when the workload cannot see it.
    """
    request_repeats: int = 0
    """Requests by URL that were sent again, because the server was busy or did not answer."""
    asynchronous: bool = False
    """True when the kernel does not report these waits (libaio): all sleep in reads counts."""
    phases: list[tuple[str, float, float]] = field(default_factory=list[tuple[str, float, float]])
    """(name, start, end), in seconds of time.monotonic(); names are stage-in, read, write.

    The launcher converts the times to the engine's clock.
    """
    results: JobResults = field(default_factory=JobResults)
    """Times that are compared between jobs include `JobInput.clock_offset_s`."""
    measured_child: bool = False
    """True when a child process (fio, a user's program) did the work: its usage is the job's."""


@dataclass(frozen=True)
class ModelledJob:
    """A job for the simulator: parts of a scenario."""

    steps: list[Step]
    files: list[FileSet]
    memory_bytes: int = 0
    events: int = 0
    """Number of events per job."""
    packets: Packets | None = None
    """How a master process distributes packets, when the study feeds packets."""
    own_master: bool = False
    """Whether `packets` describe a master of its own, not that of Headrace."""
    run: RunSettings = field(default_factory=RunSettings)
    """Settings of a run: spread and variation of CPU work, staggered starts, pCache."""
    servers: tuple[HostSpec, ...] = ()
    services: tuple[ServiceSpec, ...] = ()
    source: str | None = None
    """Name of the service that stores the files on `"source"`."""
    description: Mapping[str, object] = field(default_factory=dict[str, object])
