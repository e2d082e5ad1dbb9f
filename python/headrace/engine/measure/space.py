"""Whether a study's data fit: data sets, images and records on each file system of this machine.

Sizes are estimates, accurate to about ten per cent: a study is refused if it clearly needs more
than is free, and gets a warning if it may.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from headrace import targets as target_package
from headrace.datasets import Data, OwnFiles, data_bytes, data_files
from headrace.engine.measure.nodes import is_elsewhere
from headrace.engine.measure.placing import share_of
from headrace.errors import Problem
from headrace.plan.resolved import resolved_trials
from headrace.plan.trial import Plan, Trial
from headrace.records.place import check_place
from headrace.study.model import Study
from headrace.study.resolve import Resolved
from headrace.system.owned import OURS
from headrace.system.storage import free_bytes
from headrace.targets import Target
from headrace.targets.block import BlockOptions
from headrace.targets.elsewhere import TargetElsewhere
from headrace.targets.local_drives import LocalDrives, on_nodes
from headrace.targets.path import PathOptions
from headrace.units import format_amount
from headrace.workloads import Workload

RECORD_BYTES = 100_000
"""Approximate size of one trial's record: 5 small files and a few series."""
SURELY = 1.15
"""A need beyond this multiple of the free space cannot be met despite the rough estimate."""


@dataclass
class Contents:
    """Data of trials on one storage: each data set once, plus the largest temporary files."""

    data: dict[str, int] = field(default_factory=dict[str, int])
    further: int = 0

    @property
    def bytes(self) -> int:
        """Total size at any one time."""
        return sum(self.data.values()) + self.further


@dataclass
class Needs:
    """What a study writes, by destination."""

    cache: dict[str, int] = field(default_factory=dict[str, int])
    """Data sets that are not in the cache yet."""
    paths: dict[tuple[str, Path], Contents] = field(
        default_factory=dict[tuple[str, Path], Contents]
    )
    """Data added to the directory of an existing target: (target, directory)."""
    made: dict[tuple[str, int], tuple[Contents, int]] = field(
        default_factory=dict[tuple[str, int], tuple[Contents, int]]
    )
    """Data on a target that Headrace makes, and its capacity: (target, whole plot)."""
    images: dict[tuple[str, Path], int] = field(default_factory=dict[tuple[str, Path], int])
    """New image files: (target, directory)."""


def needs_of(study: Study, plan: Plan, cache_dir: Path) -> Needs:
    """Return what the trials of a plan write on this machine. Changes nothing."""
    found = Needs()
    slots_max = max(
        (r.run.slots * r.run.nodes for _, r, _ in resolved_trials(study, plan)), default=1
    )
    targets: dict[tuple[str, int], tuple[Target, int | None]] = {}
    for trial, resolved, workload in resolved_trials(study, plan):
        place = (trial.target, trial.whole_plot)
        if place not in targets:
            kind = target_package.kinds()[resolved.target_kind]
            target = on_nodes(
                kind(trial.target, resolved.target_options),
                resolved.run.nodes,
                elsewhere=is_elsewhere(resolved.run),
            )
            targets[place] = target, target.free_bytes()
        _add(found, trial, resolved, workload, slots_max, *targets[place], cache_dir)
    return found


def _add(
    found: Needs,
    trial: Trial,
    resolved: Resolved,
    workload: Workload,
    slots_max: int,
    target: Target,
    room: int | None,
    cache_dir: Path,
) -> None:
    run = resolved.run
    local_drives = isinstance(target, LocalDrives)
    size = workload.target_bytes(run.slots if local_drives else run.slots * run.nodes)
    spec = workload.dataset(slots_max)
    data = data_bytes(spec) if spec is not None else 0
    if (
        spec is not None
        and not isinstance(spec, OwnFiles)
        # Path.is_dir raises PermissionError in another user's home.
        and not os.path.isdir(cache_dir / "datasets" / spec.key)  # noqa: PTH112
    ):
        found.cache[spec.key] = data
    if spec is not None and workload.source() is not None:
        spec, data = None, 0  # the data set is on another storage
    further = max(0, size - data)
    if spec is not None and local_drives and run.feed != "packets":
        count = data_files(spec)
        data = data * len(share_of(count, 0, run.nodes)) // count
    options = resolved.target_options
    if isinstance(target, LocalDrives) and isinstance(target.each[0], TargetElsewhere):
        return  # nodes look at their free space themselves
    if isinstance(options, PathOptions):
        contents = found.paths.setdefault((trial.target, options.directory), Contents())
        there = spec is not None and _is_there(spec, options.directory)
        data = 0 if there else data
    elif room is not None:
        contents, _ = found.made.setdefault((trial.target, trial.whole_plot), (Contents(), room))
    else:
        return
    if spec is not None:
        contents.data[spec.key] = data
    contents.further = max(contents.further, further)
    if (
        isinstance(options, BlockOptions)
        and options.image
        and options.size
        and not options.medium.exists()
    ):
        found.images[trial.target, options.medium.parent] = options.size


