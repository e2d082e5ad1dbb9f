"""Base layer: network namespaces: create (with an undo entry), enter, read counters."""

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
"""iproute2's directory of named namespaces."""
COUNTERS = ("rx_bytes", "rx_packets", "rx_dropped", "tx_bytes", "tx_packets", "tx_dropped")


@dataclass(frozen=True)
class Interface:
    """A network interface, possibly in another namespace."""

    label: str
    """Name for the user: the connected node."""
    name: str
    namespace: str | None = None
    """None: the namespace of this process."""
    reversed: bool = False
    """True for a port of a switch: its transmitted bytes are those the node receives."""


def make_namespace(journal: Journal, name: str) -> Entry:
    """Create a network namespace with its loopback up.

    Undoing the entry deletes it (after its last process has ended).
    """
    entry = journal.begin("delete_netns", name=name)
    try:
        run_ip("netns", "add", name)
        run_ip("-n", name, "link", "set", "lo", "up")
    except BaseException:
        journal.undo(entry)
        raise
    return entry


def run_ip(*arguments: str, program: str = "ip", batch: str | None = None) -> str:
    """Run `ip` or `tc` (`batch`: lines for `-batch -`). Raises HeadraceError with its message."""
    argv = [require_program(program), *arguments]
    if batch is not None:
        argv += ["-batch", "-"]
    done = subprocess.run(argv, input=batch or "", capture_output=True, text=True, timeout=30)
    if done.returncode != 0:
        words = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise HeadraceError(f"{program} {' '.join(arguments)}: {words}")
    return done.stdout


def enter(namespace: str) -> None:
    """Move the calling thread into a network namespace for ever. Raises HeadraceError."""
    try:
        handle = os.open(FOLDER / namespace, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise HeadraceError(
            f"the network namespace {namespace} is gone: {error.strerror}"
        ) from error
    try:
        if _libc.setns(handle, _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise HeadraceError(
                f"the network namespace {namespace} cannot be entered: {os.strerror(number)}"
            )
    finally:
        os.close(handle)


def call_inside(namespace: str | None, function: Callable[[], Value]) -> Value:
    """Call a function in a thread inside a network namespace.

    Sockets and files of /proc/net that it opens stay in that namespace.
    """
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
    """Counters of a namespace's interfaces; its /proc/net/dev stays open."""

    def __init__(self, namespace: str | None) -> None:
        self._handle = call_inside(
            namespace, lambda: os.open("/proc/thread-self/net/dev", os.O_RDONLY | os.O_CLOEXEC)
        )

    def read(self) -> dict[str, dict[str, int]]:
        """Return `COUNTERS` by interface, since the interface was created."""
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
        """Close the file. Safe to call twice."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
