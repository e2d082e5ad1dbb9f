"""What a thread waits for in poll, select or epoll_wait: the server of its connections, or events.

The set of descriptors is read from the memory of the process (poll(2), select(2)) or from fdinfo of
the epoll descriptor (proc(5)). Both need the right to trace it, as its system call does.
"""

from __future__ import annotations

import contextlib
import os
import platform
import struct
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from headrace.watching.memory import memory_of
from headrace.watching.peers import Peers

_CALLS: dict[str, dict[bytes, str]] = {
    # poll, ppoll; select, pselect6; epoll_wait, epoll_pwait, epoll_pwait2
    "x86_64": {
        b"7": "poll", b"271": "poll", b"23": "select", b"270": "select",
        b"232": "epoll", b"281": "epoll", b"441": "epoll",
    },
    "aarch64": {b"73": "poll", b"72": "select", b"22": "epoll", b"441": "epoll"},
}  # fmt: skip
POLLS = _CALLS.get(platform.machine(), {})
"""System calls that wait for one of several descriptors, by number."""
_MOST = 64
"""Descriptors of a set; one that waits for more is a server."""
_KEPT_S = 2.0
_KEPT = 10_000
_WAKE_UPS = ("anon_inode:[eventfd]", "anon_inode:[timerfd]", "anon_inode:[signalfd]")
"""With which a thread wakes itself up, or another one of its process does."""


class Polls:
    """Remembers for a while what a thread polls: it mostly polls the same again."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._known: dict[tuple[int, tuple[bytes, ...]], tuple[float, str]] = {}

    def server(self, pid: int, words: list[bytes]) -> str:
        """Return `HOST:PORT` of the server whose answer is waited for, `N servers` for several.

        Empty where the thread waits for something else besides, such as a terminal, a pipe of
        another program, or clients of its own. `words`: of `syscall`, of a call in `POLLS`.
        """
        key = pid, tuple(words)
        when_s, known = self._known.get(key, (-1e9, ""))
        now_s = time.monotonic()
        if now_s - when_s > _KEPT_S:
            known = ""
            with contextlib.suppress(OSError, ValueError, IndexError, struct.error):
                known = self._server(pid, _descriptors(pid, words))
            if len(self._known) > _KEPT:
                self._known.clear()
            self._known[key] = (now_s, known)
        return known

    def _server(self, pid: int, descriptors: Iterable[int]) -> str:
        servers: set[str] = set()
        pipes: set[str] = set()
        for each in descriptors:
            link = os.readlink(f"/proc/{pid}/fd/{each}")  # noqa: PTH115 - at samples
            if link.startswith("pipe:"):
                pipes.add(link)
            elif link.startswith("socket:"):
                server = self._peers.of_socket(pid, link)
                if server is None:
                    return ""
                servers |= {server} if server else set()
            elif link not in _WAKE_UPS:
                return ""
        if not servers or (pipes and not _own_pipes(pid, pipes)):
            return ""
        return servers.pop() if len(servers) == 1 else f"{len(servers)} servers"


def _descriptors(pid: int, words: list[bytes]) -> list[int]:
    """Return what a call polls; nothing for too many. Raises OSError, ValueError."""
    kind, arguments = POLLS[words[0]], [int(word, 16) for word in words[1:7]]
    if kind == "epoll":
        lines = Path(f"/proc/{pid}/fdinfo/{arguments[0]}").read_bytes().splitlines()
        found = [int(line.split()[1]) for line in lines if line.startswith(b"tfd:")]
    elif kind == "poll":
        number = min(arguments[1], _MOST + 1)
        memory = memory_of(pid, arguments[0], 8 * number)
        found = [fd for fd, _, _ in struct.iter_unpack("=ihh", memory) if fd >= 0]
    else:
        found = sorted(
            {
                8 * at + bit
                for place in arguments[1:3]  # to read, to write; not the exceptions
                if place
                for at, byte in enumerate(memory_of(pid, place, (arguments[0] + 7) // 8))
                for bit in range(8)
                if byte >> bit & 1 and 8 * at + bit < arguments[0]
            }
        )
    return found if len(found) <= _MOST else []


def _own_pipes(pid: int, pipes: Iterable[str]) -> bool:
    """Return whether a process has both ends of each of these pipes: it wakes itself up."""
    ends: Counter[str] = Counter()
    for entry in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
        with contextlib.suppress(OSError):
            ends[os.readlink(f"/proc/{pid}/fd/{entry}")] += 1  # noqa: PTH115
    return all(ends[pipe] > 1 for pipe in pipes)
