"""Inputs of jobs: files put on the target before they start, and each job's share of them.

Each job receives paths as its node sees them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from headrace.datasets import Data, OwnFiles
from headrace.engine.measure.placing import Placing, share_of
from headrace.engine.measure.placing_on_nodes import placed_on_node
from headrace.engine.measure.prepared_target import PreparedTarget
from headrace.plan.trial import Trial
from headrace.study.model import RunOptions
from headrace.study.resolve import Resolved
from headrace.system.owned import OURS
from headrace.targets.node_storage import WorkloadOfNode
from headrace.workloads import JobInput, Workload


@dataclass(frozen=True)
class DatasetLayout:
    """The files that jobs read, on the target."""

    files: list[str]
    """Paths on the first node."""
    events: list[int]
    """Events in each file; empty for files that are not a data set."""
    of_node: tuple[tuple[str, ...], ...] = ()
    """If each node has its own drive: the files on it, with paths of that node."""
    whole: bool = False
    """True if each of these drives has all files."""


def prepare_files(
    prepared: PreparedTarget,
    resolved: Resolved,
    workload: Workload,
    trial: Trial,
    directory: Path | None,
) -> DatasetLayout:
    """Ensure that the jobs' input files are on the target and undamaged; called before every trial.

    Raises HeadraceError when they cannot be placed, InterruptedRunError when the run is stopped.
    """
    spec = workload.dataset(prepared.slots_max)
    own = prepared.run.own_files
    placing = Placing(prepared.run.cache_dir, prepared.run.observer.phase, prepared.run.stop, own)
    holding = prepared.holding(workload)
    if spec is not None:
        directory = holding.location.directory
    run = resolved.run
    slots = run.slots * run.nodes
    if spec is None:
        placing.say(f"preparing files for {trial.workload}")
    try:
        if directory is None:
            return _by_url(prepared, placing, workload, spec, run, trial.seed)
        with prepared.nodes.links_open():
            if holding.location.elsewhere:
                return _elsewhere(prepared, placing, resolved, workload, spec, trial.seed)
            if holding.location.local_drives and run.nodes > 1:
                return _on_local_drives(prepared, placing, run, workload, spec, trial.seed)
            if spec is not None:
                paths, events = _placed(prepared, placing, run, spec, directory)
                return DatasetLayout([str(path) for path in paths], events)
            workload.check_room(directory / OURS, slots)
            return DatasetLayout(workload.prepare_files(directory / OURS, slots, trial.seed), [])
    finally:
        if resolved.faults:
            # A fault may have damaged data: verify everything before the next trial.
            prepared.verified.clear()
            prepared.put.clear()


def _placed(
    prepared: PreparedTarget,
    placing: Placing,
    run: RunOptions,
    spec: Data,
    directory: Path,
    share: tuple[int, int] = (0, 1),
) -> tuple[list[Path], list[int]]:
    """Return a data set's files on the target, with events.

    Contents are compared once per set-up of the target, or on request (`verify`).
    """
    if isinstance(spec, OwnFiles):
        found = placing.in_place(spec, directory, events=run.feed == "packets")
        if found is not None:
            return found
    place = placing.place_of(spec, directory)
    thorough = run.verify or place not in prepared.verified
    found = placing.placed(spec, directory, share, thorough=thorough)
    prepared.verified.add(place)
    return found


def _by_url(
    prepared: PreparedTarget,
    placing: Placing,
    workload: Workload,
    spec: Data | None,
    run: RunOptions,
    seed: int,
) -> DatasetLayout:
    """Return files on a storage without a directory.

    They are uploaded once per set-up of the target, after a trial with faults, and with `verify`.
    """
    target = prepared.holding(workload).target
    if spec is not None:
        made, events = placing.made(spec)
        folder = f"datasets/{placing.key_of(spec)}"
    else:
        slots = run.slots * run.nodes
        made = [
            Path(file)
            for file in workload.prepare_files(prepared.work_dir / "prepared-files", slots, seed)
        ]
        events, folder = [], "prepared-files"
    held = prepared.put.get(key := (target.name, folder, *map(str, made)), [])
    if made and (not held or run.verify):
        with prepared.nodes.links_open():
            held = target.upload(made, f"{OURS}/{folder}", prepared.context, placing.say)
        prepared.put[key] = held
    prepared.held = {each.url: each for each in held}
    return DatasetLayout(list(prepared.held), events)


def _on_local_drives(
    prepared: PreparedTarget,
    placing: Placing,
    run: RunOptions,
    workload: Workload,
    spec: Data | None,
    seed: int,
) -> DatasetLayout:
    """Return the files on each node's drive: its share of a data set, or all of it for packets."""
    directories = prepared.location.node_directories[: run.nodes]
    if spec is None:
        of_node: list[tuple[str, ...]] = []
        for here in directories:
            workload.check_room(here / OURS, run.slots)
            of_node.append(tuple(workload.prepare_files(here / OURS, run.slots, seed)))
        return DatasetLayout(list(of_node[0]), [], tuple(of_node))
    shares = [(0, 1) if run.feed == "packets" else (node, run.nodes) for node in range(run.nodes)]
    put = [
        _placed(prepared, placing, run, spec, here, share)
        for here, share in zip(directories, shares, strict=True)
    ]
    names = [tuple(str(path) for path in paths) for paths, _ in put]
    return DatasetLayout(list(names[0]), put[0][1], tuple(names), run.feed == "packets")


