"""Fault `throttle`: limits the bytes or requests per second of the devices behind a target.

Uses the kernel's throttling: `blkio.throttle.*` in every control group of version 1 (write-back is
charged to the root group), `io.max` of Headrace's own group and its descendants in version 2. The
average is exact; the kernel passes requests in slices of 100 ms, so latencies under it are the
throttle's, not a drive's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, model_validator

from headrace.errors import MissingError, Problem, UnsupportedLevelError
from headrace.faults import FaultOptions, InjectedFault
from headrace.system import throttling
from headrace.targets import Location
from headrace.units import BytesPerS

if TYPE_CHECKING:
    from headrace.system.journal import Journal, JournalEntry


class ThrottleOptions(FaultOptions):
    """`[[fault]]` with `what = "throttle"`."""

    read_rate: BytesPerS | None = Field(None, gt=0, description="bytes a second that may be read")
    write_rate: BytesPerS | None = Field(
        None, gt=0, description="bytes a second that may be written"
    )
    read_iops: int | None = Field(None, ge=1, description="read requests a second")
    write_iops: int | None = Field(None, ge=1, description="write requests a second")

    @model_validator(mode="after")
    def _something(self) -> ThrottleOptions:
        if not self.limits:
            raise ValueError("name at least one of read_rate, write_rate, read_iops and write_iops")
        return self

    @property
    def limits(self) -> dict[str, int]:
        """The requested limits, in whole bytes or requests per second, by their name in
        `io.max`."""
        asked = {
            "rbps": self.read_rate,
            "wbps": self.write_rate,
            "riops": self.read_iops,
            "wiops": self.write_iops,
        }
        return {name: max(1, int(value)) for name, value in asked.items() if value is not None}


class Throttle(InjectedFault):
    """Devices with limited rates."""

    kind: ClassVar[str] = "throttle"
    Options: ClassVar[type[FaultOptions]] = ThrottleOptions

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._journal: Journal | None = None
        self._entries: list[JournalEntry] = []

    def check(self) -> list[Problem]:
        reason = throttling.why_not()
        return (
            [
                Problem(
                    reason,
                    "fault throttle",
                    "run as root on a kernel with the blkio or io control group",
                )
            ]
            if reason
            else []
        )

    def inject(self, location: Location, journal: Journal) -> None:
        if not location.device_names:
            raise UnsupportedLevelError(
                f"throttle: {location.directory or location.url} is on no block device of "
                "this machine"
            )
        if reason := throttling.why_not():
            raise MissingError(f"throttle: {reason}")
        self._journal = journal
        for name in location.device_names:
            self._entries.extend(throttling.throttle(journal, name, self.options.limits))
        self.fired += 1

    def lift(self) -> None:
        if self._journal is not None:
            self._journal.put_back(self._entries)
