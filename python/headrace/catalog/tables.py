"""Base layer: typed tables of the catalog's shelves, with the simulator's field names.

Entries therefore go into a scenario unchanged. Drives are not here: the Rust core reads and checks
them (crates/model, `DriveSpec`).
"""

from __future__ import annotations

import datetime
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from headrace.catalog.tuning import MOST_REQUEST_NS, wrong_parameters
from headrace.scenario import FileSet, Packets, RunSettings, Step
from headrace.units import MOST_BYTES, MOST_FILES


class CatalogTable(BaseModel):
    """Base of every entry. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    name: str = Field(min_length=1)
    about: str = ""
    source: dict[str, str] = Field(default_factory=dict[str, str])

    def part(self) -> dict[str, Any]:
        """Return the part for a scenario: all set fields except name, about and source."""
        return self.model_dump(exclude={"name", "about", "source"}, exclude_unset=True)


class Sharing(BaseModel):
    """Cost of sharing a core."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    timeslice_ns: int = Field(6_000_000, ge=1000, le=MOST_REQUEST_NS)
    switch_ns: int = Field(5_000, ge=0, le=MOST_REQUEST_NS)
    reload_ns: int = Field(0, ge=0, le=MOST_REQUEST_NS)
    busy_core_slowdown: float = Field(0.0, ge=0, lt=1)


class MachinePower(BaseModel):
    """Power of a machine without its drives."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    idle_w: float = Field(ge=0)
    awake_w: float = Field(0.0, ge=0)
    core_w: float = Field(ge=0)
    network_j_per_byte: float = Field(0.0, ge=0)


class Writeback(BaseModel):
    """When the kernel writes dirty pages to the drive (Linux: /proc/sys/vm/dirty_*)."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    dirty_background_ratio: float = Field(0.10, gt=0, lt=1)
    dirty_ratio: float = Field(0.20, gt=0, lt=1)
    dirty_expire_ns: int = Field(30_000_000_000, ge=0)
    dirty_writeback_ns: int = Field(5_000_000_000, ge=1)
    of_all_memory: bool = False
    """Kernels up to 2.6.23: shares of all memory, and at most half of the memory that processes
    have not mapped."""


class CatalogController(CatalogTable):
    """`controllers/`: a RAID controller (crates/model, `ControllerSpec`)."""

    cache_bytes: int = Field(ge=1 << 20, le=1 << 40)
    queue_depth: int = Field(ge=1, le=65_536)
    command_us: float = Field(ge=0, le=1e5)
    link_bytes_per_s: float = Field(ge=1e6, le=1e12)
    flush_interval_s: float = Field(ge=0.01, le=3600)
    destage_above: float = Field(0.5, ge=0, le=1)


class CatalogNode(CatalogTable):
    """`nodes/`: a machine."""

    cores: int = Field(ge=1, le=4096)
    cpu_speed: float = Field(1.0, gt=0)
    memory_bytes: int = Field(ge=1 << 26)
    memory_reserved_bytes: int = Field(256 << 20, ge=0)
    call_ns: int = Field(1000, ge=0, le=MOST_REQUEST_NS)
    create_ns: int = Field(0, ge=0, le=MOST_REQUEST_NS)
    remove_ns: int = Field(0, ge=0, le=MOST_REQUEST_NS)
    beside_job_ns: int = Field(0, ge=0, le=MOST_REQUEST_NS)
    beside_request_ns: int = Field(0, ge=0, le=MOST_REQUEST_NS)
    copy_bytes_per_s: float = Field(4e9, ge=1000)
    write_copy_bytes_per_s: float = Field(0.0, ge=0)
    """Rate of writes into the page cache, with new pages; 0: as `copy_bytes_per_s`."""
    first_touch_bytes_per_s: float = Field(0.0, ge=0)
    """Rate at which memory is provided and cleared when a job first touches it; 0: at no cost."""
    writeback: Writeback = Writeback()  # pyright: ignore[reportCallIssue]
    read_ahead: Literal["on_demand", "two_windows", "large_folios"] = "on_demand"
    """The kernel's read-ahead: on demand since 2.6.23, two windows before (RHEL 5 and SL 5), in
    large folios since 6.16 on ext4 and XFS."""
    page_reclaim: Literal["two_lists", "workingset", "mglru"] = "two_lists"
    """How the kernel chooses which file pages it evicts: since 3.15 by refault distances, too;
    since 6.1 by generations if the kernel has them."""
    sharing: Sharing = Sharing()  # pyright: ignore[reportCallIssue]
    power: MachinePower


