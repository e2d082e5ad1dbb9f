"""Base layer: build the cluster, change its links while it runs, and tear it down."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError, MissingError
from headrace.system.cgroups import MemoryLimit
from headrace.system.cluster.links import LinkSettings, apply_link
from headrace.system.cluster.namespaces import make_namespace
from headrace.system.cluster.netlink import Network, in_network
from headrace.system.cluster.nodes import Node, NodeSettings
from headrace.system.network_interface import Interface
from headrace.system.requirements import find_program, remedy

if TYPE_CHECKING:
    from headrace.system.journal import Journal, JournalEntry

_NETWORK = "10.77"
_MOST_NODES = 250
_BRIDGE = "bridge"


def why_not(instead: str = "") -> tuple[str, str] | None:
    """Return why this machine cannot build a cluster, and the remedy; None when it can. `instead`:
    what needs no such cluster."""
    for program in ("nsenter", "taskset", "setpriv"):
        if find_program(program) is None:
            return f"the program {program} is not installed", remedy(program)
    if os.geteuid() != 0:
        return (
            "building nodes and links needs root",
            f"run as root, or {instead}" if instead else "run as root",
        )
    return None


class Cluster:
    """Nodes by name, in their given order."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._entries: list[JournalEntry] = []
        self._nodes: dict[str, Node] = {}
        self.token = os.urandom(3).hex()
        self.switch = f"headrace-{self.token}-switch"
        """Name of the bridge's namespace."""

    @classmethod
    def build(cls, journal: Journal, nodes: Sequence[NodeSettings]) -> Cluster:
        """Create and connect all nodes.

        Raises MissingError, UnsupportedLevelError or HeadraceError; nothing is left then.
        """
        if missing := why_not():
            raise MissingError(missing[0], hint=missing[1])
        if len({node.name for node in nodes}) != len(nodes):
            raise HeadraceError("two nodes of the cluster have one name")
        if len(nodes) > _MOST_NODES:
            raise HeadraceError(
                f"{len(nodes)} nodes are more than the {_MOST_NODES} that can be built here"
            )
        made = cls(journal)
        try:
            made._build(nodes)
        except BaseException:
            made.close()
            raise
        return made

    def _build(self, nodes: Sequence[NodeSettings]) -> None:
        self._entries.append(make_namespace(self._journal, self.switch))
        in_network(self.switch, _add_bridge)
        for number, settings in enumerate(nodes):
            self._add(number, settings)

    def _add(self, number: int, settings: NodeSettings) -> None:
        namespace = f"headrace-{self.token}-{settings.name}"
        address = f"{_NETWORK}.0.{number + 1}"
        port = f"port{number}"
        self._entries.append(make_namespace(self._journal, namespace))

        def connect(network: Network) -> None:
            network.add_cable(port, "eth0", namespace)
            network.set(port, bridge=_BRIDGE, state="up")

        def attach(network: Network) -> None:
            network.add_address("eth0", address, 16)
            network.set("eth0", state="up")

        in_network(self.switch, connect)
        in_network(namespace, attach)
        apply_link(namespace, self.switch, port, settings.link)
        memory = None
        if settings.memory_bytes is not None:
            memory = MemoryLimit(self._journal, settings.memory_bytes)
            memory.hold_others()  # those of its jobs
        interface = Interface(settings.name, port, self.switch, reversed=True)
        self._nodes[settings.name] = Node(settings, namespace, address, interface, memory)

    def __getitem__(self, name: str) -> Node:
        try:
            return self._nodes[name]
        except KeyError:
            known = ", ".join(self._nodes)
            raise HeadraceError(f"the cluster has no node {name}; it has: {known}") from None

    def find(self, name: str) -> Node | None:
        """Return the node of that name, or None."""
        return self._nodes.get(name)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, name: object) -> bool:
        return name in self._nodes

    @property
    def interfaces(self) -> tuple[Interface, ...]:
        """The switch's end of every cable."""
        return tuple(node.port for node in self)

    def set_link(self, name: str, link: LinkSettings) -> None:
        """Change a node's cable while the cluster runs."""
        node = self[name]
        apply_link(node.namespace, self.switch, node.port.name, link)
        node.settings = replace(node.settings, link=link)

    def cut(self, name: str) -> None:
        """Disconnect a node's cable: no packets pass, connections stay open until they time out."""
        port = self[name].port.name
        in_network(self.switch, lambda network: network.set(port, state="down"))

    def mend(self, name: str) -> None:
        """Reconnect a node's cable."""
        port = self[name].port.name
        in_network(self.switch, lambda network: network.set(port, state="up"))

    def as_dict(self) -> dict[str, object]:
        """Return the nodes for the record."""
        return {"nodes": [node.as_dict() for node in self]}

    def close(self) -> None:
        """Tear the cluster down, after its programs have ended. Safe to call twice.

        Raises HeadraceError when something is left.
        """
        for node in self:
            if node.memory is not None:
                node.memory.close()
        left: list[str] = []
        while self._entries:
            result = self._journal.undo(self._entries.pop())
            if not result.done:
                left.append(result.text)
        self._nodes.clear()
        if left:
            raise HeadraceError(
                f"the cluster could not be taken down: {'; '.join(left)}", hint="headrace undo"
            )

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _add_bridge(network: Network) -> None:
    network.add_bridge(_BRIDGE)
    network.set(_BRIDGE, state="up")
