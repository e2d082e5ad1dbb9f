"""Targets: base of modelled kinds: export options, volumes, servers, refusal to measure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator
from typing_extensions import override

from headrace.catalog import entry, names
from headrace.errors import HeadraceError, Problem
from headrace.labels import ITSELF, Label
from headrace.refusals import meant
from headrace.targets import Location, ModelledStorage, Target, TargetContext, TargetOptions
from headrace.units import MOST_DRIVES, MOST_HOSTS, Bytes, parse_bytes_per_s
from headrace.validation import made_of

Scheduler = Literal[
    "noop", "none", "deadline", "mq-deadline", "anticipatory", "cfq", "bfq", "kyber"
]
FRESH = ("ext3", "ext4", "xfs", "btrfs")
"""Filesystems as mkfs creates them; others are entries of the catalog."""


def _commas(given: Any) -> Any:
    return (
        [word.strip() for word in given.split(",") if word.strip()]
        if isinstance(given, str)
        else given
    )


class ModelledRaid(BaseModel):
    """`raid = { level = 5, drives = 4 }`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    level: Literal[0, 1, 5, 6, 10] = Field(description="RAID level")
    drives: int = Field(ge=2, le=MOST_DRIVES, description="drives in it")
    chunk: Bytes = Field(64 << 10, description="bytes on one drive before the next one's turn")


class Export(BaseModel):
    """What a server stores on: `{ drive, raid, filesystem, scheduler, read_ahead }`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
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
            "measured: bytes of an image (made for the study when no name is given) or drive"
        ),
    )
    raid: ModelledRaid | None = Field(None, description="several of that drive")
    filesystem: Annotated[str, ITSELF] = Field(
        "ext4",
        description="ext3, ext4, xfs, btrfs (fresh), or an entry of the catalog's filesystems",
    )
    mount: Annotated[tuple[str, ...], BeforeValidator(_commas)] = Field(
        (),
        description=(
            "mount options, as list or text; simulated: access times, barrier and commit count"
        ),
    )
    scheduler: Scheduler | None = Field(None, description="I/O scheduler; noop when not given")
    read_ahead: Bytes | None = Field(
        None, description="read-ahead of the filesystem; 128 KiB when not given"
    )
    queue_depth: int | None = Field(None, ge=1, description="requests that a drive gets at once")

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


class ServedOptions(TargetOptions):
    """Options of every kind that is reached over a network."""

    address: str | None = Field(
        None,
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
    tuning: dict[str, Any] = Field(
        default_factory=dict[str, Any],
        description="parameters of the file service, by the simulator's names",
    )


def volume(name: str, export: Any, read_ahead_default_bytes: int = 128 << 10) -> dict[str, Any]:
    """Return a volume of a scenario from options with `drive`, `raid`, `filesystem`, `scheduler`,
    `read_ahead`, `queue_depth`."""
    drive = entry("drives", export.drive).table
    made: dict[str, Any] = {
        "name": name,
        "filesystem": filesystem(export.filesystem or "ext4", export.mount),
    }
    raid = getattr(export, "raid", None)
    made["storage"] = storage(drive, None if raid is None else raid.model_dump())
    made["scheduler"] = export.scheduler or "noop"
    if raid is not None and raid.level != 1:
        # Linux md reads ahead at least two whole stripes (drivers/md/raid0.c, raid5.c, raid10.c).
        read_ahead_default_bytes = max(read_ahead_default_bytes, 2 * raid.chunk * raid.drives)
    made["read_ahead_bytes"] = (
        read_ahead_default_bytes if export.read_ahead is None else export.read_ahead
    )
    if export.queue_depth is not None:
        # The option counts per drive; a RAID's queue holds the requests of all drives.
        made["queue_depth"] = export.queue_depth * (1 if raid is None else raid.drives)
    return made


def storage(drive: dict[str, Any], raid: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a drive, or a RAID of equal drives (`level`, `drives`, `chunk`), as the model's
    `StorageSpec` (crates/model)."""
    made: dict[str, Any] = {"drives": [drive]}
    if raid is not None:
        made["raid"] = {
            "level": raid["level"],
            "drives": raid["drives"],
            "chunk_bytes": raid["chunk"],
        }
    return made


_MOUNT: dict[str, tuple[str, Any]] = {
    "strictatime": ("access_time", "strict"),
    "relatime": ("access_time", "relative"),
    "noatime": ("access_time", "never"),
    "barrier": ("barrier", True),
    "barrier=1": ("barrier", True),
    "barrier=0": ("barrier", False),
    "nobarrier": ("barrier", False),
}


