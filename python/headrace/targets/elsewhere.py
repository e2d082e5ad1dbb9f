"""Targets: the storage that a node on another machine has for itself, set up by the node's agent.

This is not a target kind: `local_drives.on_nodes` makes one for each node. Nothing here touches a
file or device of this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import override

from headrace.errors import HeadraceError, Problem, UnsupportedLevelError
from headrace.scenario import DriveFaultSpec
from headrace.system.claims import Place
from headrace.system.emulator import Report
from headrace.targets import Location, Setting, Target, TargetContext
from headrace.targets.node_storage import NodeLocation, NodeStorage, TargetOfNode


@dataclass(frozen=True)
class DriveElsewhere:
    """An emulated drive of a node on another machine."""

    storage: NodeStorage
    target: str
    number: int
    name: str
    """Name of the node and kernel name there."""

    def report(self) -> Report:
        """Return statistics since the last `reset_report`."""
        return self.storage.drive_report(self.target, self.number)

    def reset_report(self) -> None:
        """Reset the statistics."""
        self.storage.reset_drive_report(self.target, self.number)

    def inject(self, fault: DriveFaultSpec) -> int:
        """Raise UnsupportedLevelError: faults are injected on this machine only."""
        raise UnsupportedLevelError("no fault can be injected into a drive on another machine yet")

    def lift(self, fault: int) -> int:
        """End a fault now; there is none."""
        return 0


class TargetElsewhere(Target):
    """A target of one node, as the engine sees it."""

    def __init__(self, target: Target) -> None:
        """`target`: the target with the options of this node; it is not set up here."""
        super().__init__(target.name, target.options)
        self.kind_of_node = type(target).kind
        self._storage: NodeStorage | None = None

    def data(self, forced_devices: frozenset[str]) -> TargetOfNode:
        """Return what the node makes it from."""
        return TargetOfNode(
            self.kind_of_node, self.name, _options(self.options), tuple(sorted(forced_devices))
        )

    @override
    def check(self, forced_devices: frozenset[str]) -> list[Problem]:
        """Return nothing: its node is asked (`NodeStorage.check_target`)."""
        return []

    @override
    def claims(self) -> list[Place]:
        """Return nothing: its node claims its places."""
        return []

    @override
    def free_bytes(self) -> int | None:
        return None

    @override
    def prepare(self, context: TargetContext) -> Location:
        (self._storage,) = context.storages
        found = self._storage.prepare_target(self.data(context.forced_devices))
        return self._location(self._storage, found, context.agents[0].name)

    def _location(self, storage: NodeStorage, found: NodeLocation, node: str) -> Location:
        return Location(
            directory=Path(found.directory),
            elsewhere=True,
            device_names=found.device_names,
            own_device=found.own_device,
            network=found.network,
            provenance=found.provenance,
            description={"node": node, **found.description},
            emulated=tuple(
                DriveElsewhere(storage, self.name, number, f"{node}/{name}")
                for number, name in enumerate(found.drives)
            ),
            disks=found.disks,
        )

    @property
    def is_lost(self) -> bool:
        """Whether its node cannot be reached."""
        return self._storage is not None and self._storage.is_lost

    @override
    def apply(self, options: Any, context: TargetContext) -> list[Setting]:
        return self._on_node().apply_target(self.name, _options(options))

    @override
    def read_settings(self) -> dict[str, object]:
        return self._on_node().read_target(self.name)

    @override
    def release(self, context: TargetContext) -> None:
        if self._storage is not None:
            self._storage.release_target(self.name)
            self._storage = None

    def _on_node(self) -> NodeStorage:
        if self._storage is None:
            raise HeadraceError(f"target {self.name} is not set up on its node")
        return self._storage


def _options(options: Any) -> dict[str, object]:
    # Only fields that were written: a rule about a given field must not apply to its default.
    return options.model_dump(mode="json", exclude_unset=True)


def same_places(claims: Sequence[tuple[str, str, Sequence[str]]]) -> list[tuple[str, str, str]]:
    """Return (node, other node, path) for every path that two nodes of one machine would use.

    `claims`: name of a node, its kernel, its paths.
    """
    found: list[tuple[str, str, str]] = []
    first: dict[tuple[str, str], str] = {}
    for node, kernel, paths in claims:
        for path in paths:
            other = first.setdefault((kernel, path), node)
            if other != node:
                found.append((other, node, path))
    return found
