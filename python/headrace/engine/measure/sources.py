"""Targets that only hold the input of a workload (`source` of `stage`).

Another target is under test. Sources are set up and torn down with the whole plot.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace import targets as target_package
from headrace import workloads as workload_package
from headrace.errors import HeadraceError, Problem
from headrace.plan.trial import Trial
from headrace.study.model import Study
from headrace.study.resolve import resolve
from headrace.targets import Location, Target, TargetContext
from headrace.targets.releasing import release_all


@dataclass(frozen=True)
class Source:
    """A target that only supplies data."""

    target: Target
    location: Location


def sources_of(study: Study, trials: Iterable[Trial]) -> dict[str, Target]:
    """Return the targets that workloads of these trials read input from, by name.

    Targets under test are not included.
    """
    found: dict[str, Target] = {}
    for trial in trials:
        resolved = resolve(study, trial.target, trial.workload, trial.levels)
        workload = workload_package.kinds()[resolved.workload_kind](
            trial.workload, resolved.workload_options
        )
        name = workload.source()
        if name is None or name == trial.target or name in found or name not in study.targets:
            continue
        part = resolve(study, name, trial.workload, {})
        found[name] = target_package.kinds()[part.target_kind](name, part.target_options)
    return found


def problems_of(
    study: Study, trials: Iterable[Trial], forced_devices: frozenset[str]
) -> list[Problem]:
    """Return what the sources lack on this machine, and source names that are not targets."""
    trials = list(trials)
    problems: list[Problem] = []
    for trial in trials:
        resolved = resolve(study, trial.target, trial.workload, trial.levels)
        workload = workload_package.kinds()[resolved.workload_kind](
            trial.workload, resolved.workload_options
        )
        name = workload.source()
        if name is not None and name not in study.targets:
            problems.append(
                Problem(
                    f'source = "{name}" is not a target, so that jobs cannot read from it',
                    f"workload {trial.workload}",
                    f'describe the storage as [target.{name}] (kind = "path", "nfs", "xrootd", '
                    f"…); a [site.server] alone is simulated",
                )
            )
    for target in sources_of(study, trials).values():
        problems += target.check(forced_devices)
    return problems


def prepared(targets: dict[str, Target], context: TargetContext) -> dict[str, Source]:
    """Set up the sources. Raises HeadraceError after tearing down those already set up."""
    made: dict[str, Source] = {}
    try:
        for name, target in targets.items():
            try:
                made[name] = Source(target, target.prepare(context))
            except HeadraceError as error:
                target.release(context)
                raise HeadraceError(f"source {name}: {error.message}", hint=error.hint) from error
    except BaseException:
        released(made, context)
        raise
    return made


def released(sources: dict[str, Source], context: TargetContext) -> None:
    """Tear down the sources in reverse order."""
    release_all(
        ", ".join(sources),
        [
            lambda target=source.target: target.release(context)
            for source in reversed(list(sources.values()))
        ],
    )
