"""Price, capacity, power, wear and failures of a configuration, from its inventory and offers."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from headrace.catalog import entry, names
from headrace.decision.bill import PricedPart, bill, lacking, offer_of, without_switches
from headrace.decision.offers import DriveOffer, MachineOffer, Offers
from headrace.decision.power import PowerModel
from headrace.decision.rebuild import (
    HOURS_PER_YEAR,
    fails_meanwhile,
    group_of,
    losses_per_year,
    rate_per_year,
)
from headrace.raid import drives_of_data
from headrace.records.inventory import Inventory, InventoryItem, idle_power_w

PERFORMANCE = {
    "price_per_mb_per_s": ("asked_bytes_per_s", 1e6),
    "price_per_event_per_s": ("events_per_s", 1.0),
    "price_per_throughput": ("throughput_jobs", 1.0),
}
"""Quantity -> metric that the price is divided by, and its unit. Throughput is the sum of the job
efficiencies, as in table 4 of worker-node-ssd."""


_Part = Literal["node", "server", "drive"]
_PARTS: tuple[_Part, ...] = ("node", "server", "drive")

_COUNTED = {
    "asked_bytes_per_s": "bytes requested",
    "events_per_s": "events",
    "throughput_jobs": "job efficiency",
}


@dataclass(frozen=True)
class Activity:
    """What the jobs of a configuration do to its hardware, while they run."""

    power_w: float | None
    """Mean power of the whole site."""
    written_bytes_per_s: float | None
    """Bytes that reach the target's devices, at least those that jobs write."""
    events_per_s: float | None = None
    requested_bytes_per_s: float | None = None
    """Bytes that jobs request."""
    throughput_jobs: float | None = None
    """Sum of the job efficiencies: how many jobs' worth of CPU are delivered."""
    of_facility: bool = False
    """Whether the power has the overhead of the facility: [site] states it, or it was metered."""
    write_amplification: float | None = None
    """Bytes that flash wrote per byte written to it; None where the records do not say."""
    with_switches: bool = False
    """Whether the power has that of switches: [site] names them, or a meter covers them."""
    has_switches: bool = False
    """Whether the records count switches of their own: [site] names them, or they have a meter."""
    idle_w: float | None = None
    """Idle power by the records, of what `power_w` is of."""
    held_in_memory: bool = False
    """Whether some of the bytes written were still in memory when the jobs had ended."""


@dataclass(frozen=True)
class Costs:
    """Numbers of a configuration that follow from its parts. None: unknown, with the reason in
    `unknown`."""

    parts: tuple[PricedPart, ...]
    values: dict[str, float]
    """By name of the quantity (`wishes.Quantity.name`), without unknown ones."""
    unknown: dict[str, str] = field(default_factory=dict[str, str])
    """Why a quantity is unknown, by name."""
    assumptions: tuple[str, ...] = ()
    power: PowerModel | None = None
    """How the values that depend on the power of the records follow from it; None without any."""


def costs_of(inventory: Inventory, target: str, activity: Activity, offers: Offers) -> Costs:
    """Return what a configuration costs, holds, draws and wears out."""
    items, kept = _stated(inventory, target, offers)
    parts = bill(items, offers, has_switches=activity.has_switches)
    values: dict[str, float] = {}
    unknown: dict[str, str] = {}
    notes = [
        f"the {part}s that the offers state in [target.{target}] are not used where the records "
        f"name other {part}s that the offers or the catalog have"
        for part in kept
    ]

    def put(name: str, value: float | None, why: str) -> None:
        if value is None:
            unknown[name] = why
        else:
            values[name] = value

    missing = [part for part in parts if part.each is None]
    named = ", ".join(lacking(part, offers) for part in missing)
    priced = sum(part.total or 0.0 for part in parts)
    whole = bool(parts) and not missing
    put("price", priced if whole else None,
        f"no offer for {named}" if missing else "the records name no parts")  # fmt: skip
    if whole or activity.power_w is not None:
        of_power = activity.power_w is not None and not activity.with_switches
        notes += without_switches(items, parts, power_known=of_power)
    put("usable_bytes", _usable(items, target, offers, kept), _why_not_usable(items))
    put("rack_units", *_rack_units(parts, offers))
    power = _power(items, parts, activity, offers, put, notes)
    _wear(items, activity, offers, put, notes)
    _failures(items, offers, put)
    _years(offers, values, unknown)
    _per_performance(activity, values, unknown)
    return Costs(parts, values, unknown, tuple(dict.fromkeys(notes)), power)


