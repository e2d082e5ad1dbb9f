"""State shared by the trials of one whole plot: the target that is set up, its nodes, its files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from headrace.engine import Run
from headrace.engine.measure.sources import Source
from headrace.engine.measure.target_servers import TargetServers
from headrace.launchers import Launcher, Nodes
from headrace.targets import Held, Location, Target, TargetContext
from headrace.workloads import Workload


@dataclass
class PreparedTarget:
    """State shared by the trials of one whole plot."""

    run: Run
    target: Target
    context: TargetContext
    location: Location
    launcher: Launcher
    environment: dict[str, object]
    slots_max: int
    work_dir: Path
    nodes: Nodes
    servers: TargetServers
    held: dict[str, Held] = field(default_factory=dict[str, Held])
    """Data set files of a target that is reached by URL, by URL."""
    put: dict[tuple[str, ...], list[Held]] = field(
        default_factory=dict[tuple[str, ...], list[Held]]
    )
    """Files uploaded to such targets since their set-up, by target, folder and files."""
    verified: set[Path] = field(default_factory=set[Path])
    """Data set directories whose contents were compared with their manifests since the set-up."""
    sources: dict[str, Source] = field(default_factory=dict[str, Source])
    """Further targets that hold the data sets of workloads, by name."""

    def holding(self, workload: Workload) -> Source:
        """Return the target that holds a workload's data set, with its location."""
        return self.sources.get(workload.source() or "") or Source(self.target, self.location)