def filesystem(name: str, mount: Sequence[str] = ()) -> dict[str, Any]:
    """Return a filesystem by its kind (fresh) or its catalog entry, with the mount options that the
    model knows: access times, barrier, commit."""
    made: dict[str, Any] = (
        {"kind": name} if name in FRESH else entry("filesystems", name).table.part()
    )
    for option in mount:
        if option in _MOUNT:
            field, value = _MOUNT[option]
            made[field] = value
        elif option.startswith("commit=") and option[7:].isdigit() and int(option[7:]) > 0:
            made["commit_interval_ns"] = int(option[7:]) * 1_000_000_000
    return made


def network_port(link: Any) -> dict[str, Any]:
    """Return a port of a scenario from a site's link: the name of an entry, `1 GbE`, `4 x 1 GbE`,
    or a table."""
    if link is None:
        return entry("links", "1-gbe").table.part()
    if isinstance(link, str):
        count, _, each = link.rpartition(" x ")
        ports = int(count) if count.strip().isdigit() else 1
        known = each.strip().lower().replace(" ", "-")
        try:
            rate = parse_bytes_per_s(each)
        except ValueError:
            port = dict(entry("links", known).table.part())
        else:
            port = dict(entry("links", _nearest_link(rate)).table.part())
            port["rate_bytes_per_s"] = rate
        if ports > 1:
            # Bonded ports: one flow uses one of them.
            port["flow_bytes_per_s"] = port["rate_bytes_per_s"]
            port["rate_bytes_per_s"] *= ports
        return port
    port = dict(entry("links", _nearest_link(link.rate)).table.part())
    port.update(rate_bytes_per_s=link.rate * link.count, transmit_queue_packets=link.txqueuelen)
    if link.latency:
        port["latency_ns"] = round(link.latency * 1e9)
    if link.count > 1:
        port["flow_bytes_per_s"] = link.rate
    return port


def _nearest_link(rate_bytes_per_s: float) -> str:
    """Return the catalog entry with the latency of such a port."""
    for name, least in (("100-gbe", 6e9), ("25-gbe", 2e9), ("10-gbe", 6e8)):
        if rate_bytes_per_s >= least:
            return name
    return "1-gbe"


def host(name: str, machine: str | None, link: Any, count: int = 1) -> dict[str, Any]:
    """Return a host of a scenario from a machine of the catalog and a link."""
    table = entry("nodes", machine or "generic-server").table.part()
    return {"name": name, "count": count, **table, "network": network_port(link)}


def local_storage(target: Target, site: Any) -> ModelledStorage:
    """Return a volume of each node, for a target on the node's local drives (`path`, `block`).

    A real medium has no model: the site's nodes must name a catalog drive that substitutes for it.
    """
    options = target.options
    given: dict[str, Any] = {
        field: getattr(options, field, None)
        for field in (
            "drive",
            "raid",
            "filesystem",
            "mount",
            "scheduler",
            "read_ahead",
            "queue_depth",
        )
    }
    if given["drive"] is None:
        own = site.node.drives if site is not None else {}
        stand_in = own.get(target.name) or (next(iter(own.values())) if len(own) == 1 else None)
        if stand_in is None:
            raise HeadraceError(
                f"target {target.name}: a real medium can only be simulated by a drive that "
                "stands for it",
                hint=(
                    f'give [site.node] drives = {{ {target.name} = "NAME" }}; headrace drive '
                    "list names them"
                ),
            )
        if isinstance(stand_in, str):
            given["drive"] = stand_in
        else:
            given["drive"] = stand_in.drive
            if stand_in.count > 1:
                chunk = {} if stand_in.chunk is None else {"chunk": stand_in.chunk}
                given["raid"] = ModelledRaid(
                    level=stand_in.raid or 0, drives=stand_in.count, **chunk
                )
    given["filesystem"] = given["filesystem"] or "ext4"
    given["mount"] = given["mount"] or ()
    if given["raid"] is not None:
        given["raid"] = given["raid"].model_dump(exclude={"by"})
    made = volume(target.name, made_of(Export, given, f"target {target.name}"))
    return ModelledStorage(
        place={"volume": target.name}, node_volumes=(made,), description={"drive": given["drive"]}
    )


