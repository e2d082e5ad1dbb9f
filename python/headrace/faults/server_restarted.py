"""Fault `server-restarted`: a server is stopped and restarted at once, as for an update."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.faults import FaultOptions
from headrace.faults.servers import ServerFault, ServerFaultOptions
from headrace.system.servers import Server
from headrace.targets import Location

if TYPE_CHECKING:
    from headrace.system.journal import Journal


class ServerRestartedOptions(ServerFaultOptions):
    """`[[fault]]` with `what = "server-restarted"`. Ends when the server runs again."""


class ServerRestarted(ServerFault):
    """A server that is restarted."""

    kind: ClassVar[str] = "server-restarted"
    Options: ClassVar[type[FaultOptions]] = ServerRestartedOptions

    def inject_server(self, server: Server, location: Location, journal: Journal) -> None:
        self.seen["restart_s"] = server.restart(self.options.patience)

    def lift_server(self) -> None:
        """Do nothing: the server already runs again."""
