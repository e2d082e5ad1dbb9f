"""The servers of TCP connections, from /proc/PID/net/tcp (proc(5))."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from pathlib import Path

_KEPT = 10_000
_AGAIN_S = 5.0
"""A socket without a connection may be connected later."""
_LISTENING = b"0A"
"""TCP_LISTEN of include/net/tcp_states.h."""


class Peers:
    """Remembers the peer of each socket: the kernel takes milliseconds to list its connections."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, str | None]] = {}

    def of_socket(self, pid: int, link: str) -> str | None:
        """Return `HOST:PORT` of the server to which a socket is connected.

        None for a socket that listens, and for a connection that was accepted there: its program is
        the server. Empty for all other sockets. `link`: of the descriptor, `socket:[INODE]`.
        """
        until_s, known = self._known.get(link, (-1e9, ""))
        now_s = time.monotonic()
        if now_s > until_s:
            known = _peer_of(pid, link[8:-1].encode())
            if len(self._known) > _KEPT:
                self._known.clear()
            self._known[link] = (now_s + _AGAIN_S if known == "" else float("inf"), known)
        return known


def _peer_of(pid: int, inode: bytes) -> str | None:
    mine: list[bytes] = []
    listening: set[bytes] = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{table}").read_bytes().splitlines()[1:]:
                # sl, local address, remote address, state, queues, timer, retransmissions, user,
                # timeout, inode
                fields = line.split(maxsplit=10)
                if fields[9] == inode:
                    mine = fields
                if fields[3] == _LISTENING:
                    listening.add(fields[1].rpartition(b":")[2])
    if not mine:
        return ""
    return None if mine[1].rpartition(b":")[2] in listening else _address(mine[2].decode())


def _address(text: str) -> str:
    """Return HOST:PORT of an address as /proc/net/tcp writes it."""
    host, _, port = text.partition(":")
    words = [struct.pack("=I", int(host[at : at + 8], 16)) for at in range(0, len(host), 8)]
    if len(words) == 1:
        return f"{socket.inet_ntop(socket.AF_INET, words[0])}:{int(port, 16)}"
    found = socket.inet_ntop(socket.AF_INET6, b"".join(words)).removeprefix("::ffff:")
    return f"{found}:{int(port, 16)}" if "." in found else f"[{found}]:{int(port, 16)}"
