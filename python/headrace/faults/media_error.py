"""Fault `media-error`: requests to part of a drive's medium take their time and fail."""

from __future__ import annotations

from typing import ClassVar

from headrace.faults import FaultOptions
from headrace.faults.drives import DriveFault, RequestFaultOptions


class MediaErrorOptions(RequestFaultOptions):
    """`[[fault]]` with `what = "media-error"`."""


class MediaError(DriveFault):
    """Errors in a range or at a rate. A redundant RAID repairs a read from its other drives."""

    kind: ClassVar[str] = "media-error"
    Options: ClassVar[type[FaultOptions]] = MediaErrorOptions

    def kind_of_model(self) -> dict[str, object]:
        return {"kind": "media_error"}
