"""Targets: options of file services: what their servers store on, and where the servers are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from headrace.catalog import names
from headrace.catalog.tuning import wrong_parameters
from headrace.labels import ITSELF, Label
from headrace.raid import MOST_CHUNK_BYTES, SMALLEST_CHUNK_BYTES, RaidLevel, check_drives
from headrace.refusals import form, meant
from headrace.site import RaidTuning
from headrace.targets.server_options import ServerOptions
from headrace.units import MOST_DRIVES, MOST_HOSTS, MOST_QUEUED, Bytes

Scheduler = Literal[
    "noop",
    "none",
    "deadline",
    "mq-deadline",
    "anticipatory",
    "cfq",
    "cfq-2.6.18",
    "bfq",
    "kyber",
]
FRESH = ("ext3", "ext4", "xfs", "btrfs")
"""Filesystems as mkfs creates them; others are entries of the catalog."""


def _commas(given: Any) -> Any:
    return (
        [word.strip() for word in given.split(",") if word.strip()]
        if isinstance(given, str)
        else given
    )


class ModelledRaid(RaidTuning):
    """`raid = { level = 5, drives = 4 }`."""

    level: RaidLevel = Field(description="RAID level")
    drives: int = Field(ge=2, le=MOST_DRIVES, description="drives in it")
    chunk: Bytes = Field(
        64 << 10,
        ge=SMALLEST_CHUNK_BYTES,
        le=MOST_CHUNK_BYTES,
        multiple_of=SMALLEST_CHUNK_BYTES,
        description="bytes on one drive before the next one's turn",
    )

    @model_validator(mode="after")
    def _possible(self) -> ModelledRaid:
        check_drives(self.level, self.drives)
        self.check_tuning(self.level)
        return self


class Export(BaseModel):
    """What a server stores on: `{ drive, raid, filesystem, scheduler, read_ahead }`."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    drive: Annotated[str | None, ITSELF] = Field(
        None,
        description=(
            "a drive of the catalog, or a TOML file: emulated when measured, modelled when "
            "simulated"
        ),
    )
    device: str | None = Field(
        None, description="measured: a block device, blank or named by --force-device too"
    )
    image: str | None = Field(
        None,
        description=(
            "measured: a file that becomes a drive; with several servers a number is put "
            "before its suffix"
        ),
    )
    directory: str | None = Field(
        None, description="measured: a directory in which the server gets a folder of its own"
    )
    size: Bytes | None = Field(
        None,
        gt=0,
        description=(
            "bytes of an image (made for the study when no name is given; measured), or of the "
            "filesystem at the drive's front"
        ),
    )
    raid: ModelledRaid | None = Field(None, description="several of that drive")
    filesystem: Annotated[str, ITSELF] = Field(
        "ext4",
        description="ext3, ext4, xfs, btrfs (fresh), or an entry of the catalog's filesystems",
    )
    mount: Annotated[
        tuple[str, ...], BeforeValidator(_commas, json_schema_input_type=str | list[str])
    ] = Field(
        (),
        description=(
            "mount options, as list or text; simulated: access times, barrier, commit and discard"
        ),
    )
    scheduler: Scheduler | None = Field(None, description="I/O scheduler; noop when not given")
    read_ahead: Bytes | None = Field(
        None, description="read-ahead of the filesystem; 128 KiB when not given"
    )
    queue_depth: int | None = Field(
        None, ge=1, le=MOST_QUEUED, description="requests that a drive gets at once"
    )

    @field_validator("filesystem")
    @classmethod
    def _known_filesystem(cls, name: str) -> str:
        known = [*FRESH, *names("filesystems")]
        if name not in known and not name.endswith(".toml"):
            problem = meant("no such filesystem", name, known)
            raise ValueError(f"{problem}; allowed: {', '.join(known)}")
        return name


class Bricks(Export):
    """Where the bricks of a distributed filesystem are: on the compute nodes, or on servers."""

    on: str = Field("node", description='"node", or the name of a [site.server.NAME]')


class Erasure(BaseModel):
    """`erasure = { data = 4, parity = 2 }`: any `data` objects of a file give it back."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    data: int = Field(ge=1, le=64, description="objects that hold as much as the file has")
    parity: int = Field(ge=1, le=16, description="objects more, as many as may be lost")

    @property
    def stored_per_byte(self) -> float:
        """Return the bytes that are stored per byte of data."""
        return (self.data + self.parity) / self.data

    def tuning(self, stripe_bytes: int) -> dict[str, object]:
        """Return the parameters of such a file with stripe units of this size."""
        return {
            "replicas": 1,
            "block_bytes": 0,
            "stripe_bytes": stripe_bytes,
            "stripe_targets": self.data,
            "parity_targets": self.parity,
        }


class ServedOptions(ServerOptions):
    """Options of every kind that is reached over a network."""

    address: str | None = Field(
        None,
        pattern=form(r"^[^\s/]+$", "HOST, HOST:PORT or [IPV6]:PORT, not a URL"),
        description=(
            "measured: host name or address of a server that is there already; none is started then"
        ),
    )
    server: str | None = Field(
        None, description="name of a [site.server.NAME]; one of its own when not given"
    )
    servers: Annotated[int | None, Label("{} server", "{} servers")] = Field(
        None, ge=1, le=MOST_HOSTS, description="how many servers hold the data"
    )
    software: str | None = Field(
        None, description="an entry of the catalog's servers: tuning of the file service"
    )
    virtual: bool = Field(False, description="the servers run in virtual machines")
    tuning: dict[str, object] = Field(
        default_factory=dict[str, object],
        description="parameters of the file service, by the simulator's names",
    )

    def wrong_fields(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield the parameters of the service that none has: place, and the problem."""
        for name, problem in wrong_parameters(self.tuning):
            yield ("tuning", name), problem

    def why_no_servers(self) -> str | None:
        """Servers that are started for the study are on this machine."""
        return None if self.address else "state `address` of the servers that exist already"


def with_port(address: str, port: int) -> str:
    """Return `HOST:PORT` of an address, with this port when it names none.

    An address of IPv6 without brackets names none.
    """
    if address.count(":") > 1 and not address.startswith("["):
        return f"[{address}]:{port}"
    return address if ":" in address.rpartition("]")[2] else f"{address}:{port}"
