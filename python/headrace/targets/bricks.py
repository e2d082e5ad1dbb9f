"""Targets: base of kinds that store on many servers or on local drives of the compute nodes.

`bricks = { on = "node" }` places one brick on every node that runs jobs; with `servers = N`, or on
a [site.server.NAME], bricks have their own nodes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

from typing_extensions import override

from headrace.errors import HeadraceError, Problem, UnsupportedLevelError
from headrace.site import Site, SiteServer
from headrace.system.cluster import Node, NodeSettings
from headrace.targets import ModelledStorage, TargetContext
from headrace.targets.exports import Export
from headrace.targets.served import ServedTarget


class BricksTarget(ServedTarget):
    """A target with `bricks` among its options."""

    @abstractmethod
    def copies(self) -> int:
        """Return the number of servers that the copies or pieces of one file need."""

    @property
    def _site_name(self) -> str | None:
        """The [site.server.NAME] that the bricks are on."""
        on = self.options.bricks.on
        return self.options.server or (None if on == "node" else on)

    @override
    def site_server(self, site: Site | None) -> SiteServer | None:
        name = self._site_name
        if name is None:
            return None
        if site is None or name not in site.server:
            raise HeadraceError(
                f"target {self.name}: bricks are on {name!r}, and there is no [site.server.{name}]"
            )
        return site.server[name]

    @override
    def server_count(self, site: Site | None) -> int:
        """Return the number in the options or the site, otherwise the number that all copies of a
        file need."""
        found = self.site_server(site)
        return self.options.servers or (found.count if found is not None else self.copies())

    @override
    def server_node(self, number: int) -> str:
        return f"{self._site_name or self.name}-{number}"

    def separate_servers(self) -> bool:
        """Return whether bricks have their own nodes; otherwise they are on the nodes that run
        jobs."""
        return self._site_name is not None or self.options.servers is not None

    @override
    def nodes_wanted(self, site: Site | None) -> tuple[NodeSettings, ...]:
        return super().nodes_wanted(site) if self.separate_servers() else ()

    def modelled_bricks(self, site: Site | None, tuning: Mapping[str, object]) -> ModelledStorage:
        """Return the bricks where a measured study has them: on servers, or on the compute
        nodes."""
        place = self.served if self.separate_servers() else self.on_bricks
        return place(site, self.options.bricks, tuning)

    @override
    def export(self) -> Export:
        return self.options.bricks

    def brick_nodes(self, context: TargetContext) -> list[Node]:
        """Return the nodes with bricks. Raises UnsupportedLevelError if they are too few."""
        cluster = self.cluster(context)
        if self.separate_servers():
            names = {f"{self._site_name or self.name}-{number}" for number in range(len(cluster))}
            nodes = [node for node in cluster if node.name in names - set(context.client_nodes)]
        else:
            nodes = self.clients(context)
        if len(nodes) < self.copies():
            raise UnsupportedLevelError(f"target {self.name}: {self._fewer(len(nodes))}")
        return nodes

    def _fewer(self, servers: int) -> str:
        noun = "node with a brick is" if servers == 1 else "nodes with bricks are"
        return (
            f"{servers} {noun} fewer than the {self.copies()} that a file's copies or pieces "
            "have to be on"
        )

    @override
    def check(self, forced_devices: frozenset[str]) -> list[Problem]:
        problems = super().check(forced_devices)
        if reason := self._too_few():
            problems.append(
                Problem(
                    reason,
                    f"target {self.name}",
                    "give it more servers, or fewer copies",
                    fatal=False,
                    without="its trials are recorded as unsupported",
                    level=("replicas", str(self.options.replicas)),
                )
            )
        return problems

    def _too_few(self) -> str | None:
        servers = self.options.servers
        if not self.needs_cluster() or servers is None or servers >= self.copies():
            return None
        return self._fewer(servers)

    @override
    def unsupported(self) -> str | None:
        return self._too_few() or super().unsupported()
