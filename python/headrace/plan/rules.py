"""What planning has to know of a study's targets and workloads: which factor means something to which, and which is hard to change.

The module `headrace.study.resolve` answers for a study; planning asks nothing else of it.
"""

from __future__ import annotations

from typing import Protocol

from headrace.study.model import Study


class Rules(Protocol):
    """The questions of planning, each answered by a pure function of the study."""

    def applies(self, study: Study, factor: str, target: str, workload: str) -> bool:
        """Whether the factor means anything to this target under this workload."""
        ...

    def hard_to_change(self, study: Study, factor: str, target: str) -> bool:
        """Whether another level of the factor needs the target to be made anew."""
        ...
