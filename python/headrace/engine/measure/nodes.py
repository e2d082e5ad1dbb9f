"""Which nodes a whole plot needs, and which launcher runs its jobs there.

Jobs run directly on this machine unless a target starts servers or jobs run on more than one node.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace import launchers
from headrace.errors import Problem
from headrace.launchers import NodesWanted
from headrace.study.model import RunOptions
from headrace.study.resolve import Resolved
from headrace.targets import Target
from headrace.targets.served import client_nodes

_ON_THIS_MACHINE = "local"
_ON_BUILT_NODES = "namespaces"


def nodes_wanted(
    target: Target, resolved: Resolved, count: int, sources: Iterable[Target] = ()
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
    )


def launcher_of(run: RunOptions, wanted: NodesWanted) -> str:
    """Return the kind of launcher that runs the jobs: that of `on`, or the one that nodes need."""
    return run.on or (_ON_BUILT_NODES if wanted.reason else _ON_THIS_MACHINE)


def launcher_problems(run: RunOptions, wanted: NodesWanted) -> list[Problem]:
    """Return why the launcher cannot run jobs on these nodes, or what this machine lacks for it."""
    kinds = launchers.kinds()
    part = kinds[launcher_of(run, wanted)]
    on = f'on = "{part.kind}"'
    if (why_not := part.refuses(wanted)) is not None:
        able = [kind for kind, each in kinds.items() if each.refuses(wanted) is None]
        allowed = " or ".join(f'on = "{kind}"' for kind in able)
        return [Problem(f"{on}: {why_not}", "[run]", f"allowed here: {allowed}, or no `on`")]
    # A target that starts servers reports by itself what the machine lacks for their nodes.
    needed_by = f"nodes = {run.nodes}" if run.nodes > 1 else on if run.on else ""
    if needed_by and (missing := part.check()) is not None:
        return [Problem(missing[0], needed_by, missing[1])]
    return []
