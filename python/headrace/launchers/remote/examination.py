"""Look at every node of a cluster and judge what they say: `headrace cluster doctor`."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from headrace.errors import HeadraceError
from headrace.launchers.remote.connection import NodeConnection
from headrace.launchers.remote.diagnosis import (
    ClusterFinding,
    diagnose,
    judge_folder,
    judge_keys,
    judge_own_folder,
    merged,
)
from headrace.launchers.remote.shared_folders import views_of
from headrace.launchers.remote.survey import NamedNodes, SurveyedNode, reached, status_of
from headrace.system.identity import boot_id
from headrace.system.machine_facts import machine_facts


@dataclass(frozen=True)
class FolderWanted:
    """A folder that all nodes must share, or (`own`) that each must have for itself."""

    path: str
    wanted_by: str = ""
    """Name of the target; empty: the user asks."""
    create: bool = False
    """Whether a study makes it when it is missing."""
    own: bool = False


@dataclass(frozen=True)
class Examination:
    """What the nodes are, and what is wrong with them."""

    nodes: list[SurveyedNode] = field(default_factory=list[SurveyedNode])
    findings: list[ClusterFinding] = field(default_factory=list[ClusterFinding])
    whole: bool = True
    """Whether every node was reached."""


def examine(
    cluster: NamedNodes, folders: Sequence[FolderWanted] = (), needed: Collection[str] | None = None
) -> Examination:
    """Look at the nodes of a cluster. `needed`: capabilities that a study needs; None: all.

    Starts a node process on each and ends it; what it writes into folders is removed.
    """
    found = _ways(cluster)
    with reached(cluster) as nodes:
        surveyed, lost = status_of(cluster, nodes.connections)
        failures = [*nodes.failures, *lost]
        found += [_failure(error) for error in failures]
        wall_s = time.time() - time.monotonic()
        found += diagnose(surveyed, machine_facts(), wall_s, boot_id(), needed)
        there = [each for each in nodes.connections if each.lost is None]
        for folder in folders if there else ():
            found += _folder(folder, there)
    return Examination(surveyed, merged(found), whole=not failures)


def not_reached(on: str, error: HeadraceError) -> Examination:
    """Return the examination of a cluster that does not even say how many nodes it has."""
    found: list[ClusterFinding] = []
    if on.startswith("dask://"):
        from headrace.launchers.remote.dask_keys import keys_of

        found = judge_keys(keys_of("client"))
    return Examination(findings=merged([*found, _failure(error)]))


def _failure(error: HeadraceError) -> ClusterFinding:
    return ClusterFinding(
        error.message, error.hint or "", fatal=True, without="no study runs there"
    )


def _ways(cluster: NamedNodes) -> list[ClusterFinding]:
    """Return what is wrong with Dask's keys here, and with its versions."""
    if not cluster.with_dask:
        return []
    from headrace.launchers.remote.dask_client import client_of
    from headrace.launchers.remote.dask_keys import keys_of, unequal_versions

    found = judge_keys(keys_of("client"))
    try:
        with client_of(cluster.wanted.address, "--on") as client:
            differing = unequal_versions(client)
    except HeadraceError:  # the connection of the nodes fails with it, too
        return found
    return found + [
        ClusterFinding(
            f"{where} has {package} {there}, this machine {here}",
            "install the same version",
            without="Dask may fail to understand it, or work",
        )
        for where, package, there, here in differing
        if package != "python"  # each node says it
    ]


def _folder(folder: FolderWanted, connections: Sequence[NodeConnection]) -> list[ClusterFinding]:
    if not folder.own:
        views = views_of(folder.path, connections, create=folder.create)
        names = [each.name for each in connections]
        return judge_folder(views, names, folder.wanted_by)
    # Nodes of one kernel see the same folder: the check of the study says that.
    one_each = {each.hello.kernel: each for each in reversed(connections)}
    nodes = sorted(one_each.values(), key=connections.index)
    views = views_of(folder.path, nodes, create=folder.create, here=False, wait_s=0.0)
    return judge_own_folder(views, [each.name for each in nodes], folder.wanted_by)
