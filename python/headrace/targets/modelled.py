"""Targets: base of file services that exist only in virtual time."""

from __future__ import annotations

from typing_extensions import override

from headrace.errors import HeadraceError, Problem
from headrace.targets import Location, TargetContext
from headrace.targets.service import ServiceTarget


class ModelledTarget(ServiceTarget):
    """A target that exists only in virtual time."""

    virtual_only = True

    @override
    def check(self, forced_devices: frozenset[str]) -> list[Problem]:
        """Return one problem: this version cannot set up such a storage."""
        return [
            Problem(
                f"kind = {self.kind!r} cannot be measured by this version",
                f"target {self.name}",
                "headrace simulate STUDY takes it in virtual time; a mounted one is measured "
                'with kind = "path" and its directory',
            )
        ]

    @override
    def free_bytes(self) -> int | None:
        """Return None: unknown."""
        return None

    @override
    def prepare(self, context: TargetContext) -> Location:
        """Raise HeadraceError; never reached after `check`."""
        raise HeadraceError(
            f"target {self.name}: kind {self.kind!r} cannot be measured by this version"
        )

    @override
    def release(self, context: TargetContext) -> None:
        """Do nothing: nothing was set up."""
