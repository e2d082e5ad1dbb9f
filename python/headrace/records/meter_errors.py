"""The error of each meter in a trial's energy; all that it measures shares it. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from headrace.records.channels import metered_channels, one_meter_each, outer_channels
from headrace.records.energy import ChannelEnergy, Energy


class MeterErrors(msgspec.Struct, frozen=True):
    """Relative standard errors of an energy, each over the whole of it."""

    calibration: dict[str, float]
    """By meter: what its stated accuracy allows. All that the same meter measures is off by it."""
    reading: float = 0.0
    """From resolution, sampling and unmeasured time, of all meters: another one in each trial."""


def total_errors(energy: Energy, host: str = "") -> MeterErrors | None:
    """Return the errors of `total_j` and of the power that follows from it; None without a meter
    in it. Models of the other parts have no stated error.

    `host`: name of the machine that ran the study, to which meters belong that no node has.
    """
    if energy.total_j is None or not energy.channels:
        return None
    contained = set(energy.contained.values())
    channels = outer_channels(energy.channels)
    whole = next((each for each in ("facility", "rack") if each in contained), "")
    if whole:
        counted = one_meter_each([each for each in channels if each.boundary == whole])
    else:
        counted = _of_parts(channels, energy)
    factor = 1.0 if whole == "facility" else energy.pue or 1.0
    return _errors(counted, energy.total_j / factor, host)


def metered_errors(energy: Energy, host: str = "") -> MeterErrors | None:
    """Return the errors of `metered_j`; None without a meter."""
    if energy.metered_j is None:
        return None
    return _errors(metered_channels(outer_channels(energy.channels)), energy.metered_j, host)


def _of_parts(channels: Sequence[ChannelEnergy], energy: Energy) -> list[ChannelEnergy]:
    """Return the channels of the parts that are measured and not contained in another one."""
    found: list[ChannelEnergy] = []
    for part, boundary in (("nodes", "node"), ("servers", "server")):
        if energy.part_provenance.get(part) == "measured":
            found += one_meter_each([each for each in channels if each.boundary == boundary])
    for part in ("drives", "switch"):
        if energy.part_provenance.get(part) == "measured" and part not in energy.contained:
            here = [each for each in channels if each.boundary == "device" and part in each.of]
            found += one_meter_each(here)
    return found


def _errors(channels: Sequence[ChannelEnergy], energy_j: float, host: str) -> MeterErrors | None:
    """Return the errors of these channels over an energy."""
    calibration: dict[str, float] = {}
    uncertainty: dict[str, float] = {}
    for each in channels:
        name = f"{each.kind} {each.meter} of {each.node or host}"
        stated = each.accuracy * (each.energy_j or 0.0) / math.sqrt(3)
        calibration[name] = calibration.get(name, 0.0) + stated
        uncertainty[name] = uncertainty.get(name, 0.0) + (each.uncertainty_j or 0.0)
    if not energy_j > 0 or not any(uncertainty.values()):
        return None
    reading = math.sqrt(sum(_rest(calibration, uncertainty)))
    return MeterErrors(
        {name: min(1.0, value / energy_j) for name, value in calibration.items() if value > 0},
        min(1.0, reading / energy_j),
    )


def _rest(calibration: Mapping[str, float], uncertainty: Mapping[str, float]) -> list[float]:
    """Return the variance of each meter that its calibration leaves."""
    return [max(0.0, all_of_it**2 - calibration[name] ** 2)
            for name, all_of_it in uncertainty.items()]  # fmt: skip
