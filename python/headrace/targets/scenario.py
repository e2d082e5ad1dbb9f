"""Targets: build the parts of a scenario in virtual time: volumes, drives, hosts and ports."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from headrace.catalog import entry
from headrace.errors import HeadraceError
from headrace.raid import drives_of_data, read_ahead_of_md
from headrace.scenario import (
    DriveSpec,
    HostSpec,
    Machine,
    RaidSpec,
    StorageSpec,
    Table,
    VolumeSpec,
)
from headrace.site import (
    PageReclaim,
    RaidTuning,
    ReadAheadRules,
    SiteDrive,
    SiteServer,
)
from headrace.targets.exports import FRESH
from headrace.targets.links import network_port
from headrace.units import format_amount, format_bytes

LEAST_BYTES = {"ext3": 3 << 20, "ext4": 33 << 20}
"""Least simulated size where it is more than 1 MiB: the tables of the first group, or of ext4's
first flex group, and some data."""
BITMAP_CHUNK_BYTES = 64 << 20
"""mdadm's smallest chunk of an internal bitmap, which it takes up to about 2^20 chunks."""


def volume(
    name: str, export: Any, target: str, read_ahead_default_bytes: int = 128 << 10
) -> VolumeSpec:
    """Return a volume of a scenario from options of `target` with `drive`, `raid`, `filesystem`,
    `scheduler`, `read_ahead`, `queue_depth`. Raises HeadraceError for a size that it cannot have.
    """
    drive = entry("drives", export.drive).table
    made: VolumeSpec = {
        "name": name,
        "filesystem": filesystem(export.filesystem or "ext4", export.mount),
    }
    raid = getattr(export, "raid", None)
    if export.drive is not None:
        _check_size(export, int(drive["capacity_bytes"]), target)
    if export.size is not None and export.drive is not None:
        made["size_bytes"] = export.size - export.size % 4096
    made["storage"] = storage(drive, raid)
    made["scheduler"] = export.scheduler or "noop"
    if raid is not None and raid.controller is None:
        of_md = read_ahead_of_md(raid.level, raid.drives, raid.chunk)
        read_ahead_default_bytes = max(read_ahead_default_bytes, of_md)
    made["read_ahead_bytes"] = (
        read_ahead_default_bytes if export.read_ahead is None else export.read_ahead
    )
    if export.queue_depth is not None:
        # The option counts per drive; md's queue holds the requests of all drives. A controller
        # has one queue.
        queues = 1 if raid is None or raid.controller is not None else raid.drives
        made["queue_depth"] = export.queue_depth * queues
    return made


def _check_size(export: Any, drive_bytes: int, target: str) -> None:
    """Raise HeadraceError for a size beyond the drives, or too small for the filesystem."""
    raid, kind = getattr(export, "raid", None), export.filesystem or "ext4"
    drives = 1 if raid is None else drives_of_data(raid.level, raid.drives)
    most = int(drives * drive_bytes)
    held = f"{export.drive} holds" if raid is None else "the drives hold"
    if export.size is None:
        _check_least(most, kind, f"target {target}: {held} {format_amount(most)}, which")
        return
    given = f"target {target}: size = {format_bytes(export.size)}"
    if export.size > most:
        raise HeadraceError(f"{given}, and {held} {format_amount(most)}", hint="a smaller size")
    _check_least(export.size, kind, given)


def _check_least(size: int, kind: str, what: str) -> None:
    """Raise HeadraceError if a filesystem, by kind or entry, cannot be simulated with `size`
    bytes."""
    least = LEAST_BYTES.get(str(filesystem(kind)["kind"]), 1 << 20)
    if size < least:
        raise HeadraceError(
            f"{what} is too small for {kind}", hint=f"{format_bytes(least)} at least"
        )


def storage(drive: DriveSpec, raid: Any | None = None) -> StorageSpec:
    """Return a drive, or a RAID of equal drives: `RaidTuning` with `level`, `drives`, `chunk`."""
    made: StorageSpec = {"drives": [drive]}
    if raid is not None:
        made["raid"] = raid_spec(raid.level, raid.drives, raid.chunk, raid)
    return made


