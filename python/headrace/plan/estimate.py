"""What a plan will take: time, disk, privileges. A rough model of rates, said as such; nothing is run or changed.

Read by `headrace plan` and shown before anything starts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headrace import targets as target_room
from headrace import workloads as workload_room
from headrace.plan.cells import key
from headrace.plan.order import absent_levels
from headrace.plan.trial import Plan, Trial
from headrace.study import resolve
from headrace.study.model import Study
from headrace.study.resolve import Resolved
from headrace.targets.own_drives import on_nodes
from headrace.units import format_bytes_per_s
from headrace.workloads import Workload

STORAGE_BYTES_PER_S = 100e6
"""A single disk, about; what is faster only makes the estimate too long."""
JOB_BYTES_PER_S = 30e6
"""Compressed data that one job takes in on one core, about."""
GENERATED_BYTES_PER_S = 10e6
"""Compressed data that the generator makes on one core, about."""
TRIAL_OVERHEAD_S = 2.0
"""Starting and warming the jobs, dropping caches, writing the record."""
WHOLE_PLOT_OVERHEAD_S = 5.0
"""Formatting and mounting."""


@dataclass(frozen=True)
class Guess:
    """What a plan will take, roughly."""

    seconds: float
    """Of all trials in the plan; repeats that turn out not to be needed make it shorter."""
    rests_on: str
    """The assumptions, as one clause."""
    target_bytes: dict[str, int]
    """Target -> bytes that its largest workload takes on it."""
    memory_bytes: dict[str, int]
    """Target -> memory that its emulated drives take at most while it stands; only targets that have any."""
    cache_bytes: int
    """Generated data sets that are kept for the next time."""
    needs_root: tuple[str, ...]
    warnings: tuple[str, ...]


def estimate(study: Study, plan: Plan) -> Guess:
    """Time, disk and privileges that the plan will take."""
    most_slots = _most_slots(study, plan)
    cores = os.cpu_count() or 1
    seconds = 0.0
    target_bytes: dict[str, int] = {}
    memory_bytes: dict[str, int] = {}
    datasets: dict[str, int] = {}
    whole_plots: dict[int, float] = {}
    root: dict[str, None] = {}
    for trial, resolved, workload in _resolved(study, plan):
        slots_max = most_slots[trial.workload]
        size = workload.target_bytes(slots_max)
        spec = workload.dataset(slots_max)
        target_bytes[trial.target] = max(target_bytes.get(trial.target, 0), size)
        if held := _memory_bytes(trial, resolved):
            memory_bytes[trial.target] = max(memory_bytes.get(trial.target, 0), held)
        if spec is not None:
            datasets[spec.key] = max(datasets.get(spec.key, 0), size)
        seconds += TRIAL_OVERHEAD_S + _jobs_s(resolved, size / (spec.files if spec else slots_max), cores)
        if resolved.target_kind != "path":
            made = WHOLE_PLOT_OVERHEAD_S + size / STORAGE_BYTES_PER_S
            whole_plots[trial.whole_plot] = max(whole_plots.get(trial.whole_plot, 0.0), made)
        root.update(dict.fromkeys(_needs_root(trial, resolved)))
    cache_bytes = sum(datasets.values())
    seconds += sum(whole_plots.values()) + cache_bytes / GENERATED_BYTES_PER_S
    return Guess(
        seconds=seconds,
        rests_on=f"{format_bytes_per_s(STORAGE_BYTES_PER_S)} from each storage, {format_bytes_per_s(JOB_BYTES_PER_S)} into each job",
        target_bytes=target_bytes,
        memory_bytes=memory_bytes,
        cache_bytes=cache_bytes,
        needs_root=tuple(root),
        warnings=tuple(
            f"no trial has {factor} = {level}: excluded, or without meaning here"
            for factor, level in absent_levels(study, plan)
        ),
    )


def _resolved(study: Study, plan: Plan) -> Iterator[tuple[Trial, Resolved, Workload]]:
    """Every trial with its options; repeats of a cell are resolved once."""
    known: dict[str, tuple[Resolved, Workload]] = {}
    for trial in plan.trials:
        name = key(trial.levels)
        if name not in known:
            options = resolve.resolve(study, trial.target, trial.workload, trial.levels)
            kind = workload_room.kinds()[options.workload_kind]
            known[name] = (options, kind(trial.workload, options.workload_options))
        yield trial, *known[name]


def _most_slots(study: Study, plan: Plan) -> dict[str, int]:
    most: dict[str, int] = {}
    for trial in plan.trials:
        slots = trial.levels.get("slots") or study.run_options.slots
        most[trial.workload] = max(most.get(trial.workload, 1), int(slots))
    return most


def _memory_bytes(trial: Trial, resolved: Resolved) -> int:
    """Memory that the target's emulated drives take when the study is measured."""
    target = target_room.kinds()[resolved.target_kind](trial.target, resolved.target_options)
    return on_nodes(target, resolved.run.nodes).memory_bytes()


def _jobs_s(resolved: Resolved, job_bytes: float, cores: int) -> float:
    """Time that the jobs of a trial take: what storage or cores need for their bytes, whichever is slower."""
    run = resolved.run
    if run.load == "sustained" and run.jobs is None:
        return run.duration or 30.0
    jobs = run.jobs or run.slots if run.load == "sustained" else run.slots
    storage_s = jobs * job_bytes / STORAGE_BYTES_PER_S
    cores_s = jobs * job_bytes / JOB_BYTES_PER_S / min(run.slots, cores)
    return max(storage_s, cores_s)


def _needs_root(trial: Trial, resolved: Resolved) -> list[str]:
    """What of a trial takes privileges that a user does not have."""
    needs: list[str] = []
    kind = target_room.kinds()[resolved.target_kind]
    written: dict[str, Any] = resolved.target_options.model_dump(exclude_none=True)
    if {"device", "image", "drive"} & set(written):
        needs.append(f"making target {trial.target} (format, mount)")
    asked = sorted(set(written) & kind.settings)
    if asked:
        needs.append(f"setting {', '.join(asked)} of target {trial.target}")
    if resolved.run.cache == "cold":
        needs.append(
            "dropping the whole page cache (without root, only the files of the study are evicted from it)"
        )
    if resolved.run.memory_limit is not None:
        needs.append("limiting the memory of jobs")
    return needs
