"""Which nodes a storage means by its host names and addresses of servers."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping, Sequence
from functools import cache

from headrace.engine.measure.packet_files import FilePlace


class NodeNames:
    """The nodes of a trial, by name, with the name of the machine that each is on."""

    def __init__(self, machines: Mapping[str, str]) -> None:
        self._machines = dict(machines)

    def nodes_of(self, server: str) -> tuple[str, ...]:
        """Return the nodes that are on the machine of a server: none for other machines.

        Names are equal without regard to case, and a short name is equal to a full one that begins
        with it. Otherwise the machines' addresses decide, without those of the loopback. A node's
        own name, such as node-1, may be that of any machine and says nothing.
        """
        return tuple(
            node
            for node, machine in self._machines.items()
            if machine and _is_same(server, machine)
        )

    def place_of(self, servers: Sequence[str], file: str) -> FilePlace:
        """Return the place of a file on servers, which have the names of the nodes they are."""
        renamed: list[str] = []
        near: dict[str, str] = {}
        for server in servers:
            nodes = self.nodes_of(server)
            other = f"server {server}" if server in self._machines else server
            renamed.append(nodes[0] if len(nodes) == 1 else other)
            near |= dict.fromkeys(nodes if len(nodes) > 1 else (), file)
        return FilePlace(tuple(renamed), near)


def _is_same(one: str, other: str) -> bool:
    if _is_address(one) or _is_address(other):
        return bool(_addresses(one) & _addresses(other))
    a, b = one.lower().rstrip("."), other.lower().rstrip(".")
    if a == b or a.startswith(f"{b}.") or b.startswith(f"{a}."):
        return True
    return bool(_addresses(one) & _addresses(other))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@cache
def _addresses(name: str) -> frozenset[str]:
    try:
        found = {str(each[4][0]) for each in socket.getaddrinfo(name, None)}
    except (OSError, UnicodeError):
        return frozenset()
    return frozenset(each for each in found if not ipaddress.ip_address(each).is_loopback)
