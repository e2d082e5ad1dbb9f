"""What both engines add to the energy of a trial: idle energy, what the study states, by part."""

from __future__ import annotations

import math
from dataclasses import replace

from headrace.catalog import entry
from headrace.records.energy import Energy
from headrace.records.inventory import Inventory, InventoryItem, idle_power_w
from headrace.site import Site

_PARTS = {"node": "nodes", "server": "servers", "drive": "drives"}


def switch_power_w(site: Site | None) -> float | None:
    """Return the power of the site's switches; None if the study names none."""
    described = None if site is None else site.switch
    if described is None:
        return None
    if isinstance(described, str):
        return _of_catalog(described)
    if described.power is not None:
        return described.power * described.count
    return _of_catalog(described.switch or "") * described.count


def _of_catalog(name: str) -> float:
    return entry("switches", name).table.power_w


def completed(energy: Energy, site: Site | None, inventory: Inventory, duration_s: float) -> Energy:
    """Return the energy with its idle part and with what the study states of the electricity."""
    if energy == Energy():
        return energy
    used = {part for part in (*_PARTS.values(), "switch") if _joules(energy, part) is not None}
    return replace(
        energy,
        idle_j=_idle_j(energy, site, inventory, duration_s),
        pue=None if site is None else site.stated_pue,
        co2_g_per_kwh=None if site is None else site.co2,
        assumed=tuple(
            dict.fromkeys(
                f"{item.part} {item.name}"
                for item in inventory
                if item.source == "default"
                and _PARTS[item.part] in used
                and energy.part_provenance.get(_PARTS[item.part], "modelled") == "modelled"
            )
        ),
    )


def _joules(energy: Energy, part: str) -> float | None:
    return getattr(energy, f"{part}_j")


def _idle_j(
    energy: Energy, site: Site | None, inventory: Inventory, duration_s: float
) -> float | None:
    """Return what all parts of the total would have drawn idle; None if one is not known.

    A measured part has the idle power that its meter measured, a modelled one that of the catalog.
    """
    if energy.total_j is None:
        return None
    found_w = [_modelled_idle_w(energy, inventory)]
    if energy.switch_j is not None and energy.part_provenance.get("switch") != "measured":
        found_w.append(switch_power_w(site) or 0.0)
    if _any_measured(energy):
        found_w.append(energy.metered_idle_w if _all_metered(energy) else None)
    if any(each is None for each in found_w):
        return None
    factor = 1.0 if site is None or "facility" in energy.contained.values() else site.pue
    return factor * duration_s * sum(each for each in found_w if each is not None)


def _any_measured(energy: Energy) -> bool:
    return "measured" in energy.provenance


def _all_metered(energy: Energy) -> bool:
    """Return whether the idle power of the meters is that of exactly the measured parts."""
    measured = [
        _joules(energy, part) or 0.0
        for part, source in energy.part_provenance.items()
        if source == "measured" and part not in energy.contained
    ]
    if not measured:  # a meter of the rack or of the facility
        return True
    return math.isclose(sum(measured), energy.metered_j or 0.0, rel_tol=1e-9)


def _modelled_idle_w(energy: Energy, inventory: Inventory) -> float | None:
    """Return the idle power of the parts whose energy is modelled; None if one has no entry."""
    total_w = 0.0
    for part in _PARTS.values():
        source = energy.part_provenance.get(part, energy.provenance)
        if part in energy.contained or source != "modelled" or not _joules(energy, part):
            continue
        idle_w = idle_power_w(of_part(part, inventory))
        if idle_w is None:
            return None
        total_w += idle_w
    return total_w


def of_part(part: str, inventory: Inventory) -> list[InventoryItem]:
    """Return the items that are `nodes`, `servers` or `drives`."""
    return [item for item in inventory if _PARTS[item.part] == part]