class CatalogLink(CatalogTable):
    """`links/`: a machine's network link."""

    rate_bytes_per_s: float = Field(ge=1000)
    """Line rate of Ethernet, with headers, preamble and gap."""
    mtu_bytes: int = Field(1500, ge=576, le=65535)
    """Largest packet: how much of the rate is data."""
    latency_ns: int = Field(ge=0, le=MOST_REQUEST_NS)
    flow_bytes_per_s: float = Field(0.0, ge=0)
    socket_buffer_bytes: int = Field(0, ge=0)
    transmit_queue_packets: int = Field(0, ge=0)

    def part(self) -> dict[str, Any]:
        """Return the part for a scenario, whose ports know rates alone: without `mtu_bytes`."""
        made = super().part()
        made.pop("mtu_bytes", None)
        return made


class CatalogSwitch(CatalogTable):
    """`switches/`: a network switch, whose power hardly depends on its traffic."""

    ports: int = Field(ge=1)
    power_w: float = Field(ge=0)


class CatalogServer(CatalogTable):
    """`servers/`: a file service's software, and its storage if only the storage's rates are
    known."""

    kind: Literal[
        "nfs", "bluearc", "glusterfs", "lustre", "hdfs", "orangefs", "xrootd", "cephfs", "eos"
    ]
    tuning: dict[str, Any] = Field(default_factory=dict[str, Any])
    storage: dict[str, Any] | None = None
    """An ideal drive (crates/model, `IdealSpec`) for an array with published rates only."""
    virtual: dict[str, Any] | None = None
    """Cost of running the server in a virtual machine (crates/simulator, `VirtualisationSpec`)."""

    @field_validator("tuning")
    @classmethod
    def _possible(cls, tuning: dict[str, Any]) -> dict[str, Any]:
        for name, problem in wrong_parameters(tuning):
            raise ValueError(f"{name} {problem}")
        return tuning


class CatalogFilesystem(CatalogTable):
    """`filesystems/`: a filesystem and its initial state (crates/model, `FilesystemSpec`)."""

    kind: Literal["ext3", "ext4", "xfs", "btrfs"]
    free_extent_bytes: int = Field(0, ge=0)
    used_fraction: float = Field(0.0, ge=0, lt=1)
    start_fraction: float = Field(0.0, ge=0, lt=1)
    directories: int = Field(1, ge=1)
    access_time: Literal["strict", "relative", "never"] = "relative"
    barrier: bool | None = None
    commit_interval_ns: int | None = None


class ProfileFiles(BaseModel):
    """A set of files of a job profile."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    name: str
    on: Literal["target", "source", "node"] = "target"
    bytes: int = Field(0, ge=0, le=MOST_BYTES)
    count: int = Field(1, ge=0, le=MOST_FILES)
    """For the whole site; 0: one per slot."""
    share: Literal["each", "shared", "new"] = "each"
    keep: bool = False
    path: str = ""
    """Recorded profiles: the file's path at recording, or a hash of it."""

    def part(self) -> FileSet:
        """Return the part for a scenario."""
        made: FileSet = {"name": self.name, "on": self.on, "share": self.share}
        made["bytes"], made["count"], made["keep"] = self.bytes, self.count, self.keep
        return made


class UnseenBytes(BaseModel):
    """Bytes that the kernel counted for a recorded job, and how many of them were not seen."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    read_bytes: int = Field(ge=0)
    written_bytes: int = Field(ge=0)
    kernel_read_bytes: int = Field(ge=0)
    kernel_written_bytes: int = Field(ge=0)


MOST_RECORDED_S = 2.4e9
"""Seventy years; in nanoseconds it and sums of a few such values fit into 64 bits."""


class RecordingOrigin(BaseModel):
    """Origin of a recorded profile."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    by: str
    """`headrace record`, `strace`, `darshan-dxt`, `xrootd`."""
    command: list[str] = Field(default_factory=list[str])
    started_utc: str = ""
    duration_s: float = Field(ge=0, le=MOST_RECORDED_S)
    cpu_s: float = Field(0.0, ge=0, le=MOST_RECORDED_S)
    cpu_wait_s: float = Field(0.0, ge=0, le=MOST_RECORDED_S)
    processes: int = Field(1, ge=0)
    threads: int = Field(1, ge=0)
    exit: str = ""
    machine: str = ""
    unseen: UnseenBytes | None = None
    notes: list[str] = Field(default_factory=list[str])
    """What a reader must know: what was not recorded, and why."""


