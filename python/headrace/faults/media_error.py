"""Fault `media-error`: a drive cannot read or write some of its medium: the request takes its time and fails."""

from __future__ import annotations

from typing import Any, ClassVar

from headrace.faults import FaultOptions
from headrace.faults.drives import DriveFault, RequestFaultOptions


class MediaErrorOptions(RequestFaultOptions):
    """`[[fault]]` with `what = "media-error"`."""


class MediaError(DriveFault):
    """Errors on a range or at a rate. A redundant RAID repairs a read from its other drives."""

    kind: ClassVar[str] = "media-error"
    Options: ClassVar[type[FaultOptions]] = MediaErrorOptions

    def kind_of_model(self) -> dict[str, Any]:
        return {"kind": "media_error"}
