"""Targets: base of file services, and their model in virtual time: servers, volumes, services, and
servers before other ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from headrace.catalog import entry
from headrace.errors import HeadraceError
from headrace.scenario import CacheTuning, DataServer, HostSpec, ServiceSpec, Table, VolumeSpec
from headrace.site import Site, SiteDrive, SiteServer
from headrace.targets import ModelledStorage, Target
from headrace.targets.exports import Bricks, Export
from headrace.targets.scenario import filesystem, host, site_server, site_volume, volume


class ServiceTarget(Target):
    """A file service with `ServedOptions`. `model` calls `served` or `on_bricks`."""

    service_kind: ClassVar[str]
    """The simulator's name of the service."""

    def site_server(self, site: Site | None) -> SiteServer | None:
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

    def software(self) -> tuple[str, Table, Table | None, Table | None]:
        """Return (service kind, tuning, ideal storage, cost of a virtual machine) of the catalog
        entry, overridden by the options."""
        name = self.options.software
        if name is None:
            return self.service_kind, dict(self.options.tuning), None, None
        table = entry("servers", name).table
        return table.kind, {**table.tuning, **self.options.tuning}, table.storage, table.virtual

    def served(
        self, site: Site | None, export: Export, tuning: Mapping[str, object]
    ) -> ModelledStorage:
        """Return the site's servers with one volume each, and the service on top of them. Servers
        with an upstream are before those that store the data."""
        fronts = self.site_fronts(site)
        found = self.site_server(site)
        if site is not None and fronts:
            found = site.server[site.upstreams(fronts[0])[-1]]
        kind, base, storage, virtual = self.software()
        count = self.options.servers or (found.count if found is not None else 1)
        server_name = f"{self.name}-server"
        made = site_server(server_name, found) if found else host(server_name, None, None)
        made["count"] = count
        made["volumes"] = [self._volume(export, storage, self._drive_of_server(site, found))]
        if self.options.virtual or (found is not None and found.virtual):
            made["virtualisation"] = virtual or {}
        stored = self.with_service(kind, {**base, **tuning}, server_name, (made,), ())
        stored = self._with_metadata(stored, site)
        for name in reversed(fronts):
            stored = self._behind(stored, name, site, virtual)
        return stored

    def site_fronts(self, site: Site | None) -> tuple[str, ...]:
        """Return the names of the servers that pass the data on, in the order in which jobs reach
        them: those with an upstream."""
        found = self.site_server(site)
        if site is None or found is None:
            return ()
        name = next(name for name, server in site.server.items() if server is found)
        return site.upstreams(name)[:-1]

    def _behind(
        self, stored: ModelledStorage, name: str, site: Site | None, virtual: Table | None
    ) -> ModelledStorage:
        """Put the server `name` of the site before a modelled storage."""
        if site is None:
            return stored
        server = site.server[name]
        front = site_server(f"{self.name}-{name}", server)
        front["volumes"] = [site_volume(drive, each) for drive, each in server.drives.items()]
        if server.virtual:
            front["virtualisation"] = virtual or {}
        return self.put_before(stored, front)

    def metadata_server(self) -> str | None:
        """Return the name of the [site.server.NAME] that holds the metadata, if the options name
        one."""
        return None

    def _with_metadata(self, stored: ModelledStorage, site: Site | None) -> ModelledStorage:
        """Put the metadata of a modelled storage on the server of the site that the options
        name."""
        name = self.metadata_server()
        if name is None:
            return stored
        if site is None or name not in site.server:
            known = ", ".join(site.server) if site is not None else ""
            raise HeadraceError(
                f"target {self.name}: metadata_server: there is no [site.server.{name}]"
                + (f"; there are: {known}" if known else "")
            )
        server = site.server[name]
        if not server.drives:
            raise HeadraceError(
                f"target {self.name}: metadata_server: what does {name} store on?",
                hint=f"[site.server.{name}] drives = {{ metadata = … }}",
            )
        made = site_server(f"{self.name}-{name}", server)
        made["volumes"] = [site_volume(drive, each) for drive, each in server.drives.items()]
        first = made["volumes"][0]["name"]
        services = tuple(
            {**each, "metadata": {"host": made["name"], "volume": first}}
            if each["name"] == self.name
            else each
            for each in stored.services
        )
        return dataclasses.replace(stored, servers=(*stored.servers, made), services=services)

    def cache_tuning(self) -> CacheTuning:
        """Return what the options say of a cache on a front server's drive."""
        return {}

    def put_before(self, stored: ModelledStorage, front: HostSpec) -> ModelledStorage:
        """Put a server before a modelled storage. It passes the data on, and keeps them on its
        first volume if it has one."""
        service = next(each for each in stored.services if each["name"] == self.name)
        behind: ServiceSpec = {**service, "name": f"{front['name']}-upstream"}
        target: DataServer = {"host": front["name"], "upstream": behind["name"]}
        if volumes := front.get("volumes"):
            target["cache"] = {"volume": volumes[0]["name"], **self.cache_tuning()}
        tuning = {key: value for key, value in service["tuning"].items() if key != "replicas"}
        before: ServiceSpec = {**service, "targets": [target], "tuning": tuning}
        others = tuple(each for each in stored.services if each["name"] != self.name)
        return dataclasses.replace(
            stored, servers=(front, *stored.servers), services=(before, behind, *others)
        )

    def _drive_of_server(
        self, site: Site | None, server: SiteServer | None
    ) -> str | SiteDrive | None:
        """Return the first drive that `[site]` gives a server; None if it holds metadata."""
        name = self.metadata_server()
        if server is None or (site is not None and name and site.server.get(name) is server):
            return None
        return next(iter(server.drives.values()), None)

    def _volume(
        self, export: Export, storage: Table | None, own: str | SiteDrive | None
    ) -> VolumeSpec:
        """Return what the data are on: what the export says, else the server's own drive, else the
        storage of the software's catalog entry."""
        if export.drive is not None:
            return volume("data", export, self.name)
        made: VolumeSpec
        if own is not None:
            made = site_volume("data", own, export.filesystem)
        elif storage is not None:
            kept = filesystem(export.filesystem)
            made = {"name": "data", "ideal": storage, "filesystem": kept}
        else:
            raise HeadraceError(
                f"target {self.name}: what does it store on? give export = {{ drive = … }}, drives "
                "of the server in [site], or software with storage of its own"
            )
        if export.read_ahead is not None:
            made["read_ahead_bytes"] = export.read_ahead
        return made

    def on_bricks(
        self, site: Site | None, bricks: Bricks, tuning: Mapping[str, object]
    ) -> ModelledStorage:
        """Return bricks on the compute nodes, or on servers."""
        if bricks.on != "node":
            named = type(self)(self.name, self.options.model_copy(update={"server": bricks.on}))
            return named.served(site, bricks, tuning)
        kind, base, _, _ = self.software()
        if bricks.drive is None:
            raise HeadraceError(f"target {self.name}: bricks on the nodes need a drive")
        brick = volume(f"{self.name}-brick", bricks, self.name)
        return self.with_service(kind, {**base, **tuning}, "node", (), (brick,))

    def with_service(
        self,
        kind: str,
        tuning: Table,
        host_name: str,
        servers: tuple[HostSpec, ...],
        node_volumes: tuple[VolumeSpec, ...],
    ) -> ModelledStorage:
        """Return a file service on top of volumes."""
        held = [*(servers[0].get("volumes", []) if servers else node_volumes)]
        service: ServiceSpec = {
            "name": self.name,
            "kind": kind,
            "targets": [{"host": host_name, "volume": held[0]["name"]}],
            "tuning": tuning,
        }
        return ModelledStorage(
            place={"service": self.name},
            node_volumes=node_volumes,
            servers=servers,
            services=(service,),
            description={"service": kind, "tuning": tuning},
        )
