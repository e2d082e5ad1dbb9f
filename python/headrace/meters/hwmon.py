"""Meter `hwmon`: power sensors of this machine (Documentation/hwmon/sysfs-interface).

`power*_input` and `power*_average` are in microwatts, `energy*_input` in microjoules. A product of
current and voltage is read where the study names both files: their numbers need not correspond.
What a sensor covers depends on the board, so the study must say it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import ClassVar

from pydantic import Field, model_validator

from headrace.meters import (
    Found,
    Meter,
    MeterChannel,
    MeterError,
    MeterOptions,
    Reading,
    found_here,
)

ROOT = "/sys/class/hwmon"
_ACCURACY = (0.05, "assumption: 5 %; sensors of boards are rarely calibrated")


class HwmonOptions(MeterOptions):
    """Fields of `[meter.NAME]` with `kind = "hwmon"`."""

    path_fields: ClassVar[tuple[str, ...]] = ("tree",)
    tree: str = Field(ROOT, description="folder of the sensors' chips")
    sensors: tuple[str, ...] = Field(
        (), description='"CHIP/power1_input"; every power or energy sensor when not given'
    )
    products: dict[str, tuple[str, str]] = Field(
        default_factory=dict[str, tuple[str, str]],
        description='power as current times voltage: { cpu = ["CHIP/curr1_input", '
        '"CHIP/in1_input"] }',
    )

    @model_validator(mode="after")
    def _covered(self) -> HwmonOptions:
        if self.covers is None:
            raise ValueError("covers is missing: what a sensor covers depends on the board")
        return self


class Hwmon(Meter):
    """One channel per sensor."""

    kind: ClassVar[str] = "hwmon"
    Options: ClassVar[type[MeterOptions]] = HwmonOptions
    options: HwmonOptions
    _sensors: dict[str, tuple[Path, ...]] | None = None

    @classmethod
    def on_this_machine(cls) -> list[Found]:
        """Return each sensor of power or energy."""
        options = HwmonOptions.model_validate({"covers": "node"})
        return [found_here(cls("board", options), "power sensors (hwmon)", covered=False)]

    def in_band(self) -> bool:
        """Return True."""
        return True

    def channels(self) -> tuple[MeterChannel, ...]:
        """Find the sensors."""
        sensors = self._found()
        return tuple(
            self.channel(
                name,
                "node",
                1.0,
                _ACCURACY,
                counter=_is_energy(files),
                resolution_w=0.0 if _is_energy(files) else 1e-3,
                resolution_j=1e-3 if _is_energy(files) else 0.0,
            )
            for name, files in sensors.items()
        )

    def read(self) -> list[Reading]:
        """Read every sensor."""
        found: list[Reading] = []
        for name, files in self._found().items():
            values = [_number(file) for file in files]
            now_s = time.monotonic()
            if _is_energy(files):
                found.append(Reading(name, now_s, energy_j=values[0] * 1e-6))
            else:
                # Microwatts; or milliamperes times millivolts.
                power_uw = values[0] if len(values) == 1 else values[0] * values[1]
                found.append(Reading(name, now_s, power_w=power_uw * 1e-6))
        return found

    def close(self) -> None:
        """Forget the sensors: a driver that is loaded again has other numbers."""
        self._sensors = None

    def _found(self) -> dict[str, tuple[Path, ...]]:
        if self._sensors is not None:
            return self._sensors
        chips = self._chips()
        every: dict[str, tuple[Path, ...]] = {
            f"{chip}/{file.name}": (file,)
            for chip, folder in chips.items()
            for pattern in ("power*_input", "power*_average", "energy*_input")
            for file in sorted(folder.glob(pattern))
        }
        # A sensor with both files has one power: the present one.
        found = {
            name: files
            for name, files in every.items()
            if name.replace("_average", "_input") not in every or name.endswith("_input")
        }
        if self.options.sensors:
            for name in self.options.sensors:
                if name not in every:
                    allowed = ", ".join(every) or "none on this machine"
                    raise MeterError(f"no sensor {name}", hint=f"sensors here: {allowed}")
            found = {name: every[name] for name in self.options.sensors}
        for name, pair in self.options.products.items():
            found[name] = (self._file(chips, pair[0], "curr"), self._file(chips, pair[1], "in"))
        if not found:
            raise MeterError(
                f"no sensor of power in {self.options.tree}",
                hint="load the driver of the board's sensors (sensors-detect of lm-sensors)",
            )
        self._sensors = found
        return found

    def _chips(self) -> dict[str, Path]:
        """Return the folder of each chip by name; equal names are numbered from the second on."""
        found: dict[str, Path] = {}
        for folder in sorted(Path(self.options.tree).glob("hwmon*")):
            try:
                name = (folder / "name").read_text().strip()
            except OSError:
                continue
            found[name if name not in found else f"{name}-{folder.name}"] = folder
        return found

    def _file(self, chips: dict[str, Path], name: str, prefix: str) -> Path:
        chip, _, file = name.partition("/")
        path = chips.get(chip, Path("/nonexistent")) / file
        if not file.startswith(prefix) or not path.exists():
            kind = "current (curr*_input)" if prefix == "curr" else "voltage (in*_input)"
            raise MeterError(f"{name} is not a sensor of {kind} here")
        return path


def _is_energy(files: tuple[Path, ...]) -> bool:
    return files[0].name.startswith("energy")


def _number(file: Path) -> float:
    try:
        return float(file.read_text())
    except (OSError, ValueError) as error:
        raise MeterError(f"{file} cannot be read: {error}", hint="run as root") from None