def raid_spec(level: int, drives: int, chunk: int, tuning: RaidTuning) -> RaidSpec:
    """Return a RAID of a scenario."""
    made: RaidSpec = {"level": level, "drives": drives, "chunk_bytes": chunk}
    if tuning.stripe_cache is not None:
        made["stripe_cache_bytes"] = tuning.stripe_cache * 4096
    if tuning.bitmap == "internal":
        made["bitmap_chunk_bytes"] = tuning.bitmap_chunk or BITMAP_CHUNK_BYTES
    if tuning.controller is not None:
        controller: dict[str, object] = entry("controllers", tuning.controller).table.part()
        if tuning.cache is not None:
            controller["cache_bytes"] = tuning.cache
        if tuning.battery is not None:
            controller["battery"] = tuning.battery
        made["controller"] = controller
    return made


_MOUNT: dict[str, tuple[str, Any]] = {
    "strictatime": ("access_time", "strict"),
    "relatime": ("access_time", "relative"),
    "noatime": ("access_time", "never"),
    "barrier": ("barrier", True),
    "barrier=1": ("barrier", True),
    "barrier=0": ("barrier", False),
    "nobarrier": ("barrier", False),
    "discard": ("discard", True),
    "discard=sync": ("discard", True),
    "discard=async": ("discard", True),
    "nodiscard": ("discard", False),
}


def filesystem(name: str, mount: Sequence[str] = ()) -> Table:
    """Return a filesystem by its kind (fresh) or its catalog entry, with the mount options that the
    model knows: access times, barrier, commit, discard."""
    made: Table = {"kind": name} if name in FRESH else entry("filesystems", name).table.part()
    for option in mount:
        if option in _MOUNT:
            field, value = _MOUNT[option]
            made[field] = value
        elif option.startswith("commit=") and option[7:].isdigit() and int(option[7:]) > 0:
            made["commit_interval_ns"] = int(option[7:]) * 1_000_000_000
    return made


def keeps_data(mkfs: Sequence[str]) -> bool:
    """Return whether these options tell mkfs not to discard the device: `-K`, or `-E nodiscard` of
    ext3 and ext4."""
    extended = (after for option, after in pairwise(mkfs) if option == "-E")
    return "-K" in mkfs or any("nodiscard" in options.split(",") for options in extended)


def site_volume(name: str, drive: str | SiteDrive, kind: str = "ext4") -> VolumeSpec:
    """Return the volume of a drive (or of a RAID) that `[site]` gives a node or server. It is in
    use: no study formats it. Raises HeadraceError if it is too small for the filesystem `kind`."""
    drives = 1.0
    if isinstance(drive, str):
        stored = storage(entry("drives", drive).table)
    else:
        stored = storage(entry("drives", drive.drive).table)
        if drive.count > 1:
            chunk = drive.chunk or 64 << 10
            stored["raid"] = raid_spec(drive.raid or 0, drive.count, chunk, drive)
            drives = drives_of_data(drive.raid or 0, drive.count)
    size = int(drives * int(str(stored["drives"][0]["capacity_bytes"])))
    given = drive if isinstance(drive, str) else drive.drive
    _check_least(size, kind, f"[site]: {given} holds {format_amount(size)}, which")
    in_use = filesystem(kind) | {"discarded": False}
    return {"name": name, "filesystem": in_use, "storage": stored}


def host(
    name: str,
    machine: str | None,
    link: Any,
    count: int = 1,
    page_reclaim: PageReclaim | None = None,
    read_ahead: ReadAheadRules | None = None,
) -> HostSpec:
    """Return a host of a scenario from a machine of the catalog and a link.

    `page_reclaim` and `read_ahead` take the place of the machine's.
    """
    table: Machine = entry("nodes", machine or "generic-server").table.part()
    made: HostSpec = {"name": name, "count": count, **table, "network": network_port(link)}
    if page_reclaim is not None:
        made["page_reclaim"] = page_reclaim
    if read_ahead is not None:
        made["read_ahead"] = read_ahead
    return made


def site_server(name: str, server: SiteServer) -> HostSpec:
    """Return the host that a `[site.server.NAME]` describes, without its drives."""
    return host(
        name,
        server.machine,
        server.link,
        server.count,
        server.page_reclaim,
        server.read_ahead_rules,
    )
