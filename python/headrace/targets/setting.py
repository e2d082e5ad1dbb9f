"""Targets: one setting of a storage, as the record has it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Setting:
    """One setting of the storage: the requested value and the value read back."""

    name: str
    asked: Any
    before: Any
    """Value before Headrace changed it; `release` restores it."""
    after: Any
    """Value read back after setting it. A trial is valid only if the value is the same after the
    jobs."""
    applied: bool
    reason: str = ""
    """Why it could not be applied."""

    def as_dict(self) -> dict[str, object]:
        """Return a JSON-compatible mapping for the record."""
        return asdict(self)
