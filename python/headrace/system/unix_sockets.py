"""Base layer: connect to Unix sockets with paths of any length.

The address of a Unix socket has at most 107 bytes (unix(7)), fewer than a path may have.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

LONGEST = 107
"""Bytes of the longest path that is itself an address."""


def connect(connection: socket.socket, path: Path) -> None:
    """Connect to the socket at a path. Raises OSError as `socket.connect` does."""
    if len(os.fsencode(path)) <= LONGEST:
        connection.connect(str(path))
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        connection.connect(f"/proc/self/fd/{directory}/{path.name}")
    finally:
        os.close(directory)
