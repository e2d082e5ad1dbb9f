"""Targets: base of kinds with real servers: their nodes and media, start-up and shutdown.

A kind defines its servers and how clients reach them (`bring_up`). Every set-up step pushes its
reverse step on a stack; `release` runs the stack in reverse order: clients, servers, media.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Protocol

from typing_extensions import override

from headrace.errors import HeadraceError, Problem, as_word
from headrace.site import Site
from headrace.system import cluster as clusters
from headrace.system.cluster import Cluster, LinkSettings, Node, NodeSettings
from headrace.system.owned import make_directories, work_directory
from headrace.system.servers import Server, ServerContext
from headrace.system.storage import free_bytes, storage_of
from headrace.targets import Location, Setting, TargetContext
from headrace.targets.block import BlockOptions, BlockTarget
from headrace.targets.exports import Export
from headrace.targets.links import link_rate
from headrace.targets.service import ServiceTarget
from headrace.validation import made_of

READY_S = 30.0
"""Timeout for a server to become ready."""


def link_settings(link: Any, otherwise: Any = None) -> LinkSettings:
    """Convert a site's link to a link of the cluster. A link is the name of a catalog entry,
    `1 GbE`, `4 x 1 GbE`, or a table; 1 Gb/s if both `link` and `otherwise` are None."""
    given = link if link is not None else otherwise
    rate = link_rate(given)
    made = LinkSettings(rate_bytes_per_s=rate.bucket_bytes_per_s, mtu=rate.mtu)
    if given is None or isinstance(given, str):
        return made
    return dataclasses.replace(
        made,
        delay_s=given.latency,
        mtu=given.mtu,
        txqueuelen=given.txqueuelen,
        socket_buffer_bytes=given.socket_buffer,
    )


def processors(cores: int | None, number: int, apart: int = 0) -> tuple[int, ...] | None:
    """Return the processors of node `number` if each node has `cores` of this machine's, assigned
    round-robin from `apart` on."""
    if cores is None:
        return None
    own = sorted(os.sched_getaffinity(0))
    first = apart + number * cores
    return tuple(sorted({own[(first + each) % len(own)] for each in range(min(cores, len(own)))}))


def client_nodes(site: Site | None, count: int) -> tuple[NodeSettings, ...]:
    """Return the nodes that run jobs: `node-0`, `node-1` ..."""
    node = site.node if site is not None else None
    return tuple(
        NodeSettings(
            name=f"node-{number}",
            link=link_settings(node.link if node else None),
            cpus=processors(node.cores if node else None, number),
            memory_bytes=node.memory if node else None,
        )
        for number in range(count)
    )


class Mounted(Protocol):
    """A file service mounted on a node."""

    def ended(self) -> str:
        """Return how its client in user space ended, in words; empty while it runs."""
        ...

    def unmount(self) -> None:
        """Unmount it. Raises HeadraceError when it stays."""
        ...


class ServedTarget(ServiceTarget):
    """A target with its own servers, or with an existing one (`address`)."""

    server_kinds: ClassVar[tuple[type[Server], ...]] = ()
    """The server classes that it starts; `check` looks for their programs."""

    def __init__(self, name: str, options: Any) -> None:
        super().__init__(name, options)
        self._steps: list[Callable[[], None]] = []
        self._media: list[Location] = []
        self.servers: dict[str, Server] = {}
        self._mounts: dict[str, Mounted] = {}
        """What is mounted on each node."""

    # -- before set-up ------------------------------------------------------------

    @override
    def needs_cluster(self) -> bool:
        return self.options.address is None

    @override
    def only_here(self) -> str | None:
        return (
            f"target {self.name} starts servers on this machine" if self.needs_cluster() else None
        )

    def server_count(self, site: Site | None) -> int:
        """Return the number of servers."""
        found = self.site_server(site)
        return self.options.servers or (found.count if found is not None else 1)

    def server_node(self, number: int) -> str:
        """Return the name of the node that server `number` runs on."""
        return f"{self.options.server or self.name}-{number}"

    @override
    def nodes_wanted(self, site: Site | None) -> tuple[NodeSettings, ...]:
        if not self.needs_cluster():
            return ()
        found = self.site_server(site)
        if found is not None and found.upstream is not None:
            raise HeadraceError(
                f"target {self.name}: a server with an upstream ({found.upstream!r}) is simulated "
                "only",
                hint='headrace simulate STUDY; an XCache is measured with kind = "xrootd" and '
                "cache = { … }",
            )
        return tuple(
            NodeSettings(
                name=self.server_node(number),
                link=link_settings(found.link if found else None, site.node.link if site else None),
                cpus=processors(found.cores if found else None, number),
                memory_bytes=found.memory if found else None,
            )
            for number in range(self.server_count(site))
        )

    def export(self) -> Export:
        """Return what its servers store on."""
        return self.options.export

    @override
    def check(self, forced_devices: frozenset[str]) -> list[Problem]:
        needed_by = f"target {self.name}"
        if not self.needs_cluster():
            return []
        problems: list[Problem] = []
        if missing := clusters.why_not(
            "name a server that is there already (address); headrace simulate needs no root"
        ):
            problems.append(Problem(missing[0], needed_by, missing[1]))
        for kind in self.server_kinds:
            problems += kind.check(needed_by)
        if not problems:
            if medium := self._medium(self.export(), 0):
                problems += medium.check(forced_devices)
            elif (directory := self.export().directory) is not None and not Path(
                directory
            ).is_dir():
                problems.append(
                    Problem(
                        f"the directory {directory} is missing",
                        needed_by,
                        f"mkdir -p {as_word(directory)}",
                    )
                )
        return problems

    @override
    def unsupported(self) -> str | None:
        medium = self._medium(self.export(), 0) if self.needs_cluster() else None
        return medium.unsupported() if medium is not None else None

    @override
    def free_bytes(self) -> int | None:
        if not self.needs_cluster():
            return None
        export = self.export()
        if export.directory is not None:
            return free_bytes(Path(export.directory)) if Path(export.directory).is_dir() else None
        medium = self._medium(export, 0)
        return medium.free_bytes() if medium is not None else None

    # -- set-up and tear-down ------------------------------------------------------------

    @override
    def prepare(self, context: TargetContext) -> Location:
        try:
            location = dataclasses.replace(
                self.bring_up(context), ended_clients=self._ended_clients
            )
            emulated = tuple(device for medium in self._media for device in medium.emulated)
            if not emulated:
                return location
            return dataclasses.replace(location, provenance="emulated", emulated=emulated)
        except OSError as error:
            self.release(context)
            raise HeadraceError(
                f"target {self.name}: {error.filename or ''}: {error.strerror or error}"
            ) from error
        except BaseException:
            self.release(context)
            raise

    @abstractmethod
    def bring_up(self, context: TargetContext) -> Location:
        """Set up media, servers and clients, in this order; pass the reverse of each step to
        `later`. Raises HeadraceError."""

    def later(self, step: Callable[[], None]) -> None:
        """Register a tear-down step for something that was just set up."""
        self._steps.append(step)

    @override
    def release(self, context: TargetContext) -> None:
        failures: list[str] = []
        self._mounts.clear()
        while self._steps:
            try:
                self._steps.pop()()
            except HeadraceError as error:
                failures.append(error.message)
            # Continue: the servers and media below it must still be taken down.
            except Exception as error:
                failures.append(f"{type(error).__name__}: {error}")
        self._media.clear()
        self.servers.clear()
        if failures:
            raise HeadraceError(
                f"target {self.name} could not be restored: {'; '.join(failures)}",
                hint="headrace undo",
            )

    @override
    def apply(self, options: Any, context: TargetContext) -> list[Setting]:
        return []

    # -- for subclasses ------------------------------------------------------------

    def cluster(self, context: TargetContext) -> Cluster:
        """Return the nodes and links."""
        if context.cluster is None:
            raise RuntimeError(f"target {self.name} needs a cluster, and the engine has built none")
        return context.cluster

    def clients(self, context: TargetContext) -> list[Node]:
        """Return the nodes that run jobs."""
        return [self.cluster(context)[name] for name in context.client_nodes]

    def mounted(self, node: str, mount: Mounted) -> None:
        """Register a mount on a node (`here`: on this machine), to be unmounted with the target."""
        self._mounts[node] = mount
        self.later(mount.unmount)

    def _ended_clients(self) -> str:
        ends = {node: mount.ended() for node, mount in self._mounts.items()}
        where = {node: "this machine" if node == "here" else node for node in ends}
        return "; ".join(f"the client on {where[node]} {how}" for node, how in ends.items() if how)

    def started(self, server: Server, context: TargetContext, storage: Path) -> Server:
        """Start a server and wait until it is ready."""
        self.launched(server, context, storage)
        server.wait_ready(READY_S)
        return server

    def launched(self, server: Server, context: TargetContext, storage: Path) -> Server:
        """Start a server without waiting: others can start meanwhile."""
        # A new name avoids leftovers of an earlier server.
        place = context.work_dir / f"server-{os.urandom(3).hex()}"
        self.servers[server.name] = server
        self.later(lambda: shutil.rmtree(place, ignore_errors=True))
        self.later(server.stop)
        server.start(ServerContext(context.journal, place, place / "logs", storage))
        return server

    def storage(self, context: TargetContext, number: int = 0) -> Path:
        """Return a directory for server `number` to store in, on the medium of the options; removed
        with the target."""
        export = self.export()
        medium = self._medium(export, number)
        if medium is not None:
            here = dataclasses.replace(context, agents=())  # not a client's storage
            self.later(lambda: medium.release(here))
            location = medium.prepare(here)
            unset = [
                setting for setting in medium.apply(medium.options, here) if not setting.applied
            ]
            if unset:
                raise HeadraceError(
                    f"target {self.name}: {unset[0].name} = {unset[0].asked}: {unset[0].reason}"
                )
            self._media.append(location)
            directory = location.directory
            if directory is None:
                raise RuntimeError("a medium without a directory")
        else:
            parent = (
                Path(export.directory).expanduser().absolute()
                if export.directory
                else context.work_dir
            )
            directory, entry = work_directory(context.journal, parent)
            self.later(lambda: _undone(context, entry))
        inside = directory / "export"
        inside.mkdir()
        return inside

    def mount_point(self, context: TargetContext, name: str) -> Path:
        """Return a new directory to mount something on."""
        path = context.work_dir.resolve() / f"mount-{name}-{os.urandom(4).hex()}"
        for entry in make_directories(context.journal, path):
            self.later(lambda entry=entry: _undone(context, entry))
        return path

    def media_facts(self, storages: list[Path]) -> tuple[tuple[str, ...], dict[str, object]]:
        """Return the devices that the servers store on, and facts of the media for the record."""
        found = [storage_of(storage) for storage in storages]
        devices = dict.fromkeys(name for each in found for name in each.device_names)
        return tuple(devices), {"exports": [each.as_dict() for each in found]}

    def _medium(self, export: Export, number: int) -> BlockTarget | None:
        """Return the medium as a `block` target; None if the servers store in a directory."""
        if export.directory is not None or all(
            given is None for given in (export.device, export.image, export.drive, export.size)
        ):
            return None
        given: dict[str, object] = {
            "filesystem": export.filesystem,
            "mount": export.mount or None,
            "device": export.device,
            "drive": export.drive,
            "size": export.size,
            "scheduler": export.scheduler,
            "queue_depth": export.queue_depth,
            "read_ahead": export.read_ahead,
        }
        if export.image is not None:
            image = Path(export.image)
            given["image"] = str(image.with_stem(f"{image.stem}-{number}") if number else image)
        elif export.device is None and export.drive is None:
            given["image"] = str(self._private_image(number))
        if export.raid is not None:
            raid = export.raid
            given["raid"] = raid.model_dump(exclude_none=True)
        written = {key: value for key, value in given.items() if value is not None}
        options = made_of(BlockOptions, written, f"target {self.name}: export")
        return BlockTarget(f"{self.name} (export {number})", options)

    def _private_image(self, number: int) -> Path:
        import tempfile

        return Path(tempfile.gettempdir()) / f"headrace-{os.getpid()}-{self.name}-{number}.img"


def _undone(context: TargetContext, entry: Any) -> None:
    result = context.journal.undo(entry)
    if not result.done:
        raise HeadraceError(result.text)
