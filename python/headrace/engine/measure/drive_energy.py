"""Energy of emulated drives while the jobs of a trial run: known from their models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.records.energy import Energy, PartEnergy
from headrace.targets import Location


def attached_energy_j(location: Location) -> dict[str, float]:
    """Return the energy of each emulated drive of a target since it was attached, by device name.

    Raises HeadraceError when the process of one has died.
    """
    return {device.name: device.report().energy_j for device in location.emulated}


def energy_of(before_j: Mapping[str, float], reports: Sequence[Mapping[str, Any]]) -> Energy:
    """Return the energy between `before_j` and the reports of the same drives.

    It is unknown without emulated drives, or when one of them did not answer at the end.
    """
    if not before_j or any("error" in report for report in reports):
        return Energy()
    used_j = {str(each["device"]): each["energy_j"] - before_j[each["device"]] for each in reports}
    parts = tuple(PartEnergy("drive", name, joules) for name, joules in used_j.items())
    return Energy(drives_j=sum(used_j.values()), parts=parts)