def _stated(inventory: Inventory, target: str, offers: Offers) -> tuple[Inventory, Sequence[str]]:
    """Return the inventory with what the offers state of the target; and the kinds of parts
    (`node`, `server`, `drive`) that stay, since the records know others than those stated.

    One target may have had several drives: each configuration costs what those of its own records
    do.
    """
    given = offers.target.get(target)
    if given is None:
        return inventory, ()
    stated: list[_Part] = [part for part in _PARTS if getattr(given, f"{part}s")]
    kept = [
        part
        for part in stated
        if _others_known(part, getattr(given, f"{part}s"), inventory, offers)
    ]
    replaced: list[_Part] = [part for part in stated if part not in kept]
    items = [item for item in inventory if item.part not in replaced]
    for part in replaced:
        for name, count in getattr(given, f"{part}s").items():
            holds = given.usable if part == "drive" else None
            items.append(
                InventoryItem(
                    part=part,
                    name=name,
                    host="node" if part == "drive" else part,
                    count=count,
                    usable_bytes=None if holds is None else float(holds),
                    size_bytes=_size(name, offers) if part == "drive" else None,
                )
            )
    return tuple(items), kept


def _others_known(part: str, stated: Collection[str], inventory: Inventory, offers: Offers) -> bool:
    """Return whether the inventory has other parts of this kind than those stated, each in the
    offers or a drive of the catalog.

    What is stated of parts that it has tells their number, and leaves out what is beside them, such
    as a system disk. A machine of the catalog may be what is assumed where a study names none.
    """
    found = {item.name for item in inventory if item.part == part}
    drives = names("drives") if part == "drive" else ()
    known = all(offer_of(part, name, offers) or name in drives for name in found)
    return bool(found) and known and found.isdisjoint(stated)


def _size(name: str, offers: Offers) -> int | None:
    offer = offers.drive.get(name)
    if offer is not None and offer.capacity is not None:
        return offer.capacity
    return int(entry("drives", name).table["capacity_bytes"]) if name in names("drives") else None


def _usable(items: Inventory, target: str, offers: Offers, kept: Sequence[str]) -> float | None:
    given = offers.target.get(target)
    if given is not None and given.usable is not None and "drive" not in kept:
        return float(given.usable)
    holding = [item for item in items if item.usable_bytes is not None]
    if not holding:
        return None
    return sum(item.usable_bytes or 0.0 for item in holding) * (1 - offers.filesystem_share)


def _why_not_usable(items: Inventory) -> str:
    """Return why the usable capacity is unknown."""
    drives = [item for item in items if item.part == "drive"]
    unnamed = [item.name for item in drives if item.size_bytes is None and item.name]
    if unnamed:
        return (
            f"drive {', '.join(dict.fromkeys(unnamed))} has no capacity, neither in the offers nor "
            "in the catalog"
        )
    if drives:
        return "the records do not say how many bytes of data the drives hold: [target.NAME] usable"
    return "no drive of known size stores data"


def _rack_units(parts: Sequence[PricedPart], offers: Offers) -> tuple[float | None, str]:
    """Return the rack units of all parts, None with the reason if they are not known. A drive
    without rack units of its own is in a machine."""
    offered = [(part, offer_of(part.what, part.name, offers)) for part in parts]
    if not any(offer is not None and offer.rack_units for _, offer in offered):
        return None, "no offer states rack units"
    missing = [part for part, offer in offered if offer is None and part.what != "drive"]
    if missing:
        return None, f"no offer for {', '.join(lacking(part, offers) for part in missing)}"
    return sum(offer.rack_units * part.count for part, offer in offered if offer is not None), ""


Put = Callable[[str, float | None, str], None]