def _elsewhere(
    prepared: PreparedTarget,
    placing: Placing,
    resolved: Resolved,
    workload: Workload,
    spec: Data | None,
    seed: int,
) -> DatasetLayout:
    """Return the files on storage of nodes that are other machines, put there by their agents."""
    run = resolved.run
    nodes = list(zip(prepared.nodes.agents, prepared.location.node_directories, strict=True))[
        : run.nodes
    ]
    names: list[tuple[str, ...]] = []
    events: list[int] = []
    if spec is None:
        # Only fields that were written: a rule about a given field must not apply to its default.
        options = workload.options.model_dump(mode="json", exclude_unset=True)
        data = WorkloadOfNode(resolved.workload_kind, workload.name, options)
        for agent, here in nodes:
            names.append(tuple(agent.storage.prepare_files(data, str(here), run.slots, seed)))
        return DatasetLayout(list(names[0]), [], tuple(names))
    whole = run.feed == "packets"
    count = len(placing.made(spec)[0])
    for number, (agent, here) in enumerate(nodes):
        share = range(count) if whole else share_of(count, number, run.nodes)
        key = Path(f"{agent.name}:{placing.place_of(spec, here)}")
        thorough = run.verify or key not in prepared.verified
        paths, found = placed_on_node(placing, spec, agent, here, share, thorough=thorough)
        prepared.verified.add(key)
        names.append(tuple(paths))
        events = events or found
    return DatasetLayout(list(names[0]), events, tuple(names), whole)


@dataclass(frozen=True)
class Inputs:
    """Builds the input of each job, with the paths of its node."""

    prepared: PreparedTarget
    workload: Workload
    layout: DatasetLayout
    scratch_root: Path
    meeting: Path
    url: str | None
    slots_per_node: int
    slots: int
    released: int
    """Jobs that start together: one per slot, or fewer if the run has fewer jobs."""
    seed: int
    keep: Path
    packets: bool
    given: Counter[int] = field(default_factory=Counter[int])
    """Number of jobs started on each node, where each node has its own files."""

    def __call__(self, job: int, slot: int) -> JobInput:
        location = self.prepared.location
        own = self.scratch_root / f"job-{job:04d}"
        node = slot // self.slots_per_node
        here = location.on_node(node)
        scratch = Path(moved(str(own), location.directory, here))
        if not location.elsewhere:  # the node makes it
            (scratch if location.local_drives else own).mkdir()
        return JobInput(
            files=self._files(job, node),
            directory=here,
            scratch=scratch,
            first_here=job - job % self.slots_per_node if location.local_drives else 0,
            slot=slot,
            slots=self.slots,
            seed=self.seed + job,
            keep=self.keep,
            job=job,
            jobs=self.released,
            node=node,
            meeting=self.meeting,
            url=None if self.url is None else f"{self.url}/{own.name}",
            packet_url=self._packet_url(),
        )

    def _packet_url(self) -> str | None:
        """Return a file that packets are of, by its URL: its client is loaded before the jobs."""
        urls = (file for file in self.layout.files if self.packets and "://" in file)
        return next(urls, None)

    def _files(self, job: int, node: int) -> tuple[str, ...]:
        """Return the files of a job, with the paths of its node."""
        if self.packets or not self.layout.files:
            return ()
        if self.layout.of_node:
            number = self.given[node]
            self.given[node] += 1
            return self.workload.cut(list(self.layout.of_node[node]), number, self.slots_per_node)
        holding = self.prepared.holding(self.workload).location
        given = self.workload.cut(self.layout.files, job, self.slots)
        return tuple(moved(file, holding.directory, holding.on_node(node)) for file in given)


def moved(file: str, first: Path | None, here: Path | None) -> str:
    """Return a path on the first node's mount as another node sees it."""
    if first is None or here is None or here == first or not Path(file).is_relative_to(first):
        return file
    return str(here / Path(file).relative_to(first))
