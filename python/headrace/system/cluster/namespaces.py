"""Base layer: network namespaces of a cluster: create with an undo entry, read counters."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from headrace.system import network_namespaces
from headrace.system.cluster.netlink import in_network
from headrace.system.network_namespaces import call_inside

if TYPE_CHECKING:
    from headrace.system.journal import Journal, JournalEntry

COUNTERS = ("rx_bytes", "rx_packets", "rx_dropped", "tx_bytes", "tx_packets", "tx_dropped")


def make_namespace(journal: Journal, name: str) -> JournalEntry:
    """Create a network namespace with its loopback up.

    Undoing the entry deletes it (after its last process has ended).
    """
    entry = journal.begin("delete_netns", name=name)
    try:
        network_namespaces.create(name)
        in_network(name, lambda network: network.set("lo", state="up"))
    except BaseException:
        journal.undo(entry)
        raise
    return entry


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