class OutlineFigure(BaseModel):
    """A figure of an outline and its bounds."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    value: float = Field(ge=0)
    low: float = Field(ge=0)
    high: float = Field(ge=0)
    source: str = ""


class ProfileOutline(BaseModel):
    """Origin of a profile that was made from outside, by a watch."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    by: str
    job: str = ""
    began_utc: str = ""
    duration_s: float = Field(ge=0, le=MOST_RECORDED_S)
    machine: str = ""
    figures: dict[str, OutlineFigure] = Field(default_factory=dict[str, OutlineFigure])
    unknown: list[str] = Field(default_factory=list[str])
    """What could not be seen."""


PROFILE_VERSION = 2
"""Version of recorded profiles: their steps file (docs/profiles.md). 2: operations that set sizes
or allocate space (ops 13 to 15)."""


class CatalogProfile(CatalogTable):
    """`profiles/`: a job as compute, read, write and wait steps (crates/simulator, `Step`), in the
    entry or a steps file."""

    version: int = Field(PROFILE_VERSION, ge=1)
    memory_bytes: int = Field(0, ge=0)
    events: int = Field(0, ge=0)
    part_of_job: float = Field(1.0, gt=0, le=1)
    """Share of a job that one run of the profile is: numbers per job refer to whole jobs."""
    files: list[ProfileFiles] = Field(default_factory=list[ProfileFiles])
    steps: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    steps_file: str | None = None
    """A Parquet file in the entry's folder (docs/profiles.md)."""
    packets: dict[str, Any] | None = None
    run: dict[str, Any] = Field(default_factory=dict[str, Any])
    recorded: RecordingOrigin | None = None
    outline: ProfileOutline | None = None

    @property
    def job_steps(self) -> list[Step]:
        """The steps; the core checks them."""
        return cast("list[Step]", self.steps)

    @property
    def job_packets(self) -> Packets | None:
        """A copy of how packets are handed out; the core checks it."""
        return None if self.packets is None else cast("Packets", dict(self.packets))

    @property
    def job_run(self) -> RunSettings:
        """A copy of the settings of a run; the core checks them."""
        return cast("RunSettings", dict(self.run))

    @field_validator("version")
    @classmethod
    def _known(cls, version: int) -> int:
        if version > PROFILE_VERSION:
            raise ValueError(
                f"written by a newer Headrace: version {version}, this one reads up to "
                f"{PROFILE_VERSION}"
            )
        return version

    @field_validator("steps_file")
    @classmethod
    def _beside(cls, name: str | None) -> str | None:
        if name is not None and (name in ("", ".", "..") or "/" in name):
            raise ValueError("must be the name of a file in the folder of the profile")
        return name

    @model_validator(mode="after")
    def _has_steps(self) -> CatalogProfile:
        if not self.steps and self.steps_file is None:
            raise ValueError("either steps or steps_file must say what the job does")
        return self


class CatalogPrice(CatalogTable):
    """`prices/`: a price, with place and year."""

    amount: float = Field(ge=0)
    currency: str
    year: int = Field(ge=1980, le=2100)
    date: str | None = None
    """The day, where it is known, such as `2021-01-19`."""
    what: str = ""
    drive: str | None = None
    """The drive of the catalog that it is a price of."""
    drives: int = Field(1, ge=1)
    """Number of these drives that the amount buys."""

    @field_validator("date")
    @classmethod
    def _day(cls, date: str | None) -> str | None:
        try:
            return None if date is None else datetime.date.fromisoformat(date).isoformat()
        except ValueError:
            raise ValueError("must be a day such as 2021-01-19") from None


TABLES: dict[str, type[CatalogTable]] = {
    "controllers": CatalogController,
    "nodes": CatalogNode,
    "links": CatalogLink,
    "switches": CatalogSwitch,
    "servers": CatalogServer,
    "filesystems": CatalogFilesystem,
    "profiles": CatalogProfile,
    "prices": CatalogPrice,
}
