"""Which channels of a trial's meters count, and their sums; nothing is added twice. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.records.energy import ChannelEnergy

_LARGEST_FIRST = ("facility", "rack", "server", "node", "socket", "device")


@dataclass(frozen=True)
class ChannelSum:
    """Energy of channels, added."""

    energy_j: float
    uncertainty_j: float
    channels: tuple[ChannelEnergy, ...]

    @property
    def relative(self) -> float:
        """Return the uncertainty over the energy."""
        return self.uncertainty_j / self.energy_j if self.energy_j > 0 else math.inf


def added(channels: Iterable[ChannelEnergy]) -> ChannelSum | None:
    """Return the sum over channels.

    Errors of one meter's channels are those of one calibration: they are added as they are.
    """
    known = [each for each in channels if each.energy_j is not None]
    if not known:
        return None
    of_meters: dict[tuple[str, str], float] = {}
    for each in known:
        meter = (each.meter, each.node)  # that of another node is another instrument
        of_meters[meter] = of_meters.get(meter, 0.0) + (each.uncertainty_j or 0.0)
    return ChannelSum(
        sum(each.energy_j or 0.0 for each in known), math.hypot(*of_meters.values()), tuple(known)
    )


def outer_channels(channels: Sequence[ChannelEnergy]) -> list[ChannelEnergy]:
    """Return the usable channels that are not part of another usable one of the same meter."""
    return [each for each in channels if each.usable and not _inside(each, channels)]


def _inside(channel: ChannelEnergy, channels: Iterable[ChannelEnergy]) -> bool:
    """Return whether a usable channel of the same meter contains this one."""
    return any(
        (each.meter, each.node, each.channel) == (channel.meter, channel.node, channel.within)
        and each.usable
        for each in channels
    )


def one_meter_each(channels: Sequence[ChannelEnergy]) -> list[ChannelEnergy]:
    """Return the channels without those of a second meter of the same things: the meter with the
    smallest uncertainty counts."""
    of_meter: dict[tuple[str, tuple[str, ...]], list[ChannelEnergy]] = {}
    for each in channels:
        of_meter.setdefault((each.meter, each.of), []).append(each)
    sums = {key: made for key, each in of_meter.items() if (made := added(each)) is not None}
    whole = [key for key in sums if not key[1]]
    if whole:
        return of_meter[min(whole, key=lambda key: sums[key].relative)]
    found: list[ChannelEnergy] = []
    covered: set[str] = set()
    for key in sorted(sums, key=lambda key: (-len(key[1]), sums[key].relative)):
        if not covered & set(key[1]):
            found += of_meter[key]
            covered |= set(key[1])
    return found


def metered_channels(outer: Sequence[ChannelEnergy]) -> list[ChannelEnergy]:
    """Return the channels that cover most: one boundary, the largest that is covered.

    Meters of smaller boundaries are in it, unless they are of other things.
    """
    counted: list[ChannelEnergy] = []
    for boundary in _LARGEST_FIRST:
        here = [each for each in outer if each.boundary == boundary]
        if any(each.boundary in ("rack", "facility") for each in counted):
            break
        if boundary == "socket":
            here = [each for each in here if not _in_node(each, counted)]
        if boundary == "device" and any(each.boundary in ("node", "server") for each in counted):
            here = [each for each in here if "switch" in each.of]
        counted += one_meter_each(here)
    return counted


def _in_node(socket: ChannelEnergy, counted: Iterable[ChannelEnergy]) -> bool:
    """Return whether a node whose energy is counted may contain this socket."""
    return any(
        each.boundary == "node"
        and (not each.of or not socket.of or bool(set(each.of) & set(socket.of)))
        for each in counted
    )
