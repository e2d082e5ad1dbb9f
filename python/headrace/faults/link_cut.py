"""Fault `link-cut`: a server's link passes nothing; connections stay open until a timeout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from headrace.errors import Problem, UnsupportedLevelError
from headrace.faults import FaultOptions, ModelledFault
from headrace.faults.server_stalled import without_end
from headrace.faults.servers import ServerFault, ServerFaultOptions
from headrace.system.cluster import Cluster
from headrace.system.servers import Server
from headrace.targets import Location

if TYPE_CHECKING:
    from headrace.system.journal import Journal


class LinkCutOptions(ServerFaultOptions):
    """`[[fault]]` with `what = "link-cut"`."""


class LinkCut(ServerFault):
    """A cable that is unplugged and plugged in again."""

    kind: ClassVar[str] = "link-cut"
    Options: ClassVar[type[FaultOptions]] = LinkCutOptions

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._cluster: Cluster | None = None
        self._node = ""

    def check(self) -> list[Problem]:
        return without_end(self)

    def model(self) -> ModelledFault:
        return ModelledFault(host={"kind": "server-down"})

    def inject_server(self, server: Server, location: Location, journal: Journal) -> None:
        if location.cluster is None:
            raise UnsupportedLevelError(
                f"{self.kind}: {server.name} hangs on no link that was built for the study"
            )
        self._cluster, self._node = location.cluster, server.node.name
        self._cluster.cut(self._node)

    def lift_server(self) -> None:
        if self._cluster is not None:
            self._cluster.mend(self._node)
