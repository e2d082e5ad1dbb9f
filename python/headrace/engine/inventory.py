"""The hardware of a cell: nodes, servers and drives, from the study or from the devices in use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from headrace import targets as target_package
from headrace.catalog.write_cache import stated_cache
from headrace.errors import HeadraceError
from headrace.raid import drives_of_data
from headrace.records.inventory import Inventory, InventoryItem, StatedPower
from headrace.site import Site, SiteDrive, SiteServer
from headrace.study.resolve import Resolved
from headrace.system import devices, nvme
from headrace.targets import ModelledStorage, Target
from headrace.targets.node_storage import NodeDisk
from headrace.targets.service import ServiceTarget

if TYPE_CHECKING:
    from headrace.engine.measure.prepared_target import PreparedTarget

NODE = "node"
DEFAULT_NODE = "generic-node"
DEFAULT_SERVER = "generic-server"


def modelled_inventory(target_name: str, resolved: Resolved, nodes: int) -> Inventory:
    """Return the hardware of a simulated cell; empty for a target without a model.

    `nodes`: number of nodes that run jobs.
    """
    target = target_package.kinds()[resolved.target_kind](target_name, resolved.target_options)
    try:
        stored = target.model(resolved.site)
    except HeadraceError:
        return ()
    site = resolved.site
    named = None if site is None else site.node.machine
    items = [_machine(NODE, named, DEFAULT_NODE, nodes)]
    copies = target.stored_per_byte()
    holds = stored.place.get("volume")
    for volume in stored.node_volumes:
        on_service = holds is None and _serves(stored, str(volume["name"]))
        items += _drives(NODE, nodes, volume, copies if on_service or holds else None)
    taken = {stored.site_drive, *(str(volume["name"]) for volume in stored.node_volumes)}
    items += _further_drives(site, nodes, taken)
    others, described = _site_servers(target, site)
    for server in stored.servers:
        other = others.get(str(server["name"]))
        items += _server(server, other or described, None if other else copies)
    return tuple(items)


def volumes_of(target_name: str, resolved: Resolved) -> frozenset[tuple[str, str]]:
    """Return (host, volume) of every volume that a simulated target stores on: the devices of its
    record. Other drives of nodes and of servers are not among them."""
    kind = target_package.kinds()[resolved.target_kind]
    stored = kind(target_name, resolved.target_options).model(resolved.site)
    if (volume := stored.place.get("volume")) is not None:
        return frozenset({(NODE, volume)})
    on_servers = {
        (str(server["name"]), str(volume["name"]))
        for server in stored.servers
        for volume in server.get("volumes", ())
    }
    on_nodes = {
        (NODE, str(volume["name"]))
        for volume in stored.node_volumes
        if _serves(stored, str(volume["name"]))
    }
    return frozenset(on_servers | on_nodes)


def _site_servers(
    target: Target, site: Site | None
) -> tuple[dict[str, SiteServer], SiteServer | None]:
    """Return the site's servers that store no data, by host (those that pass data on, and that of
    the metadata), and the one that stores the data."""
    if site is None or not isinstance(target, ServiceTarget):
        return {}, None
    names, metadata = target.site_fronts(site), target.metadata_server()
    without_data = (*names, metadata) if metadata is not None else names
    others = {f"{target.name}-{name}": site.server[name] for name in without_data}
    described = target.site_server(site)
    return others, site.server[site.upstreams(names[0])[-1]] if names else described


def measured_inventory(target_name: str, resolved: Resolved, prepared: PreparedTarget) -> Inventory:
    """Return the hardware of a measured cell; a node is named by its processor if by nothing else.

    Emulated drives are the drives that they stand for; others are named by what the device reports.
    """
    nodes, location = len(prepared.nodes.agents), prepared.location
    if location.provenance == "emulated":
        found = modelled_inventory(target_name, resolved, nodes)
        if found:
            return found
    named = None if resolved.site is None else resolved.site.node.machine
    node = InventoryItem(
        part="node",
        name=named or str(prepared.environment.get("cpu_model") or ""),
        host=NODE,
        count=nodes,
        source="study" if named else "device",
    )
    if location.elsewhere:
        return (node, *_disks_elsewhere(location.disks))
    return (node, *_devices(location.device_names))


def _machine(host: str, named: str | None, default: str, count: int) -> InventoryItem:
    return InventoryItem(
        part="node" if host == NODE else "server",
        name=named or default,
        host=host,
        count=count,
        source="study" if named else "default",
    )


def _server(
    server: Mapping[str, Any], described: SiteServer | None, copies: float | None
) -> Iterable[InventoryItem]:
    host, count = str(server["name"]), int(server.get("count", 1))
    named = None if described is None else described.machine
    yield _machine(host, named, DEFAULT_SERVER, count)
    for volume in server.get("volumes", ()):
        yield from _drives(host, count, volume, copies)


def _serves(stored: ModelledStorage, volume: str) -> bool:
    """Return whether a service stores on this volume of the nodes."""
    return any(
        target.get("host") == NODE and target.get("volume") == volume
        for service in stored.services
        for target in service["targets"]
    )


def _drives(
    host: str, hosts: int, volume: Mapping[str, Any], copies: float | None
) -> Iterable[InventoryItem]:
    """Return the drives of a volume. `copies`: bytes stored per byte of data; None: no data set is
    on them."""
    storage = volume.get("storage")
    if storage is None:  # an array of which only rates are known
        return
    raid = storage.get("raid")
    drives = int(raid["drives"]) if raid else 1
    level = None if raid is None else int(raid["level"])
    for drive in storage["drives"][:1]:
        size = int(drive["capacity_bytes"])
        usable = None if copies is None else hosts * drives_of_data(level, drives) * size / copies
        yield InventoryItem(
            part="drive",
            name=str(drive["name"]),
            host=host,
            count=hosts * drives,
            usable_bytes=usable,
            size_bytes=size,
            raid_level=level,
        )


def _further_drives(
    site: Site | None, nodes: int, taken: set[str | None]
) -> Iterable[InventoryItem]:
    """Return the drives that nodes have besides the target's."""
    if site is None:
        return
    for name, drive in site.node.drives.items():
        if name in taken:
            continue
        several = drive if isinstance(drive, SiteDrive) else None
        yield InventoryItem(
            part="drive",
            name=stated_cache(several.drive if several else str(drive))[0],
            host=NODE,
            count=nodes * (several.count if several else 1),
            raid_level=several.raid if several else None,
        )


