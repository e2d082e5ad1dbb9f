"""Free ports for servers that tests start."""

from __future__ import annotations

import random
import socket

_BELOW_EPHEMERAL = range(15_000, 32_000)
"""Ports that no outgoing connection of another test is given."""

_CHOSEN: list[socket.socket] = []
"""Names that this process holds: no test beside it is given their ports."""


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """Return a port of TCP, or of UDP, on which nothing listens on loopback.

    No other process of tests is given it while this one lives: its server may start late.
    """
    while True:
        port = random.SystemRandom().choice(_BELOW_EPHEMERAL)
        chosen = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # An abstract name: the kernel forgets it with the process.
            chosen.bind(f"\0headrace-test-port-{kind.name}-{port}")
            with socket.socket(socket.AF_INET, kind) as there:
                if kind == socket.SOCK_STREAM:
                    there.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                there.bind(("127.0.0.1", port))
        except OSError:
            chosen.close()
            continue
        _CHOSEN.append(chosen)
        return port
