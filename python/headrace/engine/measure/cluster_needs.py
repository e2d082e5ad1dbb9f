"""What a study needs of the nodes of a cluster, for `headrace cluster doctor`. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.engine.measure.nodes import is_elsewhere
from headrace.launchers.batch.options import BatchOptions
from headrace.plan.trial import Plan
from headrace.study.model import Study
from headrace.study.resolve import Resolved, resolve
from headrace.targets.local import of_node
from headrace.targets.path import PathOptions

_ROOT_READERS = ("rdataframe", "event-loop")


@dataclass(frozen=True)
class FolderNeeded:
    """A folder of a target."""

    folder: str
    target: str
    create: bool
    """Whether it is made when it is missing."""


@dataclass
class ClusterNeeds:
    """What trials with one `on` need."""

    on: str
    nodes: int = 1
    python: str | None = None
    batch: BatchOptions | None = None
    shared: set[FolderNeeded] = field(default_factory=set[FolderNeeded])
    """Folders that all nodes must share."""
    own: set[FolderNeeded] = field(default_factory=set[FolderNeeded])
    """Folders that each node must have for itself."""
    capabilities: set[str] = field(default_factory=set[str])
    """`Capability.what` of features that make a difference."""


def cluster_needs(study: Study, plan: Plan) -> list[ClusterNeeds]:
    """Return what a study needs of each cluster that its trials name; nothing of this machine."""
    found: dict[str, ClusterNeeds] = {}
    for trial in plan.trials:
        resolved = resolve(study, trial.target, trial.workload, trial.levels)
        if not is_elsewhere(resolved.run):
            continue
        on = str(resolved.run.on)
        _add(found.setdefault(on, ClusterNeeds(on)), trial.target, resolved)
    return list(found.values())


def _add(needs: ClusterNeeds, target: str, resolved: Resolved) -> None:
    run, options = resolved.run, resolved.target_options
    needs.nodes = max(needs.nodes, run.nodes)
    needs.python, needs.batch = run.python, run.batch
    if isinstance(options, PathOptions):
        if options.on == "node":
            paths = {of_node(options.path, number) for number in range(run.nodes)}
            if run.nodes > 1 and len(paths) == 1:  # with {node}, each has another path
                needs.own.add(FolderNeeded(str(options.directory), target, options.create))
        else:
            needs.shared.add(FolderNeeded(str(options.directory), target, options.create))
        if any((options.scheduler, options.queue_depth, options.read_ahead is not None)):
            needs.capabilities.add("root")
    needs.capabilities.add("delay accounting")
    if run.cache == "cold":
        needs.capabilities.add("right to empty the page cache")
    if run.memory_limit is not None or run.job_memory_limit is not None:
        needs.capabilities.add("memory control group")
    if run.trace:
        needs.capabilities.add("root")
    if getattr(resolved.workload_options, "reader", None) in _ROOT_READERS:
        needs.capabilities.add("ROOT (PyROOT)")