def _is_there(spec: Data, directory: Path) -> bool:
    """Return whether a target's directory has the data set: copies, or the user's own files."""
    try:
        if (directory / OURS / "datasets" / spec.key).is_dir():
            return True
        return isinstance(spec, OwnFiles) and spec.lie_in(directory)
    except OSError:
        return False  # the target's own check says why it cannot be reached


def space_problems(
    study: Study, plan: Plan, cache_dir: Path, results: Path | None = None
) -> list[Problem]:
    """Return what does not fit on this machine: the space needed, its purpose, the free space.

    Raises UsageError if data sets have to be generated and cannot be kept in `cache_dir`.
    """
    needs = needs_of(study, plan, cache_dir)
    if needs.cache:
        check_place(cache_dir, "--cache-dir")
    wanted: dict[int, list[tuple[Path, int, str]]] = defaultdict(list)

    def want(place: Path, size: int, what: str) -> None:
        nearest = _nearest(place)
        if size and nearest is not None:
            wanted[nearest.stat().st_dev].append((nearest, size, what))

    want(cache_dir, sum(needs.cache.values()), f"data sets in the cache {cache_dir}")
    for (target, directory), contents in needs.paths.items():
        want(directory, contents.bytes, f"files on target {target}")
    # Only one target is set up at a time.
    for (target, directory), size in sorted(needs.images.items(), key=lambda item: -item[1])[:1]:
        want(directory, size, f"the image of target {target}")
    if results is not None:
        trials = results / "trials"
        done = len(list(trials.iterdir())) if trials.is_dir() else 0
        want(results, RECORD_BYTES * (len(plan.trials) - done), f"records in {results}")
    problems = [_short_of_room(entries) for entries in wanted.values()]
    return [each for each in [*problems, *_too_much_for_targets(needs)] if each is not None]


def _short_of_room(entries: list[tuple[Path, int, str]]) -> Problem | None:
    """Return the problem of one file system with all data that go there, or None."""
    place, total = entries[0][0], sum(size for _, size, _ in entries)
    free = free_bytes(place)
    if total <= free:
        return None
    largest_first = sorted(entries, key=lambda entry: -entry[1])
    parts = ", ".join(f"{format_amount(size)} for {what}" for _, size, what in largest_first)
    return _problem(
        f"the file system of {place} has {format_amount(free)} free, about {format_amount(total)} "
        f"are needed: {parts}",
        "the study",
        "fewer events or files, free space, or another place (--cache-dir, --results, the "
        "target's path)",
        surely=total > SURELY * free,
    )


def _too_much_for_targets(needs: Needs) -> list[Problem]:
    """Return the problems of targets that Headrace makes too small; the worst of each target."""
    worst: dict[str, tuple[int, int]] = {}
    for (target, _), (contents, room) in needs.made.items():
        if contents.bytes > max(room, worst.get(target, (0, 0))[0]):
            worst[target] = contents.bytes, room
    return [
        _problem(
            f"its file system takes {format_amount(room)}, about {format_amount(size)} are needed",
            f"target {target}",
            "a larger size or device, or fewer events or files",
            surely=size > SURELY * room,
        )
        for target, (size, room) in worst.items()
    ]


def _problem(what: str, needed_by: str, remedy: str, *, surely: bool) -> Problem:
    without = "" if surely else "the estimate is rough: trials may fail because the storage is full"
    return Problem(what, needed_by, remedy, fatal=surely, without=without)


def _nearest(place: Path) -> Path | None:
    """Return the path or its nearest existing parent.

    Returns None if it cannot be reached (the check of its target reports that).
    """
    level = place.absolute()
    try:
        while not level.exists():
            level = level.parent
        return level
    except OSError:
        return None
