"""Target `nfs`: an NFS server (nfs-ganesha) of the study, or an existing one, and its clients.

Also simulated in virtual time. A filer with a hardware cache (BlueArc) is an entry of the catalog's
servers. The kernel's client mounts the export if available, otherwise a user-space client
(system/servers/nfs_fuse.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, model_validator
from typing_extensions import override

from headrace.errors import HeadraceError, Problem
from headrace.site import Site
from headrace.system.cluster import Node
from headrace.system.owned import try_writing
from headrace.system.servers import Server, nfs
from headrace.system.servers.nfs_fuse_settings import ClientSettings
from headrace.system.storage import storage_of
from headrace.targets import Location, ModelledStorage, TargetContext, TargetOptions
from headrace.targets.exports import Export, ServedOptions
from headrace.targets.served import ServedTarget
from headrace.units import MOST_THREADS, Bytes, Seconds


class NfsOptions(ServedOptions):
    """`[target.NAME]` with `kind = "nfs"`."""

    export: Export | str = Field(
        default_factory=lambda: Export.model_validate({}),
        description="what the server stores on; with `address`: the path that it exports",
    )
    version: Literal[3, 4] = Field(3, description="of the protocol; 4 is 4.1")
    client: Literal["auto", "kernel", "fuse"] = Field(
        "auto", description="the kernel's client where there is one, or the one in user space"
    )
    rsize: Bytes | None = Field(
        None, gt=0, description="largest read request (measured: 1 MiB when not given)"
    )
    wsize: Bytes | None = Field(
        None, gt=0, description="largest write request (measured: 1 MiB when not given)"
    )
    threads: int | None = Field(
        None, ge=1, le=MOST_THREADS, description="requests that the server works on at once"
    )
    client_read_ahead: Bytes | None = Field(None, description="read-ahead of the client")
    patience: Seconds | None = Field(
        None,
        gt=0,
        description=(
            "after which a request that the server does not answer fails; never when not "
            "given (hard)"
        ),
    )
    read_only: bool = Field(
        False, description="the export cannot be written to (to be seen that it is refused)"
    )

    @model_validator(mode="after")
    def _one_server(self) -> NfsOptions:
        if self.address is not None and not isinstance(self.export, str):
            raise ValueError(
                'with an address, export is the path that it exports: export = "/vol/data"'
            )
        if self.address is None and isinstance(self.export, str):
            raise ValueError("export is a path only with the address of a server that is there")
        return self


class Nfs(ServedTarget):
    """One NFS server."""

    kind = "nfs"
    label: ClassVar[str] = "NFS"
    Options: ClassVar[type[TargetOptions]] = NfsOptions
    service_kind = "nfs"
    server_kinds: ClassVar[tuple[type[Server], ...]] = (nfs.Ganesha,)

    @override
    def check(self, forced_devices: frozenset[str]) -> list[Problem]:
        problems = super().check(forced_devices)
        try:
            nfs.choose_client(self.options.client)
        except HeadraceError as error:
            problems.append(Problem(error.message, f"target {self.name}", error.hint or ""))
        return problems

    @override
    def server_count(self, site: Site | None) -> int:
        """Always one, whatever the site has."""
        return 1

    @override
    def export(self) -> Export:
        given = self.options.export
        return Export.model_validate({}) if isinstance(given, str) else given

    @override
    def bring_up(self, context: TargetContext) -> Location:
        options: NfsOptions = self.options
        if options.address is not None:
            return self._found(context, options.address, str(options.export))
        cluster = self.cluster(context)
        storage = self.storage(context)
        node = cluster[self.server_node(0)]
        settings = nfs.GaneshaSettings((options.version,), options.threads, options.read_only)
        server = self.started(nfs.Ganesha(node.name, node, settings), context, storage)
        # NFSv3 identifies an export by its path on the server, NFSv4 by its name in the server's
        # pseudo file system.
        export = nfs.EXPORTED_AS if options.version == 4 else str(storage)
        directories = tuple(
            self._mounted(context, client, node.address, export) for client in self.clients(context)
        )
        self._check_writable(context, directories[0])
        devices, media = self.media_facts([storage])
        return Location(
            directory=directories[0],
            node_directories=directories,
            device_names=devices,
            own_device=True,
            network=True,
            interfaces=cluster.interfaces,
            servers={server.name: server},
            cluster=cluster,
            description={
                **storage_of(directories[0]).as_dict(),
                **media,
                "server": {
                    "program": "nfs-ganesha",
                    "threads": options.threads,
                    "version": options.version,
                },
                "client": nfs.choose_client(options.client),
                "cluster": cluster.as_dict(),
            },
        )

    def _found(self, context: TargetContext, address: str, export: str) -> Location:
        """Mount an existing server on this machine, once."""
        directory = self._mounted(context, None, address, export)
        self._check_writable(context, directory)
        return Location(
            directory=directory,
            network=True,
            description={
                **storage_of(directory).as_dict(),
                "client": nfs.choose_client(self.options.client),
            },
        )

    def _mounted(
        self, context: TargetContext, node: Node | None, address: str, export: str
    ) -> Path:
        options: NfsOptions = self.options
        name = node.name if node is not None else "here"
        directory = self.mount_point(context, name)
        settings = ClientSettings(
            server=address,
            export=export,
            directory=str(directory),
            version=options.version,
            rsize_bytes=options.rsize or 1 << 20,
            wsize_bytes=options.wsize or 1 << 20,
            nfs_port=nfs.NFS_PORT if node is not None else None,
            mount_port=nfs.MOUNT_PORT if node is not None and options.version == 3 else None,
            patience_s=options.patience,
        )
        mount = nfs.mount_nfs(
            context.journal,
            node,
            settings,
            nfs.choose_client(options.client),
            context.work_dir / f"nfs-{name}.log",
            read_ahead_bytes=options.client_read_ahead,
        )
        self.mounted(name, mount)
        return directory

    def _check_writable(self, context: TargetContext, directory: Path) -> None:
        try:
            try_writing(context.journal, directory)
        except OSError as error:
            raise HeadraceError(
                f"target {self.name}: the export cannot be written to: {error.strerror}",
                hint=(
                    "export it read-write, to this machine, for this user (root squashing "
                    "keeps root out)"
                ),
            ) from error

    @override
    def model(self, site: Site | None) -> ModelledStorage:
        """One server that holds all files."""
        options: NfsOptions = self.options
        tuning: dict[str, object] = {}
        if options.rsize is not None:
            tuning["read_request_bytes"] = options.rsize
        if options.wsize is not None:
            tuning["write_request_bytes"] = options.wsize
        if options.threads is not None:
            tuning["server_threads"] = options.threads
        if options.client_read_ahead is not None:
            tuning["client_read_ahead"] = {"kind": "kernel", "bytes": options.client_read_ahead}
        return self.served(site, self.export(), tuning)
