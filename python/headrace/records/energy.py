"""Energy of a trial: one type, created by the engines and read by the analysis."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

EnergyProvenance = Literal["modelled", "measured", "measured+modelled"]
"""Source of power values: models of catalog entries, a meter, or both added together."""


@dataclass(frozen=True)
class ChannelEnergy:
    """What one channel of a meter measured while the jobs ran."""

    meter: str
    """Name in the study: `[meter.NAME]`."""
    kind: str
    channel: str
    boundary: str
    """What the power flows into: device, socket, node, server, rack or facility."""
    of: tuple[str, ...] = ()
    """Names of what it covers; empty for all of its boundary."""
    within: str | None = None
    """The channel of the same meter that contains it: the two must not be added."""
    energy_j: float | None = None
    mean_power_w: float | None = None
    idle_power_w: float | None = None
    """Mean power before the jobs, if it was measured."""
    uncertainty_j: float | None = None
    """Standard uncertainty, from accuracy, resolution, sampling and unmeasured time."""
    accuracy: float = 0.0
    """Half width of the relative error that its maker, or `accuracy_source`, states."""
    accuracy_source: str = ""
    interval_s: float = 0.0
    source: Literal["measured", "modelled"] = "measured"
    samples: int = 0
    lost: int = 0
    gaps: int = 0
    wraps: int = 0
    negatives: int = 0
    implausible: int = 0
    repeats: int = 0
    clock_jumps: int = 0
    unmeasured_s: float = 0.0
    usable: bool = False
    reasons: tuple[str, ...] = ()
    """Why it is not usable."""
    node: str = ""
    """Node whose agent read it; empty for the machine that runs the study."""
    notes: tuple[str, ...] = ()
    """How its readings were aligned with the trial."""


@dataclass(frozen=True)
class PartEnergy:
    """Energy of one node, server, drive or switch; of several where only their sum is known."""

    part: Literal["node", "server", "drive", "switch"]
    name: str
    energy_j: float
    provenance: EnergyProvenance = "modelled"
    count: int = 1
    """How many of them the energy is of."""
    uncertainty_j: float | None = None
    """Standard uncertainty, if it was measured."""


@dataclass(frozen=True)
class Energy:
    """Energy of one trial from the release of its jobs to the end of the last one, in joules.

    The field `energy` of trial.json. A value is None if it is not known. In a measured study,
    switches have no model and only what a `[meter.NAME]` covers is measured: the energy of an
    emulated drive can be known when that of its machine is not.
    """

    total_j: float | None = None
    """Of the whole site: the parts below times the power usage effectiveness (PUE).

    None unless every part is known.
    """
    nodes_j: float | None = None
    """Nodes that run jobs, without their drives unless `contained` says otherwise."""
    servers_j: float | None = None
    """File servers, without their drives unless `contained` says otherwise."""
    drives_j: float | None = None
    """Drives of the target, and further drives of nodes and servers."""
    switch_j: float | None = None
    provenance: EnergyProvenance = "modelled"
    """Source of the total, or of the parts that are known when it is not."""
    uncertainty_j: float | None = None
    """Standard uncertainty of `total_j`; None unless all of it was measured."""
    metered_j: float | None = None
    """Everything that usable channels measured, nothing twice. No part of it is modelled."""
    metered_uncertainty_j: float | None = None
    metered_boundaries: tuple[str, ...] = ()
    """What `metered_j` covers: the boundaries of its channels."""
    metered_idle_w: float | None = None
    """Idle power of the same channels, if it was measured."""
    part_provenance: dict[str, EnergyProvenance] = field(
        default_factory=dict[str, "EnergyProvenance"]
    )
    """By part (nodes, servers, drives, switch): the source of its value."""
    contained: dict[str, str] = field(default_factory=dict[str, str])
    """Part -> the part or boundary whose meter includes it; it is not added to the total again."""
    channels: tuple[ChannelEnergy, ...] = ()
    meters_failed: dict[str, str] = field(default_factory=dict[str, str])
    """Meters that gave nothing in this trial, with the error."""
    idle_j: float | None = None
    """What the same parts would draw in the same time without jobs, with the same PUE."""
    pue: float | None = None
    """Power usage effectiveness that the study states, which `total_j` includes. None: none is
    stated, and the total is that of the equipment alone."""
    co2_g_per_kwh: float | None = None
    """Intensity of the electricity that the study states."""
    parts: tuple[PartEnergy, ...] = ()
    """The same joules by node, server, drive and switch, without the PUE."""
    not_covered: tuple[str, ...] = ()
    """Parts in use that no meter covers and no model: they are not in `total_j`."""
    assumed: tuple[str, ...] = ()
    """Machines whose power is that of a default, since the study names none."""

    def metered_nodes_j(self) -> dict[str, float]:
        """Return what usable meters measured of each node that has one for itself, nothing twice.

        Of a node, or else of its processors and memory, by the meter with the least uncertainty.
        """
        usable = [each for each in self.channels if each.usable and len(each.of) == 1]
        names = {(each.meter, each.node, each.channel) for each in usable}
        sums: dict[tuple[str, str], dict[str, tuple[float, float]]] = {}
        for each in usable:
            if (each.meter, each.node, each.within) in names or each.energy_j is None:
                continue
            meters = sums.setdefault((each.of[0], each.boundary), {})
            energy_j, error_j = meters.get(each.meter, (0.0, 0.0))
            meters[each.meter] = (energy_j + each.energy_j, error_j + (each.uncertainty_j or 0.0))
        best = {
            key: min(meters.values(), key=lambda each: each[1] / each[0] if each[0] else math.inf)[
                0
            ]
            for key, meters in sums.items()
        }
        return {
            name: joules
            for boundary in ("socket", "node")
            for (name, of), joules in best.items()
            if of == boundary
        }

    def as_json(self) -> dict[str, Any]:
        """Return the value of `energy` in trial.json."""
        return asdict(self)

    @classmethod
    def of_record(cls, values: dict[str, Any]) -> Energy:
        """Return the energy in a parsed trial.json; all fields are None without any.

        Records of 0.1 have it as `probes.energy`. Raises TypeError for an unknown field.
        """
        found = values.get("energy")
        if found is None:
            old = (values.get("probes") or {}).get("energy") or {}
            found = {each.name: old[each.name] for each in fields(cls) if each.name in old}
        return cls(**found)