def _power(
    items: Inventory,
    parts: Sequence[PricedPart],
    activity: Activity,
    offers: Offers,
    put: Put,
    notes: list[str],
) -> PowerModel | None:
    """Put power while jobs run, and energy, emissions and electricity per year; return how they
    follow from the power of the records, None where the records have none."""
    busy_w = activity.power_w
    if busy_w is None:
        busy_w = _offered_power(items, offers)
        if busy_w is not None:
            notes.append("power is what the offers state: the records have no energy")
    if busy_w is None:
        why = "the records have no energy, and the offers no power"
        for name in ("power_w", "energy_wh_per_year", "co2_g_per_year"):
            put(name, None, why)
        return None
    recorded_w = activity.idle_w if activity.power_w is not None else None
    model = _power_model(items, parts, activity, offers, recorded_w is not None, notes)
    values = model.values(
        np.array([busy_w]), None if recorded_w is None else np.array([recorded_w])
    )
    for name, value in values.items():
        put(name, float(value[0]), "")
    if "co2_g_per_year" not in values:
        put("co2_g_per_year", None, "[electricity] co2 is not given")
    return None if activity.power_w is None else model


def _power_model(
    items: Inventory,
    parts: Sequence[PricedPart],
    activity: Activity,
    offers: Offers,
    idle_recorded: bool,
    notes: list[str],
) -> PowerModel:
    """Return how power follows from what is stated, and note what is assumed."""
    switches_w = sum(
        part.count * offers.switch[part.name].power
        for part in parts
        if part.what == "switch" and part.name in offers.switch
    )
    if activity.with_switches and switches_w:
        notes.append("the power of the offered switches is not added: the records have switches")
        switches_w = 0.0
    pue = offers.pue or 1.0
    counted = 1.0 if activity.of_facility else pue
    if counted != pue:
        notes.append("the offers' PUE is not applied: the records have the facility's overhead")
    idle_w = idle_power_w(items)
    if not idle_recorded and idle_w is None and offers.busy < 1:
        notes.append("idle power is unknown: nodes are taken to draw the power of busy ones")
    return PowerModel(
        factor=counted,
        switches_w=switches_w * pue,
        idle_w=None if idle_w is None else (idle_w + switches_w) * pue,
        offers=offers,
    )


def _offered_power(items: Inventory, offers: Offers) -> float | None:
    machines = [item for item in items if item.part != "drive"]
    total = 0.0
    for item in machines:
        offer = offer_of(item.part, item.name, offers)
        if not isinstance(offer, MachineOffer) or offer.power is None:
            return None
        total += offer.power * item.count
    return total if machines else None


