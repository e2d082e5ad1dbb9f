"""What the threads of a process tree do at one moment, from /proc, unprivileged.

A thread that sleeps names the function of the kernel in which it does (`wchan` of proc(5)): of
another user's processes it is `0`. The words are those of Linux 4.18 to 6.18.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from headrace.system.accounting import CounterFile, descendants
from headrace.system.has_cpu import has_cpu
from headrace.system.wait_channels import ChannelKind, channel_of
from headrace.watching.ledger import State, StorageWait
from headrace.watching.places import Places
from headrace.watching.states import IDLE, RUNNING
from headrace.watching.together import SeenThread

Doing = Literal[
    "running", "block", "network", "fuse", "sleep", "connection", "pipe", "lock", "file-lock",
    "stopped", "other",
]  # fmt: skip
_OF_CHANNEL: dict[ChannelKind, Doing] = {
    "network": "network", "fuse": "fuse", "sleep": "sleep", "connection": "connection",
    "pipe": "pipe", "lock": "lock", "file-lock": "file-lock", "child": "other",
    "requests": "block",
}  # fmt: skip
_PLACES = Places()
"""Remembers the peers of sockets: the kernel takes milliseconds to list its connections."""
_OF_STATE: dict[str, Doing] = {"R": "running", "D": "block", "T": "stopped", "t": "stopped"}
ORDER: tuple[Doing, ...] = (
    "running", "block", "network", "fuse", "sleep", "connection", "pipe", "lock", "file-lock",
    "stopped", "other",
)  # fmt: skip
"""What counts for a tree of processes whose threads do several things."""
STORAGE: tuple[Doing, ...] = ("block", "network", "fuse")
_ON_STORAGE = State(StorageWait("block", "")), State(StorageWait("network", ""))
_STATES: dict[Doing, State] = {
    "running": RUNNING, "block": _ON_STORAGE[0], "network": _ON_STORAGE[1], "fuse": _ON_STORAGE[1],
}  # fmt: skip


class TreeLook(NamedTuple):
    """What a tree of processes does at one moment."""

    what: Doing | None
    """Of the tree as a whole; None if none of its processes is alive."""
    running: int
    """Its threads that run or wait for a CPU."""
    on_storage: int
    """Its threads that wait for storage."""
    threads: tuple[SeenThread, ...] = ()
    """What each of its threads does."""


def doing(pids: Iterable[int]) -> TreeLook:
    """Return what these processes do now.

    A thread that runs counts before one that waits for storage, and that before the first thread of
    a process without children: threads of libraries wait all the time.
    """
    found: set[Doing] = set()
    seen: list[SeenThread] = []
    for pid in pids:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
                state = _state(pid, thread)
                if state is None:
                    continue
                first = int(thread) == pid
                what = _what(state, pid, thread, first=first)
                seen.append(SeenThread(int(thread), _STATES.get(what, IDLE), what == "running"))
                if first or ORDER.index(what) <= ORDER.index("fuse"):
                    found.add(what)
    # A parent waits for its child: that is `other`, and the child's wait counts.
    running = sum(each.running for each in seen)
    on_storage = sum(each.state in _ON_STORAGE for each in seen)
    what = min(found, key=ORDER.index, default=None)
    return TreeLook(what, running, on_storage, _with_cpus(seen))


def _with_cpus(seen: Sequence[SeenThread]) -> tuple[SeenThread, ...]:
    """Return the threads of a look with which of them have a CPU, where that matters."""
    if len(seen) <= 1:
        return tuple(seen)
    return tuple(
        each._replace(has_cpu=has_cpu(each.thread)) if each.running else each for each in seen
    )


def tree(pid: int) -> Sequence[int]:
    """Return a process and its living descendants."""
    return (pid, *descendants(pid))


def _state(pid: int, thread: str) -> str | None:
    with contextlib.suppress(OSError), CounterFile(f"/proc/{pid}/task/{thread}/stat", 512) as file:
        state = file.read().rpartition(b")")[2].split(maxsplit=1)[0].decode()
        return None if state in "ZXx" else state
    return None


def _what(state: str, pid: int, thread: str, *, first: bool) -> Doing:
    if state == "R":
        return "running"
    where = b""
    with contextlib.suppress(OSError), CounterFile(f"/proc/{pid}/task/{thread}/wchan", 128) as file:
        where = file.read()
    if first and where == b"wait_woken":  # TCP and terminals alike
        return "connection" if connections([pid]) else "pipe"
    channel = channel_of(where)
    # Of other threads it does not count, and to look costs more than all the rest.
    if first and channel.kind == "poll":
        return "connection" if connections([pid]) else "sleep"
    return _OF_CHANNEL.get(channel.kind) or _OF_STATE.get(state, "other")


def connections(pids: Iterable[int]) -> list[str]:
    """Return `host:port` of the TCP connections that these processes have, sorted."""
    found = set[str]()
    for pid in pids:
        with contextlib.suppress(OSError):
            for entry in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
                with contextlib.suppress(OSError):
                    link = os.readlink(f"/proc/{pid}/fd/{entry}")  # noqa: PTH115
                    wait = _PLACES.of_descriptor(pid, int(entry)) if "socket:" in link else None
                    if wait is not None:
                        found.add(wait.place)
    return sorted(found)
