"""The nodes of a study's site for one whole plot: network namespaces and links.

They are built when a target starts servers or when jobs run on more than one node; otherwise jobs
run directly on this machine.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace

from headrace.errors import HeadraceError
from headrace.study.resolve import Resolved
from headrace.system.cluster import Cluster, Node
from headrace.system.journal import Journal
from headrace.targets import Target
from headrace.targets.served import client_nodes


@dataclass(frozen=True)
class Nodes:
    """The nodes that run jobs, and their cluster; empty when jobs run directly on this machine."""

    cluster: Cluster | None = None
    names: tuple[str, ...] = ()

    def name(self, number: int) -> str:
        """Return the name of a node; empty for this machine."""
        return self.names[number] if self.names else ""

    def __getitem__(self, number: int) -> Node | None:
        return self.cluster[self.names[number]] if self.cluster is not None else None

    def rates(self) -> dict[str, float | None]:
        """Return the rate of each node's link per direction in bytes per second, servers included.

        None means no limit.
        """
        if self.cluster is None:
            return {}
        return {node.name: node.settings.link.rate_bytes_per_s for node in self.cluster}

    def adopt(self, pid: int, number: int) -> None:
        """Put a job's process on the CPUs and under the memory limit of its node."""
        node = self[number]
        if node is not None:
            node.adopt(pid)

    def namespace(self, number: int) -> str | None:
        """Return the network namespace of a node."""
        node = self[number]
        return node.namespace if node is not None else None

    def out_of_memory(self) -> int:
        """Return how many processes the kernel has killed because a node ran out of memory."""
        if self.cluster is None:
            return 0
        return sum(node.memory.killed() for node in self.cluster if node.memory is not None)

    @contextmanager
    def links_open(self) -> Generator[None]:
        """Remove the limits of links while data sets are placed.

        Slow links would only add waiting time.
        """
        if self.cluster is None:
            yield
            return
        rates = {node.name: node.settings.link for node in self.cluster}
        slow = [
            name
            for name, link in rates.items()
            if link.rate_bytes_per_s is not None or link.delay_s
        ]
        for name in slow:
            self.cluster.set_link(name, replace(rates[name], rate_bytes_per_s=None, delay_s=0.0))
        try:
            yield
        finally:
            for name in slow:
                self.cluster.set_link(name, rates[name])


def wanted(target: Target, nodes: int) -> bool:
    """Return whether a whole plot needs nodes."""
    return target.needs_cluster() or nodes > 1


@contextmanager
def built(
    journal: Journal, target: Target, resolved: Resolved, count: int, sources: Iterable[Target] = ()
) -> Generator[Nodes]:
    """Build the nodes of a whole plot, `count` of which run jobs; tear them down afterwards.

    `sources`: targets in addition to the one under test. Raises HeadraceError.
    """
    needing = [each for each in (target, *sources) if each is target or each.needs_cluster()]
    if not any(wanted(each, count) for each in needing):
        yield Nodes()
        return
    clients = client_nodes(resolved.site, count)
    servers = [node for each in needing for node in each.nodes_wanted(resolved.site)]
    if clash := {node.name for node in clients} & {node.name for node in servers}:
        raise HeadraceError(
            f"a server has the name of a node that runs jobs: {', '.join(sorted(clash))}"
        )
    with Cluster.build(journal, [*clients, *servers]) as cluster:
        yield Nodes(cluster, tuple(node.name for node in clients))
