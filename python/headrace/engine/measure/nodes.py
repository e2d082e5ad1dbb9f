"""Which nodes a whole plot needs, and which launcher runs its jobs there.

Jobs run directly on this machine unless a target starts servers or jobs run on more than one node.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from headrace import launchers
from headrace.errors import HeadraceError, Problem
from headrace.launchers import Agent, Nodes, NodesWanted
from headrace.launchers.remote.shared_folders import VISIBLE_S, seen
from headrace.study.model import RunOptions
from headrace.study.resolve import Resolved
from headrace.targets import Location, Target
from headrace.targets.served import client_nodes

_ON_THIS_MACHINE = "local"
_ON_BUILT_NODES = "namespaces"


def nodes_wanted(
    target: Target, resolved: Resolved, count: int, sources: Collection[Target] = ()
) -> NodesWanted:
    """Return the nodes of a whole plot, `count` of which run jobs.

    `sources`: targets in addition to the one under test.
    """
    serving = [each for each in (target, *sources) if each.needs_cluster()]
    reason = ""
    if count > 1:
        reason = f"nodes = {count} needs nodes with a network of their own"
    elif serving:
        reason = f"target {serving[0].name} starts servers, on nodes with a network of their own"
    return NodesWanted(
        client_nodes(resolved.site, count),
        tuple(node for each in serving for node in each.nodes_wanted(resolved.site)),
        reason,
        _only_here(target, sources),
        launchers.split_on(resolved.run.on or "")[1],
        resolved.run.python or "",
        resolved.run.batch,
        resolved.run.node_silence,
    )


def _only_here(target: Target, sources: Iterable[Target]) -> str:
    """Return why the storage is on this machine only; an empty text if it is not."""
    if (why := target.only_here()) is not None:
        return why
    for source in sources:
        if (why := source.only_here()) is not None:
            return why
        if source.on_each_node():
            return f"target {source.name}, a source of files, is made on this machine"
    return ""


def is_elsewhere(run: RunOptions) -> bool:
    """Return whether jobs run on other machines, whose agents set up their own storage."""
    return run.on is not None and launchers.kinds()[launchers.split_on(run.on)[0]].elsewhere


def launcher_of(run: RunOptions, wanted: NodesWanted) -> str:
    """Return the kind of launcher that runs the jobs: that of `on`, or the one that nodes need."""
    if run.on is not None:
        return launchers.split_on(run.on)[0]
    return _ON_BUILT_NODES if wanted.reason else _ON_THIS_MACHINE


KnownLacks = dict[str, tuple[str, str] | None]
"""Answers of launchers, which may contact other machines, by the nodes that were wanted."""


def lack_of_launcher(
    part: type[launchers.Launcher], wanted: NodesWanted, known: KnownLacks
) -> tuple[str, str] | None:
    """Return what keeps a launcher from having these nodes; ask it once for equal ones."""
    if (key := f"{part.kind} {wanted!r}") not in known:
        known[key] = part.check(wanted)
    return known[key]


def launcher_problems(run: RunOptions, wanted: NodesWanted, known: KnownLacks) -> list[Problem]:
    """Return why the launcher cannot run jobs on these nodes, or what this machine lacks for it."""
    kinds = launchers.kinds()
    part = kinds[launcher_of(run, wanted)]
    on = f'on = "{part.kind}"'
    if (why_not := part.refuses(wanted)) is not None:
        able = [each for each in kinds.values() if each.refuses(wanted) is None]
        allowed = " or ".join(f'on = "{each.address_form or each.kind}"' for each in able)
        return [Problem(f"{on}: {why_not}", "[run]", f"allowed here: {allowed}, or no `on`")]
    # A target that starts servers reports by itself what the machine lacks for their nodes.
    needed_by = f"nodes = {run.nodes}" if run.nodes > 1 else on if run.on else ""
    if not needed_by:
        return []
    missing = lack_of_launcher(part, wanted, known)
    return [] if missing is None else [Problem(missing[0], needed_by, missing[1])]


def check_shared(location: Location, nodes: Nodes) -> None:
    """Raise HeadraceError for a node that does not see a new file in the target's directory.

    Network file systems keep what they know of a directory for a while, so it may take a moment.
    A target without a directory is passed over. Every node on another machine is asked, also one of
    a kernel that was asked before: containers of one kernel have mounts of their own.
    """
    if location.elsewhere:
        _check_separate(location, nodes)
        return
    directory = location.directory
    others = [agent for agent in nodes.agents if agent.has_own_mounts and not agent.is_lost]
    if directory is None or not others:
        return
    token = os.urandom(8).hex()
    file = directory / f".headrace-shared-{token}"
    file.write_text(token)
    try:
        for agent in others:
            if not seen(agent.has_file, str(file), token, VISIBLE_S):
                raise HeadraceError(
                    f"node {agent.name} does not see the files of {directory}",
                    hint="name a folder that all nodes mount at the same path",
                )
    finally:
        file.unlink()


def _check_separate(location: Location, nodes: Nodes) -> None:
    """Raise HeadraceError if two nodes see one folder, where each must have its own."""
    by_directory: dict[Path, list[Agent]] = {}
    for directory, agent in zip(location.node_directories, nodes.agents, strict=False):
        if not agent.is_lost:
            by_directory.setdefault(directory, []).append(agent)
    for directory, agents in by_directory.items():
        # Every pair: that two nodes are apart from a third says nothing of the two.
        for number, agent in enumerate(agents[:-1]):
            _check_apart(directory, agent, agents[number + 1 :])


def _check_apart(directory: Path, first: Agent, others: Sequence[Agent]) -> None:
    """Raise HeadraceError if another node sees what the first one writes into its directory."""
    token = os.urandom(8).hex()
    scratch = first.storage.make_scratch(str(directory))
    try:
        first.storage.write_mark(scratch, token)
        for agent in others:
            if agent.has_file(f"{scratch}/mark", token):
                raise HeadraceError(
                    f"{first.name} and {agent.name} see one folder at {directory}",
                    hint="leave out on, or give each node its own: {node} in the path stands for "
                    "the number of the node",
                )
    finally:
        first.storage.remove_scratch(str(directory))
