"""What jobs are given: files that are laid out or put on the target before they start, and for each job its own, by the paths of its node."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from headrace.datasets import DatasetSpec
from headrace.engine.measure.placing import OURS, dataset_files, made_dataset
from headrace.engine.measure.stage import Stage
from headrace.plan.trial import Trial
from headrace.study.model import RunOptions
from headrace.study.resolve import Resolved
from headrace.workloads import JobInput, Workload


@dataclass(frozen=True)
class Laid:
    """The files that jobs read, on the target."""

    files: list[str]
    """As the first node has them."""
    events: list[int]
    """In each; none known for files that are no data set."""
    of_node: tuple[tuple[str, ...], ...] = ()
    """Where each node has a drive of its own: those on it, as it has them."""
    copies: tuple[str, ...] = ()
    """The same files on further nodes, where each has all of them."""

    @property
    def everywhere(self) -> list[str]:
        """All of them on all nodes."""
        if self.of_node:
            return [file for files in self.of_node for file in files]
        return [*self.files, *self.copies]


def lay_out(
    stage: Stage, resolved: Resolved, workload: Workload, trial: Trial, directory: Path | None
) -> Laid:
    """Lays out or puts there what jobs read."""
    spec = workload.dataset(stage.slots_max)
    say, stop = stage.run.observer.phase, stage.run.stop
    holding = stage.holding(workload)
    if spec is not None:
        directory = holding.location.directory
    run = resolved.run
    slots = run.slots * run.nodes
    if spec is None:
        say(f"laying out files for {trial.workload}")
    if directory is None:
        if spec is not None:
            made, events = made_dataset(spec, stage.run.cache_dir, say, stop)
            folder = f"datasets/{spec.key}"
        else:
            made = [Path(file) for file in workload.lay_out(stage.work_dir / "laid-out", slots, trial.seed)]
            events, folder = [], "laid-out"
        held = stage.put.get(key := (holding.target.name, folder, *map(str, made)), [])
        if made and not held:
            with stage.nodes.links_open():
                held = holding.target.upload(made, f"{OURS}/{folder}", stage.context, say)
            stage.put[key] = held
        stage.held = {each.url: each for each in held}
        return Laid(list(stage.held), events)
    with stage.nodes.links_open():
        if holding.location.own_drives and run.nodes > 1:
            return _on_own_drives(stage, run, workload, spec, trial.seed)
        if spec is not None:
            paths, events = dataset_files(spec, stage.run.cache_dir, directory, say, stop)
            return Laid([str(path) for path in paths], events)
        workload.check_room(directory / OURS, slots)
        return Laid(workload.lay_out(directory / OURS, slots, trial.seed), [])


def _on_own_drives(
    stage: Stage, run: RunOptions, workload: Workload, spec: DatasetSpec | None, seed: int
) -> Laid:
    """On each node what its own slots read: its share of a data set, all of it where packets are handed out to any node."""
    directories = stage.location.node_directories[: run.nodes]
    if spec is None:
        of_node: list[tuple[str, ...]] = []
        for here in directories:
            workload.check_room(here / OURS, run.slots)
            of_node.append(tuple(workload.lay_out(here / OURS, run.slots, seed)))
        return Laid(list(of_node[0]), [], tuple(of_node))
    put = [
        dataset_files(
            spec,
            stage.run.cache_dir,
            here,
            stage.run.observer.phase,
            stage.run.stop,
            (0, 1) if run.feed == "packets" else (node, run.nodes),
        )
        for node, here in enumerate(directories)
    ]
    names = [tuple(str(path) for path in paths) for paths, _ in put]
    if run.feed == "packets":
        return Laid(list(names[0]), put[0][1], copies=tuple(file for files in names[1:] for file in files))
    return Laid(list(names[0]), put[0][1], tuple(names))


@dataclass(frozen=True)
class Inputs:
    """What each job is given, with the paths that its node has."""

    stage: Stage
    workload: Workload
    laid: Laid
    scratch_root: Path
    meeting: Path
    url: str | None
    slots_per_node: int
    slots: int
    seed: int
    keep: Path
    packets: bool
    given: Counter[int] = field(default_factory=Counter[int])
    """Jobs that each node was given, where each has files of its own."""

    def __call__(self, job: int, slot: int) -> JobInput:
        location = self.stage.location
        own = self.scratch_root / f"job-{job:04d}"
        node = slot // self.slots_per_node
        here = location.on_node(node)
        scratch = Path(moved(str(own), location.directory, here))
        (scratch if location.own_drives else own).mkdir()
        return JobInput(
            files=self._files(job, node),
            directory=here,
            scratch=scratch,
            first_here=job - job % self.slots_per_node if location.own_drives else 0,
            slot=slot,
            slots=self.slots,
            seed=self.seed + job,
            keep=self.keep,
            job=job,
            jobs=self.slots,
            node=node,
            meeting=self.meeting,
            url=None if self.url is None else f"{self.url}/{own.name}",
        )

    def _files(self, job: int, node: int) -> tuple[str, ...]:
        """Those of a job, as its node has them."""
        if self.packets or not self.laid.files:
            return ()
        if self.laid.of_node:
            number = self.given[node]
            self.given[node] += 1
            return self.workload.cut(list(self.laid.of_node[node]), number, self.slots_per_node)
        holding = self.stage.holding(self.workload).location
        given = self.workload.cut(self.laid.files, job, self.slots)
        return tuple(moved(file, holding.directory, holding.on_node(node)) for file in given)


def moved(file: str, first: Path | None, here: Path | None) -> str:
    """A path on the first node's mount, as another node has it."""
    if first is None or here is None or here == first or not Path(file).is_relative_to(first):
        return file
    return str(here / Path(file).relative_to(first))
