"""What the joules of a trial are of (boundary) and where they come from (source), in words."""

from __future__ import annotations

import msgspec

from headrace.records.energy import Energy

_NAMES = {"nodes": "nodes", "servers": "servers", "drives": "drives", "switch": "switches"}


class EnergyBasis(msgspec.Struct, frozen=True):
    """Boundary and source of the energy of a trial."""

    boundary: str
    """Of the whole: `whole site`, `whole site without switches`; empty if it is not known."""
    source: str
    """`nodes measured, drives modelled; PUE 1.5 stated`."""
    metered: str = ""
    """Boundaries of what meters covered."""
    switches: bool = False
    """Whether the energy of the whole has that of switches, alone or with a rack or facility."""


def basis_of(energy: Energy) -> EnergyBasis | None:
    """Return boundary and source of a trial's energy; None without any joule."""
    known = [name for name in _NAMES if getattr(energy, f"{name}_j")]
    if energy.total_j is None and energy.metered_j is None and not known:
        return None
    return EnergyBasis(
        _boundary(energy),
        _source(energy, known),
        ", ".join(energy.metered_boundaries),
        energy.total_j is not None and ("switch" in known or "switch" in energy.contained),
    )


def _boundary(energy: Energy) -> str:
    if energy.total_j is None:
        return ""
    if "facility" in energy.contained.values():
        return "facility"
    without = [_NAMES.get(name, name) for name in energy.not_covered]
    whole = "whole site" if energy.pue is None else "whole site with cooling"
    return whole + (f" without {', '.join(without)}" if without else "")


def _source(energy: Energy, known: list[str]) -> str:
    parts: dict[str, list[str]] = {}
    for name in known:
        source = energy.part_provenance.get(name, energy.provenance)
        twice = name in energy.contained
        parts.setdefault(source, []).append(_NAMES[name] + (" (within)" if twice else ""))
    said = [f"{_listed(names)} {source}" for source, names in parts.items()]
    for whole in ("rack", "facility"):
        if whole in energy.contained.values():
            said.insert(0, f"{whole} measured")
    texts = [", ".join(said) or energy.provenance]
    if energy.pue is not None and energy.total_j is not None:
        texts.append(f"PUE {energy.pue:g} stated")
    texts += [f"{name} assumed" for name in energy.assumed]
    return "; ".join(texts)


def _listed(names: list[str]) -> str:
    return " and ".join([part for part in (", ".join(names[:-1]), names[-1]) if part])
