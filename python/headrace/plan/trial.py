"""A trial: one point of the plan; and the plan as a list of trials."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Trial:
    """One point of the plan.

    `levels` holds every factor of the study; None where the factor does not apply to this trial's
    target and workload.
    """

    index: int
    """Position in the plan, from 0."""
    target: str
    workload: str
    levels: dict[str, object]
    repeat: int
    """From 0."""
    seed: int
    whole_plot: int
    """Number of its whole plot: trials that share one set-up of the target."""

    @cached_property
    def cell(self) -> str:
        """Identifier that the repeats of a cell share: 12 hexadecimal digits."""
        point = {"target": self.target, "workload": self.workload, "levels": self.levels}
        return hashlib.sha256(json.dumps(point, sort_keys=True, default=str).encode()).hexdigest()[
            :12
        ]

    @property
    def id(self) -> str:
        """Name of its directory among the records: `0007-8c1f02a9b3d4-r2`."""
        return f"{self.index:04d}-{self.cell}-r{self.repeat}"


@dataclass(frozen=True)
class Plan:
    """The complete, ordered, seeded list of trials."""

    trials: tuple[Trial, ...]
    study_hash: str
    seed: int
