"""Energy of a trial: one type, created by the engines and read by the analysis."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal


@dataclass(frozen=True)
class Energy:
    """Energy of one trial from the release of its jobs to the end of the last one, in joules.

    The field `energy` of trial.json. A value is None if it is not known. In a measured study,
    switches have no model and machines no meter: the energy of an emulated drive can be known when
    that of its machine is not.
    """

    total_j: float | None = None
    """Of the whole site: the parts below times the power usage effectiveness (PUE).

    None unless every part is known.
    """
    nodes_j: float | None = None
    """Nodes that run jobs, without their drives."""
    servers_j: float | None = None
    """File servers, without their drives."""
    drives_j: float | None = None
    """Drives of the target, and further drives of nodes and servers."""
    switch_j: float | None = None
    provenance: Literal["modelled", "measured"] = "modelled"
    """Source of the power values: models of catalog entries, or a meter."""

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
            found = {field.name: old[field.name] for field in fields(cls) if field.name in old}
        return cls(**found)
