"""Target `hdfs`: blocks on data nodes, a name node, a replica pipeline for writes.

Jobs read by URL, without Java. Measured: real name and data nodes (system/servers/hdfs.py) on
servers or on the compute nodes, where a job prefers the replica on its own node; or with `address`
an existing Hadoop cluster. Also simulated in virtual time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

from pydantic import Field
from typing_extensions import override

from headrace.errors import HeadraceError, Problem
from headrace.labels import Label
from headrace.refusals import form
from headrace.site import Site
from headrace.system.cluster import Node, NodeSettings, call_inside
from headrace.system.servers import Server
from headrace.system.servers.hdfs import RPC_PORT, DataNode, HdfsSettings, NameNode, reach_name_node
from headrace.system.servers.hdfs_blocks import holders, located_blocks
from headrace.system.waiting import retry
from headrace.targets import Held, Location, ModelledStorage, TargetContext, TargetOptions
from headrace.targets.bricks import BricksTarget
from headrace.targets.exports import Bricks, ServedOptions, with_port
from headrace.targets.remote_url import put, remove, try_writing
from headrace.targets.served import link_settings
from headrace.units import MOST_HOSTS, Bytes, Seconds

_READY_S = 90.0
"""Several Java processes start at once."""
_JOINED_S = 30.0
_ASKED_S = 5.0


_ADDRESS_HINT = "look at address (the name node's RPC port), path and its owner"


class HdfsOptions(ServedOptions):
    """`[target.NAME]` with `kind = "hdfs"`."""

    bricks: Bricks = Field(
        default_factory=lambda: Bricks.model_validate({}),
        description="where the data nodes are, and what they store on",
    )
    replicas: Annotated[int, Label("{} copy", "{} copies")] = Field(
        3, ge=1, le=MOST_HOSTS, description="copies of each block"
    )
    block_size: Bytes = Field(64 << 20, ge=1 << 20, multiple_of=512, description="bytes of a block")
    path: str = Field(
        "/headrace",
        pattern=form(r"^/", "a path from /"),
        description="with `address`: a folder that may be written to",
    )
    heartbeat: Seconds = Field(
        3.0, ge=1, le=60, description="measured: how often a data node reports to the name node"
    )
    dead_after: Seconds = Field(
        630.0,
        gt=0,
        description=(
            "measured: silence after which the name node gives a data node up and copies its blocks"
        ),
    )
    heap: Bytes = Field(256 << 20, ge=64 << 20, description="measured: Java heap of each server")


class Hdfs(BricksTarget):
    """A Hadoop filesystem."""

    kind = "hdfs"
    label: ClassVar[str] = "HDFS"
    Options: ClassVar[type[TargetOptions]] = HdfsOptions
    service_kind = "hdfs"
    url_prefix: ClassVar[str] = "hdfs://"
    server_kinds: ClassVar[tuple[type[Server], ...]] = (NameNode,)

    options: HdfsOptions

    def __init__(self, name: str, options: Any) -> None:
        super().__init__(name, options)
        self._url = ""
        self._uploads_from: Node | None = None

    @override
    def copies(self) -> int:
        return self.options.replicas

    @override
    def stored_per_byte(self) -> float:
        return float(self.options.replicas)

    @property
    def _name_node(self) -> str:
        return f"{self.name}-name"

    @override
    def nodes_wanted(self, site: Site | None) -> tuple[NodeSettings, ...]:
        """Return the nodes of the data nodes and one for the name node."""
        if not self.needs_cluster():
            return ()
        link = link_settings(site.node.link if site is not None else None)
        return (NodeSettings(name=self._name_node, link=link), *super().nodes_wanted(site))

    @override
    def check(self, forced_devices: frozenset[str]) -> list[Problem]:
        problems = super().check(forced_devices)
        least_s = 10 * round(self.options.heartbeat)
        if self.options.dead_after <= least_s:
            problems.append(
                Problem(
                    f"dead_after = {self.options.dead_after:g} s",
                    f"target {self.name}",
                    f"HDFS waits for ten heartbeats at least: name more than {least_s} s, or a "
                    "shorter heartbeat",
                )
            )
        return problems + self.check_storage()

    @override
    def check_storage(self) -> list[Problem]:
        if self.options.address is None:
            return []
        try:
            reach_name_node(with_port(self.options.address, RPC_PORT))
        except HeadraceError as error:
            return [Problem(error.message, f"target {self.name}", _ADDRESS_HINT)]
        return []

    def _of_address(self, context: TargetContext, given: str) -> Location:
        """Return the location of the user's own cluster."""
        self._uploads_from = None
        address = with_port(given, RPC_PORT)
        self._url = f"hdfs://{address}{self.options.path.rstrip('/')}"
        try:
            reach_name_node(address)
        except HeadraceError as error:
            raise HeadraceError(error.message, hint=_ADDRESS_HINT) from error
        self._try(context, _ADDRESS_HINT)
        return Location(
            directory=None,
            url=self._url,
            network=True,
            description={"name_node": given},
        )

    @override
    def bring_up(self, context: TargetContext) -> Location:
        options = self.options
        if options.address is not None:
            return self._of_address(context, options.address)
        cluster = self.cluster(context)
        nodes = self.brick_nodes(context)
        heartbeat_s = round(options.heartbeat)
        settings = HdfsSettings(
            replicas=options.replicas,
            block_bytes=options.block_size,
            heartbeat_s=heartbeat_s,
            recheck_s=(options.dead_after - 10 * heartbeat_s) / 2,
            heap_bytes=options.heap,
        )
        name_node = NameNode(self._name_node, cluster[self._name_node], settings)
        self.launched(name_node, context, context.work_dir)
        storages = [self.storage(context, number) for number in range(len(nodes))]
        for node, storage in zip(nodes, storages, strict=True):
            self.launched(DataNode(node.name, node, settings, name_node), context, storage)
        for server in self.servers.values():
            server.wait_ready(_READY_S)
        self._url = f"{name_node.url}{options.path.rstrip('/')}"
        self._uploads_from = self.clients(context)[0]
        self._try(context, None)
        devices, media = self.media_facts(storages)
        return Location(
            directory=None,
            url=self._url,
            device_names=devices,
            own_device=bool(self._media),
            network=True,
            interfaces=cluster.interfaces,
            servers=dict(self.servers),
            cluster=cluster,
            lacking=lambda: name_node.lacking(len(nodes)),
            description={
                **media,
                "hdfs": {
                    "name_node": name_node.url,
                    "data_nodes": [node.name for node in nodes],
                    "on": "servers" if self.separate_servers() else "compute nodes",
                    "replicas": options.replicas,
                    "block_bytes": options.block_size,
                    "dead_after_s": settings.dead_after_s,
                },
                "cluster": cluster.as_dict(),
            },
        )

    def _try(self, context: TargetContext, hint: str | None) -> None:
        # A data node that has just joined accepts blocks only after its first block report.
        patience_s = _JOINED_S if self.needs_cluster() else 0.0

        def write() -> None:
            try_writing(self._url, self._uploads_from, context, {})

        try:
            retry(write, HeadraceError, patience_s, 0.0)
        except HeadraceError as error:
            raise HeadraceError(error.message, hint=hint) from error

    @override
    def upload(
        self, files: Sequence[Path], folder: str, context: TargetContext, say: Callable[[str], None]
    ) -> list[Held]:
        return put(files, f"{self._url}/{folder}", self._uploads_from, context, {}, say)

    @override
    def locate(self, files: Sequence[str], context: TargetContext) -> Mapping[str, tuple[str, ...]]:
        """Ask the name node for the data nodes that hold at least half of each file.

        The locations are unknown where a cluster of the user's own does not answer on the default
        port.
        """
        names: dict[str, str] = {}
        inside: str | None = None
        patience_s = _ASKED_S
        if context.cluster is not None and self.options.address is None:
            names = {node.address: node.name for node in context.cluster}
            inside = context.cluster[self._name_node].namespace
            patience_s = _READY_S  # the first request starts the name node's web application
        found: dict[str, tuple[str, ...]] = {}
        for url in files:
            parts = urlsplit(url)
            try:
                blocks = call_inside(
                    inside, partial(located_blocks, parts.hostname or "", parts.path, patience_s)
                )
            except (OSError, ValueError) as error:
                if self.options.address is not None:
                    return {}
                raise HeadraceError(
                    f"target {self.name}: the name node does not say where {parts.path} is: {error}"
                ) from error
            if hosts := holders(blocks):
                found[url] = tuple(names.get(host, host) for host in hosts)
        return found

    @override
    def clear(self, folder: str, context: TargetContext) -> None:
        remove(f"{self._url}/{folder}", self._uploads_from, context, {})

    @override
    def model(self, site: Site | None) -> ModelledStorage:
        """Data nodes on the compute nodes, or on servers."""
        options: HdfsOptions = self.options
        tuning = {"replicas": options.replicas, "block_bytes": options.block_size}
        return self.modelled_bricks(site, tuning)
