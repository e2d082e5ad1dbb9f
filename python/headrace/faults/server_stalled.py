"""Fault `server-stalled`: a server stops (SIGSTOP) and later continues.

Meanwhile connections stay open and get no answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from headrace.errors import Problem
from headrace.faults import FaultOptions, ModelledFault
from headrace.faults.servers import ServerFault, ServerFaultOptions
from headrace.system.servers import Server
from headrace.targets import Location

if TYPE_CHECKING:
    from headrace.system.journal import Journal


class ServerStalledOptions(ServerFaultOptions):
    """`[[fault]]` with `what = "server-stalled"`."""


class ServerStalled(ServerFault):
    """A server that hangs."""

    kind: ClassVar[str] = "server-stalled"
    Options: ClassVar[type[FaultOptions]] = ServerStalledOptions

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._server: Server | None = None

    def check(self) -> list[Problem]:
        return without_end(self)

    def model(self) -> ModelledFault:
        return ModelledFault(host={"kind": "server-down"})

    def inject_server(self, server: Server, location: Location, journal: Journal) -> None:
        self._server = server
        self.seen["processes"] = len(server.pause())

    def lift_server(self) -> None:
        if self._server is not None:
            self._server.resume()


def without_end(fault: ServerFault) -> list[Problem]:
    """Return the problem that the fault has no end although jobs can only wait for its end."""
    if fault.options.duration is not None:
        return []
    what = f"{fault.kind} without an end: jobs that wait for the server would never be done"
    return [Problem(what, f"fault {fault.options.label}", 'give its duration: duration = "5 s"')]
