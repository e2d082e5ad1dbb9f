"""Meter `rapl`: processors and memory by the counters of the kernel's powercap tree.

The zones are those of Documentation/power/powercap: `energy_uj` counts up to
`max_energy_range_uj` and begins again at 0. A package contains its zones core and uncore; `psys`
contains everything. The kernel lets only root read the counters (CVE-2020-8694).
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from pydantic import Field, model_validator

from headrace.errors import Problem
from headrace.meters import (
    Boundary,
    Found,
    Meter,
    MeterChannel,
    MeterError,
    MeterOptions,
    Reading,
    found_here,
)

ROOT = "/sys/class/powercap"
_ACCURACY = (
    0.05,
    "assumption: within 5 % of a wall meter (Khan et al., RAPL in Action, ACM TOMPECS 2018)",
)
_RESOLUTION_J = 61e-6
"""2^-14 J, the energy unit of most processors (Intel SDM vol. 3B, 15.10.1)."""
_INTERVAL_S = 0.5
_POWER_MAX_W = 2000.0


class RaplOptions(MeterOptions):
    """Fields of `[meter.NAME]` with `kind = "rapl"`."""

    path_fields: ClassVar[tuple[str, ...]] = ("tree",)
    tree: str = Field(ROOT, description="folder of the powercap zones")

    @model_validator(mode="after")
    def _sockets(self) -> RaplOptions:
        if self.covers not in (None, "socket"):
            raise ValueError(
                f'covers = "{self.covers}" is more than RAPL counts: processors and memory '
                "(socket); a zone psys is taken as the node without being told"
            )
        return self


@dataclass(frozen=True)
class _Zone:
    """One folder of the tree."""

    folder: Path
    channel: MeterChannel


class Rapl(Meter):
    """One channel per zone: packages, cores, uncore, DRAM, psys."""

    kind: ClassVar[str] = "rapl"
    Options: ClassVar[type[MeterOptions]] = RaplOptions
    options: RaplOptions
    _zones: tuple[_Zone, ...] = ()
    _files: tuple[tuple[str, int], ...] = ()

    @classmethod
    def on_this_machine(cls) -> list[Found]:
        """Return the counters of the processors."""
        return [found_here(cls("cpu", RaplOptions.model_validate({})), "RAPL counters")]

    def in_band(self) -> bool:
        """Return True."""
        return True

    def check(self) -> list[Problem]:
        """Return that there are no zones, or that they may not be read."""
        tree = self.options.tree
        if not self._found():
            return [
                self.problem(
                    f"no RAPL counters in {tree}",
                    "load the kernel module intel_rapl_msr (modprobe intel_rapl_msr); virtual "
                    "machines have none",
                )
            ]
        return super().check()

    def channels(self) -> tuple[MeterChannel, ...]:
        """Open the counters."""
        if not self._files:
            self._zones = self._found()
            if not self._zones:
                raise MeterError(f"no RAPL counters in {self.options.tree}")
            opened: list[tuple[str, int]] = []
            try:
                for zone in self._zones:
                    path = zone.folder / "energy_uj"
                    opened.append((zone.channel.name, os.open(path, os.O_RDONLY)))
            except OSError as error:
                for _, file in opened:
                    os.close(file)
                raise MeterError(
                    f"{error.filename} cannot be read: {error.strerror}",
                    hint=f"run as root, or allow it: chmod a+r {self.options.tree}/*/energy_uj",
                ) from None
            self._files = tuple(opened)
        return tuple(zone.channel for zone in self._zones)

    def read(self) -> list[Reading]:
        """Read every counter."""
        if not self._files:
            self.channels()
        found: list[Reading] = []
        try:
            for name, file in self._files:
                text = os.pread(file, 32, 0)
                found.append(Reading(name, time.monotonic(), energy_j=int(text) * 1e-6))
        except (OSError, ValueError) as error:
            raise MeterError(f"{self.options.tree}: counter not readable: {error}") from None
        return found

    def close(self) -> None:
        """Close the counters."""
        files, self._files = self._files, ()
        for _, file in files:
            os.close(file)

    def _found(self) -> tuple[_Zone, ...]:
        """Return the zones of the tree. Zones of the MMIO interface repeat those of the MSRs."""
        tree = Path(self.options.tree)
        names: dict[str, str] = {}
        zones: list[_Zone] = []
        for folder in sorted(tree.glob("intel-rapl:*")):
            try:
                zone = (folder / "name").read_text().strip()
                range_j = int((folder / "max_energy_range_uj").read_text()) * 1e-6
            except (OSError, ValueError):
                continue
            parent = names.get(folder.name.rpartition(":")[0])
            name = names[folder.name] = f"{parent}/{zone}" if parent else zone
            if name in [each.channel.name for each in zones]:
                name = names[folder.name] = f"{name} ({folder.name})"
            zones.append(_Zone(folder, self._channel(name, zone, parent, range_j)))
        whole = [each.channel.name for each in zones if each.channel.name.startswith("psys")]
        return tuple(
            replace(each, channel=replace(each.channel, within=whole[0]))
            if whole and each.channel.within is None and each.channel.name not in whole
            else each
            for each in zones
        )

    def _channel(self, name: str, zone: str, parent: str | None, range_j: float) -> MeterChannel:
        boundary: Boundary = "node" if zone == "psys" else "socket"
        made = self.channel(
            name,
            boundary,
            _INTERVAL_S,
            _ACCURACY,
            counter=True,
            resolution_j=_RESOLUTION_J,
            wraps_at_j=range_j,
            power_max_w=_POWER_MAX_W,
            # DRAM is a zone of its package in the tree, and has its own supply.
            within=parent if zone != "dram" else None,
        )
        return replace(made, boundary=boundary)