class ModelledTarget(Target):
    """A target that exists only in virtual time."""

    service_kind: ClassVar[str]

    @override
    def check(self, forced_devices: frozenset[str]) -> list[Problem]:
        """Return one problem: this version cannot set up such a storage."""
        return [
            Problem(
                f"kind = {self.kind!r} cannot be measured by this version",
                f"target {self.name}",
                "headrace simulate STUDY takes it in virtual time; a mounted one is measured "
                'with kind = "path" and its directory',
            )
        ]

    @override
    def free_bytes(self) -> int | None:
        """Return None: unknown."""
        return None

    @override
    def prepare(self, context: TargetContext) -> Location:
        """Raise HeadraceError; never reached after `check`."""
        raise HeadraceError(
            f"target {self.name}: kind {self.kind!r} cannot be measured by this version"
        )

    @override
    def release(self, context: TargetContext) -> None:
        """Do nothing: nothing was set up."""

    # -- the model ------------------------------------------------------------

    def site_server(self, site: Any) -> Any:
        """Return the `[site.server.NAME]` that the options name, or None."""
        name = self.options.server
        if name is None:
            return None
        if site is None or name not in site.server:
            known = ", ".join(site.server) if site is not None else ""
            raise HeadraceError(
                f"target {self.name}: there is no [site.server.{name}]"
                + (f"; there are: {known}" if known else "")
            )
        return site.server[name]

    def software(self) -> tuple[str, dict[str, Any], dict[str, Any] | None, dict[str, Any] | None]:
        """Return (service kind, tuning, ideal storage, cost of a virtual machine) of the catalog
        entry, overridden by the options."""
        name = self.options.software
        if name is None:
            return self.service_kind, dict(self.options.tuning), None, None
        table = entry("servers", name).table
        return table.kind, {**table.tuning, **self.options.tuning}, table.storage, table.virtual

    def served(self, site: Any, export: Export, tuning: dict[str, Any]) -> ModelledStorage:
        """Return the site's servers with one volume each, and the service on top of them."""
        found = self.site_server(site)
        kind, base, storage, virtual = self.software()
        count = self.options.servers or (found.count if found is not None else 1)
        server_name = f"{self.name}-server"
        made = host(
            server_name, found.machine if found else None, found.link if found else None, count
        )
        made["volumes"] = [self._volume(export, storage)]
        if self.options.virtual or (found is not None and found.virtual):
            made["virtualisation"] = virtual or {}
        return self.with_service(kind, {**base, **tuning}, server_name, (made,), ())

    def _volume(self, export: Export, storage: dict[str, Any] | None) -> dict[str, Any]:
        if export.drive is not None:
            return volume("data", export)
        if storage is None:
            raise HeadraceError(
                f"target {self.name}: what does it store on? give export = {{ drive = … }}, or "
                "software with storage of its own"
            )
        made: dict[str, Any] = {
            "name": "data",
            "ideal": storage,
            "filesystem": filesystem(export.filesystem),
        }
        if export.read_ahead is not None:
            made["read_ahead_bytes"] = export.read_ahead
        return made

    def on_bricks(self, site: Any, bricks: Bricks, tuning: dict[str, Any]) -> ModelledStorage:
        """Return bricks on the compute nodes, or on servers."""
        if bricks.on != "node":
            named = type(self)(self.name, self.options.model_copy(update={"server": bricks.on}))
            return named.served(site, bricks, tuning)
        kind, base, _, _ = self.software()
        if bricks.drive is None:
            raise HeadraceError(f"target {self.name}: bricks on the nodes need a drive")
        brick = volume(f"{self.name}-brick", bricks)
        return self.with_service(kind, {**base, **tuning}, "node", (), (brick,))

    def with_service(
        self,
        kind: str,
        tuning: dict[str, Any],
        host_name: str,
        servers: tuple[dict[str, Any], ...],
        node_volumes: tuple[dict[str, Any], ...],
    ) -> ModelledStorage:
        """Return a file service on top of volumes."""
        volume_name = (servers[0]["volumes"][0] if servers else node_volumes[0])["name"]
        service = {
            "name": self.name,
            "kind": kind,
            "targets": [{"host": host_name, "volume": volume_name}],
            "tuning": tuning,
        }
        return ModelledStorage(
            place={"service": self.name},
            node_volumes=node_volumes,
            servers=servers,
            services=(service,),
            description={"service": kind, "tuning": tuning},
        )
