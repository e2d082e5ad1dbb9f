"""Fault `server-killed`: a server's processes are killed (SIGKILL) and lose their memory.

The server restarts when the fault ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from headrace.faults import FaultOptions, ModelledFault
from headrace.faults.servers import ServerFault, ServerFaultOptions
from headrace.system.servers import Server
from headrace.targets import Location

if TYPE_CHECKING:
    from headrace.system.journal import Journal


class ServerKilledOptions(ServerFaultOptions):
    """`[[fault]]` with `what = "server-killed"`. `duration` is how long it is dead."""


class ServerKilled(ServerFault):
    """A server that crashes and restarts with the data on its drives."""

    kind: ClassVar[str] = "server-killed"
    Options: ClassVar[type[FaultOptions]] = ServerKilledOptions

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._server: Server | None = None

    def model(self) -> ModelledFault:
        return ModelledFault(host={"kind": "server-down"})

    def inject_server(self, server: Server, location: Location, journal: Journal) -> None:
        self._server = server
        self.seen["processes"] = len(server.kill())

    def lift_server(self) -> None:
        if self._server is not None:
            self.seen["restart_s"] = self._server.restart(self.options.patience)
