"""Target `glusterfs`: files on bricks by a hash of their name, replicated or dispersed.

Measured: a volume over bricks on servers, or on local drives of the compute nodes, started for the
study (system/servers/glusterfs.py), or with `address` an existing volume. Each node mounts it by
FUSE. Also simulated in virtual time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import override

from headrace.errors import HeadraceError, Problem, UnsupportedLevelError
from headrace.labels import Label
from headrace.site import Site
from headrace.system.cluster import Node
from headrace.system.owned import try_writing
from headrace.system.requirements import missing_program
from headrace.system.servers import Server
from headrace.system.servers.glusterfs import (
    Glusterd,
    GlusterfsClient,
    Layout,
    Volume,
    bricks_of,
)
from headrace.system.storage import storage_of
from headrace.targets import Location, ModelledStorage, Setting, TargetContext, TargetOptions
from headrace.targets.bricks import BricksTarget
from headrace.targets.exports import Bricks, Erasure, ServedOptions
from headrace.targets.glusterfs_settings import NAMES, VolumeSettings
from headrace.units import MOST_HOSTS, Bytes, Seconds

_VOLUME = "headrace"
_READY_S = 90.0
"""A glusterd takes some seconds to start, and several start at once."""


class Disperse(BaseModel):
    """`disperse = { data = 2, redundancy = 1 }`."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    data: int = Field(ge=2, le=16, description="bricks that hold as much as the file has")
    redundancy: int = Field(1, ge=1, le=15, description="bricks more, as many as may be lost")

    @model_validator(mode="after")
    def _fewer_than_data(self) -> Disperse:
        if self.redundancy >= self.data:
            raise ValueError("redundancy must be less than data")
        return self


class GlusterfsOptions(ServedOptions):
    """`[target.NAME]` with `kind = "glusterfs"`."""

    bricks: Bricks = Field(
        default_factory=lambda: Bricks.model_validate({}),
        description='on the compute nodes (on = "node") or on servers, and of which drive',
    )
    replicas: Annotated[int, Label("{} copy", "{} copies")] = Field(
        1, ge=1, le=MOST_HOSTS, description="copies of each file"
    )
    disperse: Disperse | None = Field(
        None, description="pieces of each file and coded ones, instead of copies"
    )
    bricks_per_server: int | None = Field(
        None,
        ge=1,
        le=MOST_HOSTS,
        description="measured: as many as give whole sets of copies when not given",
    )
    volume: str | None = Field(None, description="with `address`: name of the volume")
    volume_options: dict[str, str] = Field(
        default_factory=dict[str, str],
        description="measured: options that the volume is made with, by Gluster's names",
    )
    read_ahead: Bytes | None = Field(
        None, description="measured: the kernel's read-ahead of the FUSE mount"
    )
    io_cache: bool | None = Field(None, description="measured: the clients' cache of what was read")
    cache_size: Bytes | None = Field(None, gt=0, description="measured: its size")
    quick_read: bool | None = Field(None, description="measured: small files come with the look-up")
    volume_read_ahead: bool | None = Field(None, description="measured: Gluster's own read-ahead")
    read_ahead_pages: int | None = Field(
        None, ge=1, le=16, description="measured: pages of 128 KiB that it reads ahead"
    )
    write_behind: bool | None = Field(
        None, description="measured: writes are acknowledged before servers have them"
    )
    write_behind_window: Bytes | None = Field(
        None, gt=0, description="measured: bytes of a file under way so"
    )
    open_behind: bool | None = Field(
        None, description="measured: files are opened at the first read"
    )
    stat_prefetch: bool | None = Field(
        None, description="measured: the clients' cache of attributes"
    )
    readdir_ahead: bool | None = Field(None, description="measured: folders are read ahead")
    io_threads: int | None = Field(None, ge=1, le=64, description="measured: threads of a brick")
    client_threads: bool | None = Field(
        None, description="measured: a client works on several requests at once"
    )
    ping_timeout: Seconds | None = Field(
        None,
        ge=0,
        description="measured: silence after which a client gives a brick up (Gluster: 42 s)",
    )

    @model_validator(mode="after")
    def _one_way(self) -> GlusterfsOptions:
        if (self.address is None) != (self.volume is None):
            raise ValueError("address and volume go together: a volume that is there")
        if self.disperse is not None and self.replicas > 1:
            raise ValueError("name replicas or disperse, not both")
        return self

    @property
    def layout(self) -> Layout:
        """How files are distributed over bricks."""
        if self.disperse is None:
            return Layout(replicas=self.replicas)
        each = self.disperse
        return Layout(disperse=each.data + each.redundancy, redundancy=each.redundancy)


