"""The meters of a node process, as the engine sees them: every method is a call."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from headrace.launchers.remote.connection import NodeConnection
from headrace.meters.node_meters import MeterLack, MeterOfNode, NodeMeters, PowerNow
from headrace.meters.sampling import MeterLog


class RemoteNodeMeters(NodeMeters):
    """The meters of another machine. Raises LauncherLostError when the node is lost."""

    def __init__(self, connection: NodeConnection) -> None:
        self._connection = connection
        self._now: list[PowerNow] = []

    @override
    def check(self, meters: Sequence[MeterOfNode]) -> list[MeterLack]:
        return self._connection.call(NodeMeters.check, meters)

    @override
    def begin(self, meters: Sequence[MeterOfNode]) -> None:
        self._connection.forget(NodeMeters.now)
        self._now = []
        self._connection.call(NodeMeters.begin, meters)

    @override
    def wait(self, patience_s: float) -> None:
        self._connection.call(NodeMeters.wait, patience_s)

    @override
    def now(self) -> list[PowerNow]:
        found = self._connection.glance(NodeMeters.now)
        self._now = self._now if found is None else found
        return self._now

    @override
    def end(self) -> None:
        self._connection.call(NodeMeters.end)

    @override
    def logs(self, patience_s: float) -> list[MeterLog]:
        return self._connection.call(NodeMeters.logs, patience_s)