def _wear(items: Inventory, activity: Activity, offers: Offers, put: Put, notes: list[str]) -> None:
    """Years until the rated endurance of the drives is written."""
    holding = [item for item in items if item.part == "drive" and item.usable_bytes is not None]
    rate = activity.written_bytes_per_s
    offered = [offers.drive.get(item.name) for item in holding]
    endured = [offer.endurance for offer in offered if offer is not None and offer.endurance]
    if rate is None or not holding or len(endured) < len(holding):
        put("wear_years", None, "the offers state no endurance, or no bytes written were counted")
        return
    if rate == 0:
        put("wear_years", math.inf, "")
        return
    if activity.held_in_memory:
        notes.append(
            "bytes that jobs wrote count as written to the drives, also those still in memory when "
            "the jobs ended"
        )
    years = math.inf
    machines = {each.host: each.count for each in items if each.part != "drive"}
    total = sum(item.count for item in holding)
    source = "by the records"
    if activity.write_amplification is None:
        source = "as neither offers nor records state one"
    notes += [
        f"write amplification of drive {item.name}: {activity.write_amplification or 1:.3g}, "
        f"{source}"
        for item, offer in zip(holding, offered, strict=True)
        if offer is not None and offer.write_amplification is None
    ]
    for item, offer in zip(holding, offered, strict=True):
        if offer is None or offer.endurance is None:
            continue
        amplification = offer.write_amplification or activity.write_amplification or 1.0
        one = max(1, item.count // machines.get(item.host, 1))
        spread = one / drives_of_data(item.raid_level, one) if item.raid_level != 0 else 1.0
        per_drive = rate * spread * amplification / total
        written_per_year = per_drive * offers.busy * HOURS_PER_YEAR * 3600
        years = min(years, offer.endurance / written_per_year)
    put("wear_years", years, "")


def _failures(items: Inventory, offers: Offers, put: Put) -> None:
    drives = [item for item in items if item.part == "drive"]
    total = 0.0
    for item in drives:
        offer: DriveOffer | None = offers.drive.get(item.name)
        if offer is None or offer.failures_per_year is None:
            why = f"the offers state no failure rate of drive {item.name}"
            for name in ("drive_failures_per_year", "rebuild_failure", "losses_per_year"):
                put(name, None, why)
            return
        total += item.count * rate_per_year(offer.failures_per_year)
    put("drive_failures_per_year", total, "")
    _exposure(items, offers, put)


def _exposure(items: Inventory, offers: Offers, put: Put) -> None:
    """Probability that a further drive fails during a rebuild, and data losses per year, of the
    drives that store data; each must have a failure rate."""
    holding = [item for item in items if item.part == "drive" and item.usable_bytes]
    machines = {each.host: each.count for each in items if each.part != "drive"}
    losses, meanwhile = 0.0, list[float]()
    why = "" if holding else "no drive of known size stores data"
    for item in holding:
        offer = offers.drive[item.name]
        afr, size = offer.failures_per_year or 0.0, _size(item.name, offers) or item.size_bytes or 0
        hosts = machines.get(item.host, 1)
        one = max(1, item.count // hosts)
        group = group_of(item.raid_level, hosts, one, _copies(item, hosts, item.size_bytes or size))
        if group is None:
            why = "copies of redundant arrays and erasure coding are not modelled"
        elif group.fatal and offer.rebuild_rate is None:
            why = f"the offers state no rebuild_rate of drive {item.name}"
        else:
            hours = group.drives * size / (offer.rebuild_rate or math.inf) / 3600
            losses += losses_per_year(afr, group, hours)
            if group.fatal:
                meanwhile.append(fails_meanwhile(afr, group, hours))
    put("losses_per_year", None if why else losses, why)
    none = why or "nothing is rebuilt: the drives hold neither copies nor parity"
    put("rebuild_failure", None if why or not meanwhile else max(meanwhile), none)


def _copies(item: InventoryItem, hosts: int, size: int) -> float:
    """Return the bytes that drives of this size store per byte of data, before RAID."""
    one = max(1, item.count // hosts)
    raw = hosts * drives_of_data(item.raid_level, one) * size
    return round(raw / (item.usable_bytes or raw or 1), 6)


def copies_written(items: Inventory) -> float:
    """Return the bytes that all drives together are given per byte that jobs write, before RAID.

    1 for drives of this machine: a directory on a part of a drive is no copy.
    """
    machines = {each.host: each.count for each in items if each.part != "drive"}
    stated = [
        each
        for each in items
        if each.part == "drive" and each.source != "device" and each.usable_bytes
    ]
    copies = [
        _copies(each, machines.get(each.host, 1), each.size_bytes)
        for each in stated
        if each.size_bytes
    ]
    return max(1.0, *copies) if copies else 1.0


def _years(offers: Offers, values: dict[str, float], unknown: dict[str, str]) -> None:
    """Price with electricity over the years of use."""
    if "price" not in values:
        unknown["cost"] = unknown["price"]
    elif offers.electricity is None:
        unknown["cost"] = "[electricity] price is not given"
    elif "energy_wh_per_year" not in values:
        unknown["cost"] = unknown["energy_wh_per_year"]
    else:
        values["cost"] = values["price"] + values["electricity_per_year"] * offers.years


def _per_performance(activity: Activity, values: dict[str, float], unknown: dict[str, str]) -> None:
    """Price per usable TB, and per performance (`PERFORMANCE`)."""
    price = values.get("price")
    if price is None:
        unknown.update(dict.fromkeys(("price_per_usable_tb", *PERFORMANCE), unknown["price"]))
        return
    if usable := values.get("usable_bytes"):
        values["price_per_usable_tb"] = price / (usable / 1e12)
    else:
        why = unknown.get("usable_bytes", "no usable capacity")
        unknown["price_per_usable_tb"] = f"usable capacity is unknown: {why}"
    amounts = {
        "asked_bytes_per_s": activity.requested_bytes_per_s,
        "events_per_s": activity.events_per_s,
        "throughput_jobs": activity.throughput_jobs,
    }
    for name, (metric, unit) in PERFORMANCE.items():
        if amount := amounts[metric]:
            values[name] = price / (amount / unit)
        else:
            unknown[name] = f"its trials have no {_COUNTED[metric]}"
