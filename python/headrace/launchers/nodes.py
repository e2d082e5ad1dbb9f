"""The nodes that a plot needs, and those that a launcher has set up for it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.launchers.agent import Agent
    from headrace.launchers.batch.options import BatchOptions
    from headrace.system.cluster import Cluster, NodeSettings


@dataclass(frozen=True)
class NodesWanted:
    """The nodes that a whole plot needs."""

    clients: tuple[NodeSettings, ...]
    """Nodes that run jobs; a launcher that cannot build nodes ignores their settings."""
    servers: tuple[NodeSettings, ...] = ()
    """Nodes for servers that targets start."""
    reason: str = ""
    """Why jobs need nodes with a network of their own; empty when they do not."""
    only_here: str = ""
    """Why nodes that are other machines cannot use the storage; empty when they can."""
    address: str = ""
    """What follows `KIND://` in `[run] on`; empty when nothing does."""
    python: str = ""
    """Path of the Python with Headrace on other machines; empty: the path of this one."""
    batch: BatchOptions | None = None
    """`[run.batch]`: how nodes are requested from a batch system."""
    silence_s: float = 90.0
    """A node on another machine that is not heard of for this time is lost."""
    patience_s: float | None = None
    """How long nodes on other machines are tried to connect to; None: once."""


@dataclass(frozen=True)
class Nodes:
    """The nodes of a whole plot: an agent for each node that runs jobs, and links, if any."""

    agents: tuple[Agent, ...]
    cluster: Cluster | None = None
    """Nodes of jobs and servers and their links, where the launcher has built them."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the nodes that run jobs; empty when jobs run directly on this machine."""
        return tuple(agent.name for agent in self.agents if agent.name)

    def by_kernel(self) -> tuple[Agent, ...]:
        """Return one agent for each kernel: for what all nodes of a kernel share."""
        from headrace.system.storage_settings import one_per_kernel

        return one_per_kernel(self.agents)

    def first(self, count: int) -> Nodes:
        """Return the first of the nodes that run jobs; links and servers stay."""
        return Nodes(self.agents[:count], self.cluster)

    def rates(self) -> dict[str, float | None]:
        """Return the rate of each node's link per direction in bytes per second, servers included.

        None means no limit.
        """
        if self.cluster is None:
            return {}
        return {node.name: node.settings.link.rate_bytes_per_s for node in self.cluster}

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
