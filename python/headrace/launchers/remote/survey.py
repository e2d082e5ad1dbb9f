"""What the nodes of a cluster are and can do, as they report it themselves."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from headrace.errors import UsageError
from headrace.launchers import Clock, Launchers, NodesWanted, kinds, split_on
from headrace.launchers.remote.connection import NodeConnection
from headrace.launchers.remote.launcher import RemoteLauncher
from headrace.launchers.remote.messages import Hello, NodeAbilities
from headrace.launchers.remote.node_process import NodeService
from headrace.system.cluster import NodeSettings
from headrace.system.journal import Journal


@dataclass(frozen=True)
class SurveyedNode:
    """One node of a cluster."""

    name: str
    hello: Hello
    clock: Clock
    facts: NodeAbilities


def survey(on: str, count: int | None, python: str | None) -> list[SurveyedNode]:
    """Return the status of the nodes that `[run] on` names; None: as many as it names.

    Starts a node process on each and ends it. Raises HeadraceError when one does not start.
    """
    kind, address = split_on(on)
    part = kinds().get(kind)
    if part is None or not issubclass(part, RemoteLauncher) or not address or not part.address_form:
        forms = [each.address_form for each in kinds().values() if each.address_form]
        raise UsageError(f"{on}: no nodes of other machines", hint=f"allowed: {', '.join(forms)}")
    if (wrong := part.misread(address)) is not None:
        raise UsageError(wrong)
    names = [f"node-{number}" for number in range(count or part.node_count(address))]
    wanted = NodesWanted(
        tuple(NodeSettings(name) for name in names), address=address, python=python or ""
    )
    with (
        Journal.open("headrace cluster status") as journal,
        Launchers() as others,
        contextlib.closing(part(others)) as launcher,
        launcher.connect(journal, wanted) as connections,
        ThreadPoolExecutor(len(connections)) as threads,
    ):
        return list(threads.map(_status, connections))


def _status(connection: NodeConnection) -> SurveyedNode:
    return SurveyedNode(
        connection.name, connection.hello, connection.clock(), connection.call(NodeService.facts)
    )
