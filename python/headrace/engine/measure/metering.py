"""Energy of a measured trial: what meters covered, and models of parts that none did.

A channel that lies within another is not added to it, and only one meter counts for a part. What a
meter of nodes or servers includes (their drives) is not added again; parts that have no meter can
be modelled from the catalog, and the record says so for each part.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from headrace.catalog import entry
from headrace.catalog.tables import MachinePower
from headrace.engine.site_energy import switch_power_w
from headrace.records.channels import (
    ChannelSum,
    added,
    metered_channels,
    one_meter_each,
    outer_channels,
)
from headrace.records.energy import ChannelEnergy, Energy, EnergyProvenance, PartEnergy
from headrace.study.resolve import Resolved


@dataclass(frozen=True)
class SiteOfTrial:
    """What must be covered for the energy of the whole site to be known."""

    duration_s: float
    nodes: tuple[str, ...] = ("node-1",)
    """Names of the nodes that ran jobs; this machine is node-1."""
    servers: tuple[str, ...] = ()
    """Names of the site's servers that served."""
    network: bool = False
    """Whether data passed a switch."""
    pue: float = 1.0
    node_power: MachinePower | None = None
    """Model of a node, from the catalog."""
    server_power: Mapping[str, MachinePower] = field(default_factory=dict[str, MachinePower])
    busy_core_s: float | None = None
    """CPU time that the nodes used, together."""
    switch_w: float | None = None
    """Power of the switches that the study names."""
    server_counts: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many servers a name stands for; one when not given."""

    @property
    def modelled(self) -> bool:
        """Whether the study names a machine or switch whose power the catalog has."""
        return self.node_power is not None or bool(self.server_power) or self.switch_w is not None


def site_of(
    resolved: Resolved,
    nodes: Sequence[str],
    servers: Iterable[str],
    network: bool,
    duration_s: float,
    busy_core_s: float | None,
    base: Path,
) -> SiteOfTrial:
    """Return what a trial's energy consists of, with the models that the catalog has."""
    site = resolved.site
    # Servers are numbered copies of what [site.server.NAME] describes.
    counts = Counter(re.sub(r"-[0-9]+$", "", name) for name in servers)
    used = tuple(counts)
    described = {} if site is None else site.server
    return SiteOfTrial(
        duration_s,
        tuple(nodes) or ("node-1",),
        used,
        network,
        1.0 if site is None else site.pue,
        None if site is None else _power(site.node.machine, base),
        {
            name: power
            for name in used
            if name in described and (power := _power(described[name].machine, base)) is not None
        },
        busy_core_s,
        switch_power_w(site),
        counts,
    )


def _power(machine: str | None, base: Path) -> MachinePower | None:
    return None if machine is None else entry("nodes", machine, base=base).table.power


def energy_of_site(
    drives: Energy, channels: Sequence[ChannelEnergy], failed: Mapping[str, str], site: SiteOfTrial
) -> Energy:
    """Return the energy of a trial from its channels, emulated drives and models.

    `drives` has the modelled energy of emulated drives, if there are any.
    """
    if not channels and not failed and not site.modelled:
        return drives
    outer = outer_channels(channels)
    parts = _Parts(drives, outer, site)
    return replace(
        parts.energy(), channels=tuple(channels), meters_failed=dict(failed), **_metered(outer)
    )


def _best(
    channels: Sequence[ChannelEnergy], boundary: str, names: Sequence[str]
) -> dict[str, list[ChannelEnergy]] | None:
    """Return which channels cover each of these names, one meter for each; None if any lacks one.

    Of several meters that cover the same, the one with the smallest uncertainty counts.
    """
    of_meter: dict[tuple[str, tuple[str, ...]], list[ChannelEnergy]] = {}
    for each in channels:
        if each.boundary == boundary and set(each.of) <= set(names):
            of_meter.setdefault((each.meter, each.of), []).append(each)
    sums = {key: made for key, each in of_meter.items() if (made := added(each)) is not None}
    whole = [key for key in sums if not key[1]]
    if whole:
        best = min(whole, key=lambda key: sums[key].relative)
        return {best[0]: list(sums[best].channels)}
    found: dict[str, list[ChannelEnergy]] = {}
    left = set(names)
    for key in sorted(sums, key=lambda key: (-len(key[1]), sums[key].relative)):
        if left and set(key[1]) <= left:
            found[f"{key[0]} {' '.join(key[1])}"] = list(sums[key].channels)
            left -= set(key[1])
    return found if found and not left else None


