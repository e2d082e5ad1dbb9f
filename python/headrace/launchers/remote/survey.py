"""What the nodes of a cluster are and can do, as they report it themselves."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

from headrace.errors import HeadraceError, UsageError
from headrace.launchers import Clock, LauncherLostError, Launchers, NodesWanted, kinds, split_on
from headrace.launchers.batch.options import BatchOptions
from headrace.launchers.remote.connection import NodeConnection
from headrace.launchers.remote.launcher import RemoteLauncher
from headrace.launchers.remote.messages import Hello, NodeAbilities
from headrace.launchers.remote.node_process import NodeService
from headrace.system.cluster import NodeSettings
from headrace.system.journal import Journal
from headrace.system.key_states import KeyState


@dataclass(frozen=True)
class SurveyedNode:
    """One node of a cluster."""

    name: str
    hello: Hello
    clock: Clock
    facts: NodeAbilities
    keys: tuple[KeyState, ...] = ()
    """Of its Dask worker."""


@dataclass(frozen=True)
class NamedNodes:
    """The nodes that `[run] on` names."""

    on: str
    part: type[RemoteLauncher]
    wanted: NodesWanted

    @property
    def with_dask(self) -> bool:
        """Whether Dask workers of the user carry the connections."""
        return self.part.kind == "dask"


@dataclass(frozen=True)
class Reached:
    """The nodes that could be reached, and why others could not."""

    connections: list[NodeConnection] = field(default_factory=list[NodeConnection])
    failures: list[HeadraceError] = field(default_factory=list[HeadraceError])
    """Each names its node."""


def cluster_of(
    on: str, count: int | None, python: str | None, batch: BatchOptions | None = None
) -> NamedNodes:
    """Return the cluster that `[run] on` names; `count` None: as many nodes as it names.

    Raises UsageError when it names no nodes of other machines.
    """
    part, address = _part_of(on)
    if (wrong := part.misread(address)) is not None:
        raise UsageError(wrong)
    if python is not None:
        uses = "starts no Python: its workers run already" if not part.starts_python else None
        if (wrong := uses or part.refuses_python(python)) is not None:
            raise UsageError(f"{on}: --python {python}: {wrong}")
    if (wrong := part.refuses_batch(batch)) is not None:
        hint = "name a study that has it: headrace cluster doctor STUDY" if batch is None else None
        raise UsageError(f"[run.batch]: {wrong}", hint=hint)
    names = [f"node-{number}" for number in range(count or part.node_count(address))]
    nodes = tuple(NodeSettings(name) for name in names)
    return NamedNodes(
        on, part, NodesWanted(nodes, address=address, python=python or "", batch=batch)
    )


def _part_of(on: str) -> tuple[type[RemoteLauncher], str]:
    """Return the launcher that `[run] on` names, and the address."""
    kind, address = split_on(on)
    part = kinds().get(kind)
    if (
        part is None
        or not issubclass(part, RemoteLauncher)
        or bool(address) != bool(part.address_form)
    ):
        forms = [
            each.address_form or kind
            for kind, each in kinds().items()
            if issubclass(each, RemoteLauncher)
        ]
        raise UsageError(f"{on}: no nodes of other machines", hint=f"allowed: {', '.join(forms)}")
    return part, address


def survey(
    on: str, count: int | None, python: str | None
) -> tuple[list[SurveyedNode], list[HeadraceError]]:
    """Return the status of the nodes that `[run] on` names, and why others do not answer.

    `count` None: as many nodes as it names. Starts a node process on each and ends it.
    """
    if not _part_of(on)[0].address_form:
        raise UsageError(
            f"{on}: its nodes are there only while a study runs",
            hint="headrace cluster doctor STUDY --nodes N requests some and looks at them",
        )
    cluster = cluster_of(on, count, python)
    with reached(cluster) as found:
        nodes, lost = status_of(cluster, found.connections)
        return nodes, [*found.failures, *lost]


@contextmanager
def reached(cluster: NamedNodes) -> Generator[Reached]:
    """Start a node process on each node that can be reached, all at once, and end them."""
    with (
        Journal.open("headrace cluster") as journal,
        Launchers() as others,
        ExitStack() as stack,
        contextlib.closing(cluster.part(others)) as launcher,
    ):
        try:
            found = Reached(*stack.enter_context(launcher.connect_each(journal, cluster.wanted)))
        except HeadraceError as error:
            found = Reached(failures=[error])
        yield found


def status_of(
    cluster: NamedNodes, connections: list[NodeConnection]
) -> tuple[list[SurveyedNode], list[HeadraceError]]:
    """Return the status of nodes, all asked at once, and why others do not say theirs."""
    if not connections:
        return [], []
    with ThreadPoolExecutor(len(connections)) as threads:
        found = list(threads.map(partial(_status, cluster), connections))
    return (
        [each for each in found if isinstance(each, SurveyedNode)],
        [each for each in found if isinstance(each, HeadraceError)],
    )


def _status(cluster: NamedNodes, connection: NodeConnection) -> SurveyedNode | HeadraceError:
    try:
        return SurveyedNode(
            connection.name,
            connection.hello,
            connection.clock(),
            connection.call(NodeService.facts),
            tuple(connection.call(NodeService.keys)) if cluster.with_dask else (),
        )
    except LauncherLostError as error:
        return error