class Glusterfs(BricksTarget):
    """A GlusterFS volume."""

    kind = "glusterfs"
    label: ClassVar[str] = "GlusterFS"
    Options: ClassVar[type[TargetOptions]] = GlusterfsOptions
    service_kind = "glusterfs"
    settings: ClassVar[frozenset[str]] = NAMES
    server_kinds: ClassVar[tuple[type[Server], ...]] = (Glusterd,)

    options: GlusterfsOptions

    def __init__(self, name: str, options: Any) -> None:
        super().__init__(name, options)
        self.volume: Volume | None = None
        self._settings: VolumeSettings | None = None
        self._clients: list[GlusterfsClient] = []

    # -- before set-up ------------------------------------------------------------

    @override
    def copies(self) -> int:
        return self.options.layout.set_bricks

    @override
    def stored_per_byte(self) -> float:
        each = self.options.disperse
        if each is None:
            return float(self.options.replicas)
        return (each.data + each.redundancy) / each.data

    @override
    def check(self, forced_devices: frozenset[str]) -> list[Problem]:
        if not self.needs_cluster():
            lacking = missing_program("glusterfs", f"target {self.name}")
            return [lacking] if lacking else []
        return super().check(forced_devices)

    # -- set-up and tear-down ------------------------------------------------------------

    def _started(
        self, context: TargetContext, nodes: Sequence[Node], bricks_each: int
    ) -> tuple[list[Glusterd], list[list[Path]]]:
        """Start a server on each node; return the servers, and the storages of each."""
        servers: list[Glusterd] = []
        storages: list[list[Path]] = []
        for number, node in enumerate(nodes):
            own_storages = [
                self.storage(context, number * bricks_each + brick) for brick in range(bricks_each)
            ]
            server = Glusterd(node.name, node)
            self.launched(server, context, own_storages[0])
            servers.append(server)
            storages.append(own_storages)
        for server in servers:
            server.wait_ready(_READY_S)
        return servers, storages

    @override
    def bring_up(self, context: TargetContext) -> Location:
        if self.options.address is not None:
            return self._found(context, self.options.address, str(self.options.volume))
        cluster = self.cluster(context)
        nodes = self.brick_nodes(context)
        bricks_each = self._bricks_each(len(nodes))
        servers, storages = self._started(context, nodes, bricks_each)
        volume = Volume(_VOLUME, servers, self.options.layout)
        # Order: the first brick of every server, then the second one, so that the copies of a file
        # are on different servers.
        bricks = [
            (server, own[brick] / "brick")
            for brick in range(bricks_each)
            for server, own in zip(servers, storages, strict=True)
        ]
        volume.create(bricks, self.options.volume_options)
        self.volume = volume
        addresses = [server.node.address for server in servers]
        directories = tuple(
            self._mounted(context, client, addresses, _VOLUME) for client in self.clients(context)
        )
        self._settings = VolumeSettings(
            volume,
            [
                (context.on_node(number).storage_settings()[0], directory)
                for number, directory in enumerate(directories)
            ],
        )
        self.later(self._settings.restore)
        devices, media = self.media_facts([each for own in storages for each in own])
        return Location(
            directory=directories[0],
            node_directories=directories,
            device_names=devices,
            own_device=bool(self._media),
            network=True,
            interfaces=cluster.interfaces,
            servers={server.name: server for server in servers},
            cluster=cluster,
            lacking=volume.lacking,
            description={
                **storage_of(directories[0]).as_dict(),
                **media,
                "volume": {
                    "layout": self.options.layout.words() or ["distribute"],
                    "bricks": [f"{server.name}:{folder}" for server, folder in bricks],
                    "options": {**self.options.volume_options},
                },
                "cluster": cluster.as_dict(),
            },
        )

    def _bricks_each(self, servers: int) -> int:
        """Return the number of bricks per server: as requested, or the fewest that make all replica
        sets complete."""
        needed = self.options.layout.set_bricks
        asked = self.options.bricks_per_server
        if asked is None:
            return next(each for each in range(1, needed + 1) if servers * each % needed == 0)
        if servers * asked % needed:
            raise UnsupportedLevelError(
                f"target {self.name}: {servers * asked} bricks are no whole number of sets of "
                f"{needed}"
            )
        return asked

    def _found(self, context: TargetContext, address: str, volume: str) -> Location:
        """Mount an existing volume on this machine, once. Its options stay unchanged."""
        directory = self._mounted(context, None, [address], volume)
        return Location(
            directory=directory, network=True, description=storage_of(directory).as_dict()
        )

    def _mounted(
        self, context: TargetContext, node: Node | None, addresses: list[str], volume: str
    ) -> Path:
        name = node.name if node is not None else "here"
        directory = self.mount_point(context, name)
        log = context.work_dir / f"glusterfs-{self.name}-{name}.log"
        client = GlusterfsClient(context.journal, node, addresses, volume, directory, log)
        self.mounted(name, client)
        client.mount()
        self._clients.append(client)
        try:
            try_writing(context.journal, directory)
        except OSError as error:
            raise HeadraceError(
                f"target {self.name}: the volume {volume} cannot be written to: {error.strerror}",
                hint=(
                    "look for features.read-only, auth.allow and the owner of its root "
                    "(gluster volume info)"
                ),
            ) from error
        return directory

    @override
    def locate(self, files: Sequence[str], context: TargetContext) -> Mapping[str, tuple[str, ...]]:
        """Ask the mount for the bricks of each file."""
        servers = self.volume.servers if self.volume is not None else ()
        # Nodes of one machine have one host name; their bricks are in different directories.
        own = {str(brick): server.name for server in servers for brick in server.bricks}
        found: dict[str, tuple[str, ...]] = {}
        for file in files:
            if bricks := bricks_of(file):
                found[file] = tuple(dict.fromkeys(own.get(path, host) for host, path in bricks))
        return found

    @override
    def drop_caches(self, context: TargetContext) -> None:
        """Remount every client: clients cache what they read in their own memory."""
        for client in self._clients:
            client.forget()
        if self._settings is not None:
            self._settings.mounted_anew()

    @override
    def apply(self, options: Any, context: TargetContext) -> list[Setting]:
        return self._settings.apply(options) if self._settings is not None else []

    @override
    def read_settings(self) -> dict[str, object]:
        return self._settings.read() if self._settings is not None else {}

    @override
    def release(self, context: TargetContext) -> None:
        super().release(context)
        self.volume = self._settings = None
        self._clients.clear()

    # -- the model ------------------------------------------------------------

    @override
    def model(self, site: Site | None) -> ModelledStorage:
        """Bricks, and a FUSE client on every node."""
        each = self.options.disperse
        if each is None:
            return self.modelled_bricks(site, {"replicas": self.options.replicas})
        # A FUSE request of 128 KiB goes to all bricks of the data, to each its part.
        code = Erasure(data=each.data, parity=each.redundancy)
        unit = (128 << 10) // each.data // 4096 * 4096
        return self.modelled_bricks(site, code.tuning(unit))
