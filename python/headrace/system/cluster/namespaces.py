"""Ground: network namespaces: made with an undo entry, entered by a thread, and their interfaces' counters."""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.errors import HeadraceError
from headrace.system.requirements import require_program

if TYPE_CHECKING:
    from headrace.system.journal import Entry, Journal

Value = TypeVar("Value")

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
FOLDER = Path("/run/netns")
"""Where iproute2 keeps named namespaces."""
COUNTERS = ("rx_bytes", "rx_packets", "rx_dropped", "tx_bytes", "tx_packets", "tx_dropped")


@dataclass(frozen=True)
class Interface:
    """A network interface, maybe in another namespace."""

    label: str
    """What people call it: the node that hangs on it."""
    name: str
    namespace: str | None = None
    """None: the one that this process is in."""
    reversed: bool = False
    """True for a port of a switch: what it sends is what the node receives."""


def make_namespace(journal: Journal, name: str) -> Entry:
    """Makes a network namespace with its loopback up; undoing the entry deletes it (once its processes are gone too)."""
    entry = journal.begin("delete_netns", name=name)
    try:
        run_ip("netns", "add", name)
        run_ip("-n", name, "link", "set", "lo", "up")
    except BaseException:
        journal.undo(entry)
        raise
    return entry


def run_ip(*arguments: str, program: str = "ip", batch: str | None = None) -> str:
    """Runs `ip` or `tc` (`batch`: lines for its `-batch -`). Raises HeadraceError with its own words."""
    argv = [require_program(program), *arguments]
    if batch is not None:
        argv += ["-batch", "-"]
    done = subprocess.run(argv, input=batch or "", capture_output=True, text=True, timeout=30)
    if done.returncode != 0:
        words = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise HeadraceError(f"{program} {' '.join(arguments)}: {words}")
    return done.stdout


def enter(namespace: str) -> None:
    """Takes the calling thread into a network namespace, for good. Raises HeadraceError."""
    try:
        handle = os.open(FOLDER / namespace, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise HeadraceError(f"the network namespace {namespace} is gone: {error.strerror}") from error
    try:
        if _libc.setns(handle, _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise HeadraceError(f"the network namespace {namespace} cannot be entered: {os.strerror(number)}")
    finally:
        os.close(handle)


def call_inside(namespace: str | None, function: Callable[[], Value]) -> Value:
    """Calls a function in a thread that is in a network namespace; sockets and files of /proc/net that it opens stay there."""
    if namespace is None:
        return function()
    found: list[Value] = []
    failures: list[BaseException] = []

    def inside() -> None:
        try:
            enter(namespace)
            found.append(function())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=inside, name=f"headrace-in-{namespace}")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return found[0]


class Counters:
    """Counters of a namespace's interfaces, from its /proc/net/dev, kept open."""

    def __init__(self, namespace: str | None) -> None:
        self._handle = call_inside(
            namespace, lambda: os.open("/proc/thread-self/net/dev", os.O_RDONLY | os.O_CLOEXEC)
        )

    def read(self) -> dict[str, dict[str, int]]:
        """By interface: `COUNTERS` since it was made."""
        os.lseek(self._handle, 0, os.SEEK_SET)
        pieces: list[bytes] = []
        while piece := os.read(self._handle, 1 << 16):
            pieces.append(piece)
        found: dict[str, dict[str, int]] = {}
        for line in b"".join(pieces).decode().splitlines()[2:]:
            name, _, numbers = line.partition(":")
            values: list[Any] = numbers.split()
            picked = (0, 1, 3, 8, 9, 11)
            found[name.strip()] = {
                counter: int(values[place]) for counter, place in zip(COUNTERS, picked, strict=True)
            }
        return found

    def close(self) -> None:
        """Closes the file. Safe to call twice."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