def _measured(
    channels: Sequence[ChannelEnergy], boundary: str, names: Sequence[str]
) -> ChannelSum | None:
    """Return the energy of everything with these names; None if a meter of one is missing."""
    covering = _best(channels, boundary, names)
    if covering is None:
        return None
    return added(channel for each in covering.values() for channel in each)


@dataclass
class _Parts:
    """Fills the parts of a site: measured where a meter covers one, modelled where a model can."""

    drives: Energy
    channels: Sequence[ChannelEnergy]
    site: SiteOfTrial

    def energy(self) -> Energy:
        for boundary, factor in (("facility", 1.0), ("rack", self.site.pue)):
            here = [each for each in self.channels if each.boundary == boundary]
            if (whole := added(one_meter_each(here))) is not None:
                return self._of_whole(whole, boundary, factor)
        return self._of_parts()

    def _of_whole(self, whole: ChannelSum, boundary: str, factor: float) -> Energy:
        """Return the energy of everything at once. An emulated drive is not in it."""
        drives_j = self.drives.drives_j
        total_j = factor * (whole.energy_j + (drives_j or 0.0))
        modelled = drives_j is not None or factor != 1.0
        contained = {"nodes": boundary, "servers": boundary, "switch": boundary}
        if drives_j is None:
            contained["drives"] = boundary
        return Energy(
            total_j=total_j,
            drives_j=drives_j,
            provenance="measured+modelled" if modelled else "measured",
            uncertainty_j=None if modelled else whole.uncertainty_j,
            part_provenance={} if drives_j is None else {"drives": "modelled"},
            contained=contained,
        )

    def _of_parts(self) -> Energy:
        site, found = self.site, dict[str, float]()
        sources: dict[str, EnergyProvenance] = {}
        contained: dict[str, str] = {}
        counted: list[ChannelEnergy] = []

        def put(part: str, measured: ChannelSum | None, modelled_j: float | None) -> None:
            if measured is not None:
                found[part], sources[part] = measured.energy_j, "measured"
                if part != "drives" or sources.get(host) != "measured":
                    counted.extend(measured.channels)
            elif modelled_j is not None:
                found[part], sources[part] = modelled_j, "modelled"

        servers = site.servers
        if site.network and not servers:  # servers that exist already: those that are metered
            here = (each for each in self.channels if each.boundary == "server")
            servers = tuple(dict.fromkeys(name for each in here for name in each.of))
        served = bool(site.servers) or site.network
        # The drives are in the machines that have them: servers, or else nodes.
        host = "servers" if served else "nodes"
        put("nodes", _measured(self.channels, "node", site.nodes), self._modelled_nodes_j())
        if served:
            measured = _measured(self.channels, "server", servers)
            put("servers", measured, self._modelled_servers_j())
        put("drives", _measured(self.channels, "device", ("drives",)), self.drives.drives_j)
        if "drives" not in found and sources.get(host) == "measured":
            contained["drives"] = host
        if site.network or site.switch_w is not None:
            modelled_j = None if site.switch_w is None else site.switch_w * site.duration_s
            put("switch", _measured(self.channels, "device", ("switch",)), modelled_j)
        needed = {"nodes", "drives"} | ({"servers"} if served else set[str]())
        needed |= {"switch"} if site.network else set[str]()
        # A drive with a meter of its own is also in the meter of its machine.
        twice = sources.get("drives") == "measured" and sources.get(host) == "measured"
        complete = needed <= {*found, *contained}
        total_j = None
        if complete:
            counts = [each for part, each in found.items() if not (twice and part == "drives")]
            total_j = site.pue * sum(counts)
        if twice:
            contained["drives"] = host
        kinds = {*sources.values()} | ({"modelled"} if site.pue != 1.0 and complete else set[str]())
        provenance: EnergyProvenance = "modelled"
        if "measured" in kinds:
            provenance = "measured" if kinds == {"measured"} else "measured+modelled"
        return Energy(
            total_j=total_j,
            nodes_j=found.get("nodes"),
            servers_j=found.get("servers"),
            drives_j=found.get("drives"),
            switch_j=found.get("switch"),
            provenance=provenance,
            uncertainty_j=_uncertainty_j(counted) if complete and kinds == {"measured"} else None,
            part_provenance=sources,
            contained=contained,
            parts=self._by_part(found, sources, servers),
            not_covered=tuple(sorted(needed - {*found, *contained})),
        )

    def _by_part(
        self,
        found: Mapping[str, float],
        sources: Mapping[str, EnergyProvenance],
        servers: Sequence[str],
    ) -> tuple[PartEnergy, ...]:
        """Return the energy of each node, server, drive and switch, as far as it is told apart."""
        parts: list[PartEnergy] = []
        names: tuple[tuple[Literal["node", "server", "switch"], tuple[str, ...]], ...] = (
            ("node", self.site.nodes),
            ("server", tuple(servers)),
            ("switch", ("switch",)),
        )
        for part, of in names:
            group = part if part == "switch" else f"{part}s"
            if group not in found:
                continue
            each = self._measured_each(part, of) if sources[group] == "measured" else []
            parts += each or [
                PartEnergy(part, " ".join(of), found[group], sources[group], self._count(of))
            ]
        if sources.get("drives") == "measured":
            parts.append(PartEnergy("drive", "drives", found["drives"], "measured"))
        elif "drives" in found:
            parts += self.drives.parts
        return tuple(parts)

    def _count(self, names: Sequence[str]) -> int:
        """Return how many machines these names stand for."""
        return max(1, sum(self.site.server_counts.get(name, 1) for name in names))

    def _measured_each(
        self, boundary: Literal["node", "server", "switch"], names: Sequence[str]
    ) -> list[PartEnergy]:
        """Return what the meters that count say of each; one entry for several behind one meter."""
        covering = _best(self.channels, "device" if boundary == "switch" else boundary, names) or {}
        sums = [(each[0].of, made) for each in covering.values() if (made := added(each))]
        return [
            PartEnergy(
                boundary,
                " ".join(of or names),
                made.energy_j,
                "measured",
                max(1, len(of or names)),
                made.uncertainty_j,
            )
            for of, made in sums
        ]

    def _modelled_nodes_j(self) -> float | None:
        """Return idle power for the duration, and power per core for the CPU time used."""
        site, power = self.site, self.site.node_power
        if power is None or site.busy_core_s is None:
            return None
        awake_s = site.duration_s * len(site.nodes)
        return (power.idle_w + power.awake_w) * awake_s + power.core_w * site.busy_core_s

    def _modelled_servers_j(self) -> float | None:
        """Return idle power for the duration: how busy a server was is not measured."""
        site = self.site
        if not site.servers or not set(site.servers) <= set(site.server_power):
            return None
        idle_w = sum(
            site.server_counts.get(name, 1)
            * (site.server_power[name].idle_w + site.server_power[name].awake_w)
            for name in site.servers
        )
        return idle_w * site.duration_s


def _uncertainty_j(channels: Sequence[ChannelEnergy]) -> float:
    made = added(channels)
    return 0.0 if made is None else made.uncertainty_j


def _metered(outer: Sequence[ChannelEnergy]) -> dict[str, object]:
    """Return the sum over what was metered."""
    made = added(metered_channels(outer))
    if made is None:
        return {}
    idles = [each.idle_power_w for each in made.channels]
    return {
        "metered_j": made.energy_j,
        "metered_uncertainty_j": made.uncertainty_j,
        "metered_boundaries": tuple(dict.fromkeys(each.boundary for each in made.channels)),
        "metered_idle_w": None if None in idles else sum(each or 0.0 for each in idles),
    }
