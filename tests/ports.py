"""Free ports for servers that tests start."""

from __future__ import annotations

import random
import socket

_BELOW_EPHEMERAL = range(15_000, 32_000)
"""Ports that no outgoing connection of another test is given."""


def free_port() -> int:
    """Return a port on which nothing listens on loopback."""
    while True:
        port = random.SystemRandom().choice(_BELOW_EPHEMERAL)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
