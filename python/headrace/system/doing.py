"""Base layer: what the threads of a process tree do at one moment, from /proc, unprivileged.

A thread that sleeps names the function of the kernel in which it does (`wchan` of proc(5)): of
another user's processes it is `0`. The words are those of Linux 4.18 to 6.18.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from headrace.system.accounting import CounterFile, descendants

Doing = Literal[
    "running", "block", "network", "fuse", "sleep", "connection", "pipe", "lock", "stopped", "other"
]
_WAITS: tuple[tuple[Doing, tuple[str, ...]], ...] = (
    ("fuse", ("request_wait_answer", "fuse_")),
    ("network", ("rpc_", "nfs", "__nfs", "ceph", "cl_sync", "ptlrpc", "wait_for_response", "p9_")),
    ("sleep", ("hrtimer_nanosleep", "do_nanosleep", "nanosleep", "sigsuspend", "pause")),
    ("connection", ("wait_woken", "sk_", "inet_", "tcp_", "udp_", "unix_", "__skb", "skb_")),
    ("pipe", ("pipe_", "anon_pipe", "n_tty")),
    ("lock", ("futex", "do_sys_futex")),
)
_POLLS = ("ep_poll", "do_epoll", "poll_schedule", "do_select", "do_sys_poll", "do_poll")
_OF_STATE: dict[str, Doing] = {"R": "running", "D": "block", "T": "stopped", "t": "stopped"}
ORDER: tuple[Doing, ...] = (
    "running", "block", "network", "fuse", "sleep", "connection", "pipe", "lock", "stopped", "other"
)  # fmt: skip
"""What counts for a tree of processes whose threads do several things."""
_ESTABLISHED = "01"


def doing(pids: Iterable[int]) -> Doing | None:
    """Return what these processes do as a whole; None if none of them is alive.

    A thread that runs counts before one that waits for storage, and that before the first thread of
    a process without children: threads of libraries wait all the time.
    """
    found: set[Doing] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
                state = _state(pid, thread)
                if state is None:
                    continue
                what = _what(state, pid, thread)
                if ORDER.index(what) <= ORDER.index("fuse") or int(thread) == pid:
                    found.add(what)
    # A parent waits for its child: that is `other`, and the child's wait counts.
    return min(found, key=ORDER.index, default=None)


def tree(pid: int) -> Sequence[int]:
    """Return a process and its living descendants."""
    return (pid, *descendants(pid))


def _state(pid: int, thread: str) -> str | None:
    with contextlib.suppress(OSError), CounterFile(f"/proc/{pid}/task/{thread}/stat", 512) as file:
        state = file.read().rpartition(b")")[2].split(maxsplit=1)[0].decode()
        return None if state in "ZXx" else state
    return None


def _what(state: str, pid: int, thread: str) -> Doing:
    if state == "R":
        return "running"
    where = ""
    with contextlib.suppress(OSError), CounterFile(f"/proc/{pid}/task/{thread}/wchan", 128) as file:
        where = file.read().decode(errors="replace")
    for what, beginnings in _WAITS:
        if where.startswith(beginnings):
            return what
    if where.startswith(_POLLS):
        return "connection" if connections([pid]) else "sleep"
    return _OF_STATE.get(state, "other")


def connections(pids: Iterable[int]) -> list[str]:
    """Return `host:port` of the TCP connections that these processes have, sorted."""
    inodes: set[str] = set()
    found: set[str] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for entry in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
                with contextlib.suppress(OSError):
                    target = os.readlink(f"/proc/{pid}/fd/{entry}")  # noqa: PTH115
                    if target.startswith("socket:["):
                        inodes.add(target[8:-1])
        if inodes:
            for table, bits in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
                found |= _peers(Path(f"/proc/{pid}/net/{table}"), bits, inodes)
    return sorted(found)


def _peers(table: Path, family: socket.AddressFamily, inodes: set[str]) -> set[str]:
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for line in table.read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in inodes and fields[3] == _ESTABLISHED:
                address, _, port = fields[2].partition(":")
                found.add(f"{_address(address, family)}:{int(port, 16)}")
    return found


def _address(text: str, family: socket.AddressFamily) -> str:
    """Return an address as /proc/net/tcp writes it: words of 32 bits in the machine's order."""
    import sys

    words = [bytes.fromhex(text[at : at + 8]) for at in range(0, len(text), 8)]
    if sys.byteorder == "little":
        words = [word[::-1] for word in words]
    name = socket.inet_ntop(family, b"".join(words))
    return f"[{name}]" if ":" in name else name
