"""Estimated cost of a plan: time, disk, privileges, from a rough model of rates. Changes nothing.

Shown by `headrace plan` and before a run starts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from headrace import launchers
from headrace import targets as target_package
from headrace.datasets import OwnFiles, data_files
from headrace.datasets.own_check import described
from headrace.plan.cells import key
from headrace.plan.expected import Expectation, Expected, Timings, set_up_key, trial_key
from headrace.plan.order import absent_levels
from headrace.plan.resolved import resolved_trials
from headrace.plan.trial import Plan, Trial
from headrace.study.model import Study
from headrace.study.resolve import Resolved
from headrace.targets.local_drives import on_nodes
from headrace.units import format_bytes_per_s

STORAGE_BYTES_PER_S = 100e6
"""Approximately a single disk. For faster storage the estimate is too long."""
JOB_BYTES_PER_S = 30e6
"""Approximate rate at which one job on one core reads compressed data."""
GENERATED_BYTES_PER_S = 10e6
"""Approximate rate at which the generator makes compressed data on one core."""
TRIAL_OVERHEAD_S = 2.0
"""Start and warm-up of jobs, dropping caches, writing the record."""
WHOLE_PLOT_OVERHEAD_S = 5.0
"""Formatting and mounting."""


@dataclass(frozen=True)
class Guess:
    """Rough cost of a plan."""

    seconds: float
    """Time of all trials in the plan; less if some repeats turn out not to be needed."""
    basis: str
    """The assumptions, as one clause."""
    target_bytes: dict[str, int]
    """Target -> bytes that its largest workload occupies on it."""
    memory_bytes: dict[str, int]
    """Target -> most memory that its emulated drives occupy; only targets that have such drives."""
    cache_bytes: int
    """Generated data sets, kept for later runs."""
    own_data: tuple[tuple[str, str], ...]
    """(workload, description of the user's own files that it reads), for each set of files."""
    needs_root: tuple[str, ...]
    warnings: tuple[str, ...]


def expect(study: Study, plan: Plan) -> Expectation:
    """Return the expected times of the plan's trials and set-ups, by the model of rates."""
    most_slots = _most_slots(study, plan)
    cores = os.cpu_count() or 1
    trials: dict[int, Expected] = {}
    set_ups: dict[int, Expected] = {}
    datasets: dict[str, int] = {}
    keys: dict[int, tuple[str, str]] = {}
    for trial, resolved, workload in resolved_trials(study, plan):
        slots_max = most_slots[trial.workload]
        size = workload.target_bytes(slots_max)
        spec = workload.dataset(slots_max)
        if spec is not None and not isinstance(spec, OwnFiles):
            datasets[spec.key] = max(datasets.get(spec.key, 0), size)
        if id(resolved) not in keys:
            keys[id(resolved)] = trial_key(resolved), set_up_key(resolved)
        own, set_up = keys[id(resolved)]
        jobs_s = _jobs_s(resolved, size / (data_files(spec) if spec else slots_max), cores)
        trials[trial.index] = Expected(own, TRIAL_OVERHEAD_S + jobs_s)
        if resolved.target_kind != "path":
            made = Expected(set_up, WHOLE_PLOT_OVERHEAD_S + size / STORAGE_BYTES_PER_S)
            set_ups[trial.whole_plot] = max(
                set_ups.get(trial.whole_plot, made), made, key=lambda each: each.modelled_s
            )
    return Expectation(
        trials,
        set_ups,
        {trial.index: trial.whole_plot for trial in plan.trials},
        sum(datasets.values()) / GENERATED_BYTES_PER_S,
    )


def estimate(study: Study, plan: Plan, timings: Timings | None = None) -> Guess:
    """Return the time, disk space and privileges that the plan needs.

    `timings` come from earlier runs on this machine and replace the model for matching trials.
    """
    timings = timings or Timings()
    most_slots = _most_slots(study, plan)
    target_bytes: dict[str, int] = {}
    memory_bytes: dict[str, int] = {}
    datasets: dict[str, int] = {}
    own_data: dict[tuple[str, str], OwnFiles] = {}
    held_bytes: dict[str, int] = {}
    root: dict[str, None] = {}
    for trial, resolved, workload in resolved_trials(study, plan):
        slots_max = most_slots[trial.workload]
        size = workload.target_bytes(slots_max)
        spec = workload.dataset(slots_max)
        target_bytes[trial.target] = max(target_bytes.get(trial.target, 0), size)
        name = key({"target": trial.target, **trial.levels})
        if name not in held_bytes:
            held_bytes[name] = _memory_bytes(trial, resolved)
        if held := held_bytes[name]:
            memory_bytes[trial.target] = max(memory_bytes.get(trial.target, 0), held)
        if isinstance(spec, OwnFiles):
            own_data.setdefault((trial.workload, spec.key), spec)
        elif spec is not None:
            datasets[spec.key] = max(datasets.get(spec.key, 0), size)
        root.update(dict.fromkeys(_needs_root(trial, resolved)))
    cache_bytes = sum(datasets.values())
    expectation = expect(study, plan)
    timed = expectation.timed(timings)
    # If every trial has been timed, the data sets exist already.
    data_s = expectation.data_s if timed < len(expectation.trials) else 0.0
    return Guess(
        seconds=expectation.left_s(timings) + data_s,
        basis=_basis(timed, len(expectation.trials)),
        target_bytes=target_bytes,
        memory_bytes=memory_bytes,
        cache_bytes=cache_bytes,
        own_data=tuple((name, described(own)) for (name, _), own in own_data.items()),
        needs_root=tuple(root),
        warnings=(
            *(
                f"no trial has {factor} = {level}: excluded, or without meaning here"
                for factor, level in absent_levels(study, plan)
            ),
            *dict.fromkeys(_empty_slots(study, plan)),
        ),
    )


def _empty_slots(study: Study, plan: Plan) -> Iterator[str]:
    """Yield what a user must know of trials that have fewer jobs than slots."""
    for _, resolved, _ in resolved_trials(study, plan):
        run = resolved.run
        slots = run.slots * run.nodes
        if run.load == "sustained" and run.jobs is not None and run.jobs < slots:
            yield (
                f"jobs = {run.jobs} is less than {slots} slots: only {run.jobs} of them are used, "
                f"and these trials count as {run.jobs} jobs at once"
            )


def _basis(timed: int, trials: int) -> str:
    rates = (
        f"{format_bytes_per_s(STORAGE_BYTES_PER_S)} from each storage, "
        f"{format_bytes_per_s(JOB_BYTES_PER_S)} into each job"
    )
    if not timed:
        return rates
    if timed == trials:
        return "what such trials took here before"
    return (
        f"what such trials took here before, for {timed} of {trials}; "
        f"{rates} for the others, scaled alike"
    )


def _most_slots(study: Study, plan: Plan) -> dict[str, int]:
    most: dict[str, int] = {}
    for trial in plan.trials:
        slots = trial.levels.get("slots") or study.run_options.slots
        most[trial.workload] = max(most.get(trial.workload, 1), int(cast("int", slots)))
    return most


def _memory_bytes(trial: Trial, resolved: Resolved) -> int:
    """Return the memory that the target's emulated drives occupy when the study is measured."""
    target = target_package.kinds()[resolved.target_kind](trial.target, resolved.target_options)
    kind = launchers.split_on(resolved.run.on or "local")[0]
    if launchers.kinds()[kind].elsewhere and target.on_each_node():
        return 0  # memory of its nodes
    return on_nodes(target, resolved.run.nodes).memory_bytes()


def _jobs_s(resolved: Resolved, job_bytes: float, cores: int) -> float:
    """Return the time of a trial's jobs, limited by the storage or by the cores."""
    run = resolved.run
    if run.load == "sustained" and run.jobs is None:
        return run.duration or 30.0
    jobs = run.jobs or run.slots if run.load == "sustained" else run.slots
    storage_s = jobs * job_bytes / STORAGE_BYTES_PER_S
    cores_s = jobs * job_bytes / JOB_BYTES_PER_S / min(run.slots, cores)
    return max(storage_s, cores_s)


def _needs_root(trial: Trial, resolved: Resolved) -> list[str]:
    """Return the steps of a trial that need root."""
    needs: list[str] = []
    kind = target_package.kinds()[resolved.target_kind]
    written: dict[str, object] = resolved.target_options.model_dump(exclude_none=True)
    run = resolved.run
    if run.on == "namespaces" or (run.on is None and run.nodes > 1):
        needs.append("building nodes and links (or name nodes that are there: [run] on)")
    if kind(trial.target, resolved.target_options).needs_cluster():
        needs.append(f"starting the servers of target {trial.target} (or name yours: address)")
    if {"device", "image", "drive"} & set(written):
        needs.append(f"making target {trial.target} (format, mount)")
    asked = sorted(set(written) & kind.settings)
    if asked:
        needs.append(f"setting {', '.join(asked)} of target {trial.target}")
    if run.cache == "cold":
        needs.append(
            "dropping the whole page cache (without root, only the files of the study are "
            "evicted from it)"
        )
    if run.memory_limit is not None or run.job_memory_limit is not None:
        needs.append("limiting the memory of jobs")
    return needs
