"""Fault `replica-lost`: one of several servers dies and loses its drive.

It returns with an empty drive, which is filled from the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from headrace.faults import FaultOptions
from headrace.faults.servers import ServerFault, ServerFaultOptions
from headrace.system.servers import Server
from headrace.targets import Location

if TYPE_CHECKING:
    from headrace.system.journal import Journal


class ReplicaLostOptions(ServerFaultOptions):
    """`[[fault]]` with `what = "replica-lost"`. `duration` is how long the server is away."""


class ReplicaLost(ServerFault):
    """One of N bricks, data nodes or drives, lost with its data and replaced."""

    kind: ClassVar[str] = "replica-lost"
    Options: ClassVar[type[FaultOptions]] = ReplicaLostOptions

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._server: Server | None = None

    def inject_server(self, server: Server, location: Location, journal: Journal) -> None:
        self._server = server
        server.kill()
        self.seen["lost_copies_bytes"] = server.lose_storage()

    def lift_server(self) -> None:
        if self._server is not None:
            self.seen["restart_s"] = self._server.restart(self.options.patience)
            self._server.refill()