def _disks_elsewhere(disks: Iterable[NodeDisk]) -> Iterable[InventoryItem]:
    """Return the disks of nodes that are other machines, equal ones together."""
    for (model, size), count in Counter((disk.model, disk.size_bytes) for disk in disks).items():
        yield InventoryItem(
            part="drive", name=model, host=NODE, count=count, size_bytes=size, source="device"
        )


def _devices(names: Iterable[str]) -> Iterable[InventoryItem]:
    """Return the disks below these block devices, equal ones together."""
    disks = dict.fromkeys(disk for name in names for disk in devices.whole_disks(name))
    found: dict[tuple[str, int], list[str]] = {}
    for disk in disks:
        described = devices.describe(disk)
        found.setdefault((described.model, described.size_bytes), []).append(disk)
    for (model, size), equal in found.items():
        yield InventoryItem(
            part="drive",
            name=model,
            host=NODE,
            count=len(equal),
            size_bytes=size,
            source="device",
            power_states=stated_power(equal[0]),
        )


def stated_power(disk: str) -> tuple[StatedPower, ...]:
    """Return the power states of an NVMe disk; none of other disks, or without root."""
    return tuple(
        StatedPower(
            state=each.number,
            max_w=each.max_w,
            operational=each.operational,
            idle_w=each.idle_w,
            active_w=each.active_w,
        )
        for each in nvme.states_of_disk(disk)
    )
