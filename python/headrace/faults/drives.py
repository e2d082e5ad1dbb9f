"""Base of drive faults: drive, requests, injection into emulated and modelled devices.

A study's fault becomes one table of the model (crates/model, `FaultSpec`). The simulator gets it
with the storage, the emulator while jobs run: the same fault in both.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from headrace.errors import HeadraceError, Problem, UnsupportedLevelError
from headrace.faults import FaultOptions, InjectedFault, ModelledFault
from headrace.scenario import DriveFaultSpec
from headrace.targets import Location
from headrace.units import Bytes

if TYPE_CHECKING:
    from headrace.system.journal import Journal

SECTOR_BYTES = 512


class DriveFaultOptions(FaultOptions):
    """Options of every fault of a drive."""

    drive: int | None = Field(
        None, ge=0, description="which drive of a RAID, from 0; every one when not given"
    )


class RequestFaultOptions(DriveFaultOptions):
    """Options of per-request faults: which requests, where and how often."""

    access: Literal["read", "write"] | None = Field(
        None, description="reads or writes alone; both when not given"
    )
    first: Bytes = Field(0, description="first byte of the range of the drive that is affected")
    length: Bytes | None = Field(
        None, gt=0, description="bytes of that range; to the end of the drive when not given"
    )
    share: float = Field(1.0, gt=0, le=1, description="share of those requests that it meets")
    at_most: int | None = Field(None, ge=1, description="how often it fires at most")


class DriveFault(InjectedFault):
    """A fault of a catalog drive: emulated when measured, modelled when simulated."""

    spoils: ClassVar[bool] = True

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._injected: list[tuple[Any, int]] = []

    @abstractmethod
    def kind_of_model(self) -> dict[str, object]:
        """Return the failure as the model's `FaultKind`."""

    def check(self) -> list[Problem]:
        return []

    def check_on(self, target: str, options: Any) -> list[Problem]:
        """Return a problem if the target has no catalog drive, or too few."""
        if getattr(options, "drive", None) is None:
            what = f"fault {self.kind} affects a drive of the catalog, and target {target} has none"
            remedy = (
                'give the target drive = "NAME" (emulated when measured), or name another target'
            )
            return [Problem(what, f"fault {self.options.label}", remedy)]
        raid = getattr(options, "raid", None)
        drives = 1 if raid is None else raid.drives
        number = getattr(self.options, "drive", None)
        if number is not None and number >= drives:
            what = f"fault {self.kind}: drive = {number}, and target {target} has {drives}"
            return [Problem(what, f"fault {self.options.label}", f"0 to {drives - 1}")]
        return []

    def spec(self, from_s: float, until_s: float | None) -> DriveFaultSpec:
        """Return the fault as the model's `FaultSpec`, with times on the device's own clock,
        seconds."""
        options = self.options
        made: DriveFaultSpec = {"fault": self.kind_of_model(), "from_s": from_s}
        if until_s is not None:
            made["until_s"] = until_s
        if getattr(options, "drive", None) is not None:
            made["drive"] = options.drive
        if isinstance(options, RequestFaultOptions):
            made["probability"] = options.share
            made["first_sector"] = options.first // SECTOR_BYTES
            if options.access is not None:
                made["only"] = options.access
            if options.length is not None:
                made["sectors"] = -(-options.length // SECTOR_BYTES)
            if options.at_most is not None:
                made["at_most"] = options.at_most
        return made

    def model(self) -> ModelledFault:
        """Return the fault of the storage in a scenario, whose clock starts at the release."""
        options = self.options
        until_s = None if options.duration is None else options.at + options.duration
        return ModelledFault(drive=self.spec(options.at, until_s))

    def inject(self, location: Location, journal: Journal) -> None:
        for device, drive in self._devices(location):
            spec = self.spec(0.0, self.options.duration)
            spec.pop("drive", None)
            if drive is not None:
                spec["drive"] = drive
            self._injected.append((device, device.inject(spec)))

    def _devices(self, location: Location) -> list[tuple[Any, int | None]]:
        """Return the emulated devices that it affects, the same on every node, each with the number
        of the drive within it. Raises UnsupportedLevelError."""
        if not location.emulated:
            raise UnsupportedLevelError(
                f"{self.kind}: {location.directory or location.url} is on no emulated drive"
            )
        drive = getattr(self.options, "drive", None)
        affected: list[tuple[Any, int | None]] = []
        for devices in location.emulated_by_node:
            if len(devices) == 1:
                affected.append((devices[0], drive))
                continue
            # RAID by the kernel: each drive is a separate device.
            chosen = devices if drive is None else devices[drive : drive + 1]
            affected += [(device, None) for device in chosen]
        return affected

    def lift(self) -> None:
        failed: list[str] = []
        while self._injected:
            device, number = self._injected.pop()
            try:
                self.fired += device.lift(number)
            except HeadraceError as error:
                failed.append(error.message)
        if failed:  # the others are lifted; the target is set up again after a drive fault
            self.seen["lift"] = "; ".join(failed)
            raise HeadraceError(self.seen["lift"])
