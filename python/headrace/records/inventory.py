"""The hardware of a trial: what would have to be bought to have it once more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from headrace.catalog import entry, names


class StatedPower(msgspec.Struct, kw_only=True, frozen=True):
    """A power state of an NVMe drive. The drive's maker states it: nothing of it is measured."""

    state: int
    max_w: float | None = None
    """The most power in this state. None is what the drive leaves out."""
    operational: bool = True
    """Whether the drive serves requests in it."""
    idle_w: float | None = None
    active_w: float | None = None
    provenance: Literal["stated"] = "stated"


class InventoryItem(msgspec.Struct, kw_only=True, frozen=True):
    """Equal machines, or equal drives in equal machines. One entry of `inventory` in trial.json."""

    part: Literal["node", "server", "drive"]
    name: str
    """Name in the catalog, or the model that the device reports; empty if unknown."""
    host: str
    """`node`, or the name of the server: what it is, or where the drive is."""
    count: int
    """Number of machines; of drives: in all these machines together."""
    usable_bytes: float | None = None
    """Drives that store data sets: bytes of data that all of them hold together, after RAID and
    copies, before the filesystem's own share. None for other items, and if unknown."""
    size_bytes: int | None = None
    """Of one drive."""
    raid_level: int | None = None
    source: Literal["study", "default", "device"] = "study"
    """Where the name is from: the study, the default of a study that names none, or the device."""
    power_states: tuple[StatedPower, ...] = ()
    """Of an NVMe drive of this machine, if it could be asked (root); for information only."""


Inventory = tuple[InventoryItem, ...]


def idle_power_w(items: Iterable[InventoryItem]) -> float | None:
    """Return the idle power of these items together by the catalog; None if it lacks one of them,
    and without any item."""
    total_w, count = 0.0, 0
    for item in items:
        shelf = "drives" if item.part == "drive" else "nodes"
        if item.name not in names(shelf):
            return None
        table = entry(shelf, item.name).table
        power_w = table.get("power", {}).get("idle_w") if shelf == "drives" else table.power.idle_w
        if power_w is None:
            return None
        total_w, count = total_w + item.count * float(power_w), count + item.count
    return total_w if count else None
