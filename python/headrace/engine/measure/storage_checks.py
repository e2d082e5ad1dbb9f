"""Whether the storage that a study names, and that exists without it, can be used now."""

from __future__ import annotations

from headrace import targets as target_package
from headrace.engine.measure.nodes import is_elsewhere
from headrace.engine.measure.sources import sources_of
from headrace.engine.measure.whole_plot import make_target
from headrace.errors import Problem
from headrace.plan.trial import Plan
from headrace.study.model import Study
from headrace.study.resolve import resolve
from headrace.targets import Target


def storage_problems(study: Study, plan: Plan) -> list[Problem]:
    """Return what is wrong with folders, mounts and servers of all targets and sources, each once.

    A part of what `Measure.check` returns. Folders of other machines are not looked at.
    """
    found: dict[str, Target] = {}
    for trial in plan.trials:
        resolved = resolve(study, trial.target, trial.workload, trial.levels)
        kind = target_package.kinds()[resolved.target_kind]
        if kind.virtual_only or (is_elsewhere(resolved.run) and not kind.url_prefix):
            continue
        found |= sources_of(study, [trial])
        key = f"{trial.target} {resolved.run.nodes} {resolved.target_options!r}"
        if key not in found:
            found[key] = make_target(trial.target, resolved, resolved.run.nodes)
    problems = (problem for target in found.values() for problem in target.check_storage())
    return list(dict.fromkeys(problems))
