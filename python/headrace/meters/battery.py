"""Meter `battery`: power that a laptop draws from its battery (Documentation/power/power_supply).

Only a battery that discharges tells what the machine uses: with mains power its value is that of
charging. A machine with several batteries discharges one after the other.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from headrace.meters import (
    Found,
    Meter,
    MeterChannel,
    MeterError,
    MeterOptions,
    Reading,
    found_here,
)

ROOT = "/sys/class/power_supply"
_ACCURACY = (0.05, "assumption: 5 %; fuel gauges state 1 to 5 % for current")


class BatteryOptions(MeterOptions):
    """Fields of `[meter.NAME]` with `kind = "battery"`."""

    path_fields: ClassVar[tuple[str, ...]] = ("tree",)
    tree: str = Field(ROOT, description="folder of the power supplies")


class Battery(Meter):
    """One channel per battery."""

    kind: ClassVar[str] = "battery"
    Options: ClassVar[type[MeterOptions]] = BatteryOptions
    options: BatteryOptions

    @classmethod
    def on_this_machine(cls) -> list[Found]:
        """Return the batteries."""
        return [found_here(cls("battery", BatteryOptions.model_validate({})), "batteries")]

    def in_band(self) -> bool:
        """Return True."""
        return True

    def channels(self) -> tuple[MeterChannel, ...]:
        """Find the batteries."""
        return tuple(
            self.channel(folder.name, "node", 1.0, _ACCURACY, resolution_w=0.01, rests=True)
            for folder in self._folders()
        )

    def read(self) -> list[Reading]:
        """Read the power of each battery: stated, or current times voltage.

        Of several batteries one may be idle while another discharges: it gives 0 W.
        """
        states = {folder: _text(folder / "status") for folder in self._folders()}
        discharges = "Discharging" in states.values()
        found: list[Reading] = []
        for folder, status in states.items():
            idle = discharges and _is_idle(folder, status)
            if status != "Discharging" and not idle:
                raise MeterError(
                    f"battery {folder.name} is not discharging ({status or 'status unknown'})",
                    hint="unplug it: a battery tells the machine's power without mains only",
                )
            power_w = 0.0 if idle else _power_w(folder)
            found.append(Reading(folder.name, time.monotonic(), power_w=power_w))
        return found

    def _folders(self) -> list[Path]:
        tree = Path(self.options.tree)
        found = [
            folder
            for folder in sorted(tree.glob("*"))
            # Batteries of mice and keyboards have the scope Device.
            if _text(folder / "type") == "Battery" and _text(folder / "scope") != "Device"
        ]
        if not found:
            raise MeterError(f"no battery in {tree}", hint="name another meter")
        return found


def _is_idle(folder: Path, status: str) -> bool:
    """Return whether no current flows in a battery: by its state, or, where the driver knows none,
    by its own number."""
    return status in ("Not charging", "Full") or (status == "Unknown" and _power_w(folder) == 0)


def _power_w(folder: Path) -> float:
    power_uw = _text(folder / "power_now")
    if power_uw:
        return abs(_number(power_uw, folder)) * 1e-6
    current_ua = _number(_text(folder / "current_now"), folder)
    return abs(current_ua) * _number(_text(folder / "voltage_now"), folder) * 1e-12


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def _number(text: str, folder: Path) -> float:
    try:
        return float(text)
    except ValueError:
        raise MeterError(f"battery {folder.name} tells neither power nor current") from None
