"""The rules of factors that planning needs.

They say which factors apply to a target and workload, and which are hard to change. The module
`headrace.study.resolve` implements this interface; planning uses nothing else of it.
"""

from __future__ import annotations

from typing import Any, Protocol

from headrace.study.model import Study


class Rules(Protocol):
    """Questions of planning, each answered by a pure function of the study."""

    def applies(self, study: Study, factor: str, target: str, workload: str) -> bool:
        """Return whether the factor applies to this target with this workload."""
        ...

    def levels(self, study: Study, factor: str, target: str) -> list[Any]:
        """Return the levels of a factor that differ for this target, at least one."""
        ...

    def hard_to_change(self, study: Study, factor: str, target: str) -> bool:
        """Return whether another level of the factor requires a new set-up of the target."""
        ...
