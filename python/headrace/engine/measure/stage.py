"""What the trials of one whole plot share: the target as it stands, its nodes, and what was put on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.engine import Run
from headrace.engine.measure.nodes import Nodes
from headrace.engine.measure.nursery import Nursery
from headrace.engine.measure.sources import Source
from headrace.targets import Held, Location, Target, TargetContext
from headrace.workloads import Workload


@dataclass
class Stage:
    """What the trials of one whole plot share."""

    run: Run
    target: Target
    context: TargetContext
    location: Location
    nursery: Nursery
    environment: dict[str, Any]
    slots_max: int
    work_dir: Path
    nodes: Nodes
    held: dict[str, Held] = field(default_factory=dict[str, Held])
    """Files of the data set of a target that is reached by URL, by URL."""
    put: dict[tuple[str, ...], list[Held]] = field(default_factory=dict[tuple[str, ...], list[Held]])
    """What was put on such targets since they came to be, by target, folder and files."""
    sources: dict[str, Source] = field(default_factory=dict[str, Source])
    """Targets that hold the data sets of workloads instead, by name."""

    def holding(self, workload: Workload) -> Source:
        """The target that holds a workload's data set, and where."""
        return self.sources.get(workload.source() or "") or Source(self.target, self.location)
