"""What nodes on other machines lack for storage and meters of their own, asked before all else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headrace.engine.measure.nodes import (
    KnownLacks,
    is_elsewhere,
    lack_of_launcher,
    nodes_wanted,
)
from headrace.engine.measure.trial_meters import (
    MeteredMachine,
    as_data,
    machines_of,
    read_on_nodes,
)
from headrace.errors import HeadraceError, Problem
from headrace.launchers import Agent, Launchers, NodesWanted, kinds, split_on
from headrace.plan.trial import Plan
from headrace.study.model import NamedPlugin, Study
from headrace.study.resolve import Resolved, resolve
from headrace.system.journal import Journal
from headrace.targets import Target
from headrace.targets.elsewhere import TargetElsewhere, same_places
from headrace.targets.local_drives import LocalDrives
from headrace.targets.node_storage import WorkloadOfNode
from headrace.workloads import kinds as workload_kinds

_WITHOUT = "its trials fail"


@dataclass
class _Asked:
    """What trials of one launcher and address need, on the most nodes that any of them wants."""

    wanted: NodesWanted
    targets: dict[str, LocalDrives] = field(default_factory=dict[str, LocalDrives])
    workloads: dict[str, WorkloadOfNode] = field(default_factory=dict[str, WorkloadOfNode])
    """Those whose jobs run programs of the user."""


def node_problems(
    study: Study,
    plan: Plan,
    made: Iterable[tuple[str, Target]],
    forced_devices: frozenset[str],
    known: KnownLacks,
) -> list[Problem]:
    """Return what each node lacks, with its name. `made`: (id of a trial, its target).

    The trials of a target fail if a node lacks something for it; only if that leaves no trial, the
    study cannot run. A study whose meters cannot be read, or whose programs are missing,
    does not run.
    """
    targets = dict(made)
    meters = read_on_nodes(study.meters)
    asked: dict[str, _Asked] = {}
    others = False
    for trial in plan.trials:
        resolved = resolve(study, trial.target, trial.workload, trial.levels)
        target = targets[trial.id]
        elsewhere = is_elsewhere(resolved.run)
        own = target if elsewhere and isinstance(target, LocalDrives) else None
        others = others or own is None
        program = _users_program(trial.workload, resolved) if elsewhere else None
        if own is not None or program is not None or (elsewhere and meters):
            _ask(asked, resolved, target, own, program)
    problems: list[Problem] = []
    of_all: list[Problem] = []
    """What every trial needs."""
    usable = others
    for on, each in asked.items():
        found, lacks = _found(on, each, forced_devices, meters, known)
        of_all += lacks
        problems += [problem for some in found.values() for problem in some]
        usable = usable or not all(any(one.fatal for one in some) for some in found.values())
    if usable:
        problems = [_not_fatal(problem) for problem in problems]
    return problems + of_all


def _users_program(name: str, resolved: Resolved) -> WorkloadOfNode | None:
    """Return a workload whose jobs run a program of the user; None for others."""
    part = workload_kinds()[resolved.workload_kind]
    if not part.users_program:
        return None
    options = resolved.workload_options.model_dump(mode="json", exclude_unset=True)
    return WorkloadOfNode(resolved.workload_kind, name, options)


def _ask(
    asked: dict[str, _Asked],
    resolved: Resolved,
    target: Target,
    own: LocalDrives | None,
    program: WorkloadOfNode | None,
) -> None:
    """Ask the nodes of a trial; `own`: its target if each node has it for itself."""
    on = str(resolved.run.on)
    wanted = nodes_wanted(target, resolved, resolved.run.nodes)
    if on not in asked or len(asked[on].wanted.clients) < len(wanted.clients):
        asked.setdefault(on, _Asked(wanted)).wanted = wanted
    if own is not None:
        key = f"{own.name} {len(own.each)} {resolved.target_options!r}"
        asked[on].targets.setdefault(key, own)
    if program is not None:
        asked[on].workloads.setdefault(repr(program), program)


def _found(
    on: str,
    asked: _Asked,
    forced_devices: frozenset[str],
    meters: Mapping[str, NamedPlugin],
    known: KnownLacks,
) -> tuple[dict[str, list[Problem]], list[Problem]]:
    """Return the problems of each target, and those of meters and programs."""
    kind = split_on(on)[0]
    part, wanted = kinds()[kind], asked.wanted
    if (
        not part.nodes_at_once
        or part.refuses(wanted)
        or lack_of_launcher(part, wanted, known) is not None
    ):
        return {key: [] for key in asked.targets}, []  # the launcher has said what it lacks
    try:
        with (
            Journal.open("a check of nodes") as journal,
            Launchers() as launchers,
            launchers[kind].nodes(journal, wanted) as nodes,
        ):
            found = {
                key: _problems(target, nodes.agents, forced_devices)
                for key, target in asked.targets.items()
            }
            programs = _program_problems(nodes.agents, asked.workloads.values())
            return found, [*meter_lacks(machines_of(nodes.agents, meters)), *programs]
    except HeadraceError as error:
        lack = Problem(error.message, f'on = "{on}"', error.hint or "start its nodes")
        return ({"": [lack]}, []) if asked.targets else ({}, [lack])


def meter_lacks(machines: Iterable[MeteredMachine]) -> list[Problem]:
    """Return what machines lack to read their meters, with the name of each."""
    return [
        Problem(f"{machine.agent.name}: {lack.what}", lack.needed_by, lack.remedy)
        for machine in machines
        for lack in machine.agent.meters.check([as_data(part) for part in machine.parts])
    ]


def _program_problems(
    agents: Iterable[Agent], workloads: Iterable[WorkloadOfNode]
) -> list[Problem]:
    return [
        Problem(f"{agent.name}: {lack.what}", f"workload {workload.name}", lack.remedy)
        for workload in workloads
        for agent in agents
        for lack in agent.storage.check_workload(workload)
    ]


def _problems(
    target: LocalDrives, agents: tuple[Agent, ...], forced_devices: frozenset[str]
) -> list[Problem]:
    found: list[Problem] = []
    claims: list[tuple[str, str, tuple[str, ...]]] = []
    for agent, one in zip(agents, target.each, strict=False):
        if not isinstance(one, TargetElsewhere):
            continue
        check = agent.storage.check_target(one.data(forced_devices))
        claims.append((agent.name, agent.kernel, check.claims))
        for lack in check.lacks:
            needed_by = f"target {target.name}"
            what = f"{agent.name}: {lack.what}"
            without = "" if lack.fatal else lack.without or _WITHOUT
            found.append(Problem(what, needed_by, lack.remedy, lack.fatal, without, lack.level))
    for node, other, path in same_places(claims):
        what = f"{node} and {other} are one machine, and {path} would be the storage of both"
        remedy = "give each its own: {node} in a path stands for the number of the node"
        found.append(Problem(what, f"target {target.name}", remedy))
    return found


def _not_fatal(problem: Problem) -> Problem:
    without = _WITHOUT if problem.fatal else problem.without
    return Problem(problem.what, problem.needed_by, problem.remedy, False, without, problem.level)
