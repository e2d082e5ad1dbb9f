"""Warnings of a trial whose meters gave no energy: the trial is valid, and the reader must know."""

from __future__ import annotations

from headrace.records.energy import ChannelEnergy, Energy
from headrace.records.trial_record import NO_ENERGY, Reason


def without_energy(energy: Energy) -> list[Reason]:
    """Return a warning for each meter that failed, and for each channel that cannot be used.

    Channels within others are left out: they are shown and not added.
    """
    failed = [f"meter {name} gives no energy: {why}" for name, why in energy.meters_failed.items()]
    lacking = [
        f"{_name(each)} gives no energy: {'; '.join(each.reasons)}"
        for each in energy.channels
        if not each.usable and each.within is None
    ]
    return [Reason(code=NO_ENERGY, text=text) for text in (*failed, *lacking)]


def _name(channel: ChannelEnergy) -> str:
    where = f" of {channel.node}" if channel.node else ""
    return f"meter {channel.meter}, {channel.channel}{where}"
