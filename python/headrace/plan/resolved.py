"""Trials of a plan with their options: those of their target, workload and levels."""

from __future__ import annotations

from collections.abc import Iterator

from headrace import workloads as workload_package
from headrace.plan.cells import key
from headrace.plan.trial import Plan, Trial
from headrace.study import resolve
from headrace.study.model import Study
from headrace.study.resolve import Resolved
from headrace.workloads import Workload


def resolved_trials(study: Study, plan: Plan) -> Iterator[tuple[Trial, Resolved, Workload]]:
    """Yield every trial with its options; repeats of a cell are resolved once."""
    known: dict[str, tuple[Resolved, Workload]] = {}
    for trial in plan.trials:
        name = key(trial.levels)
        if name not in known:
            options = resolve.resolve(study, trial.target, trial.workload, trial.levels)
            kind = workload_package.kinds()[options.workload_kind]
            known[name] = (options, kind(trial.workload, options.workload_options))
        yield trial, *known[name]
