"""Which nodes a storage means by its host names and addresses of servers."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from functools import cache


class NodeNames:
    """The nodes of a trial, by name, with the name of the machine that each is on."""

    def __init__(self, machines: Mapping[str, str]) -> None:
        self._machines = dict(machines)

    def nodes_of(self, server: str) -> tuple[str, ...]:
        """Return the nodes that are on the machine of a server: none for other machines.

        Names are equal without regard to case, and a short name is equal to a full one that begins
        with it. Otherwise the machines' addresses decide, without those of the loopback.
        """
        if server in self._machines:
            return (server,)
        return tuple(
            node
            for node, machine in self._machines.items()
            if any(_is_same(server, name) for name in (node, machine) if name)
        )


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
