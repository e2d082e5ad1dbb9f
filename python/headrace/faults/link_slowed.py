"""Fault `link-slowed`: a server's link runs at a share of its rate.

This is what a link does that falls back to an older speed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from headrace.errors import UnsupportedLevelError
from headrace.faults import FaultOptions, ModelledFault
from headrace.faults.servers import ServerFault, ServerFaultOptions
from headrace.system.cluster import Cluster, LinkSettings
from headrace.system.servers import Server
from headrace.targets import Location

if TYPE_CHECKING:
    from headrace.system.journal import Journal


class LinkSlowedOptions(ServerFaultOptions):
    """`[[fault]]` with `what = "link-slowed"`."""

    share: float = Field(0.1, gt=0, lt=1, description="of its rate that is left")


class LinkSlowed(ServerFault):
    """A link at reduced speed."""

    kind: ClassVar[str] = "link-slowed"
    Options: ClassVar[type[FaultOptions]] = LinkSlowedOptions

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._cluster: Cluster | None = None
        self._node = ""
        self._before: LinkSettings | None = None

    def model(self) -> ModelledFault:
        return ModelledFault(host={"kind": "link-slow", "factor": self.options.share})

    def inject_server(self, server: Server, location: Location, journal: Journal) -> None:
        if location.cluster is None:
            raise UnsupportedLevelError(
                f"{self.kind}: {server.name} hangs on no link that was built for the study"
            )
        before = server.node.settings.link
        if before.rate_bytes_per_s is None:
            raise UnsupportedLevelError(
                f"{self.kind}: the link of {server.name} has no stated rate"
            )
        self._cluster, self._node, self._before = location.cluster, server.node.name, before
        slow = replace(before, rate_bytes_per_s=before.rate_bytes_per_s * self.options.share)
        self._cluster.set_link(self._node, slow)
        self.seen["rate_bytes_per_s"] = slow.rate_bytes_per_s

    def lift_server(self) -> None:
        if self._cluster is not None and self._before is not None:
            self._cluster.set_link(self._node, self._before)
