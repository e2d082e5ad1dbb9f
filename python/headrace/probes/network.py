"""Probe `network`: bytes, packets and drops of the interfaces that carry the target's data, from the kernel's /proc/net/dev.

Of nodes that were built here it watches the switch's end of each cable, which sees all that a node sends and receives.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar

from headrace.errors import HeadraceError
from headrace.probes import Probe, Totals, Watch
from headrace.system.cluster import Interface
from headrace.system.cluster.namespaces import COUNTERS, Counters

_TURNED = {name: ("tx" if name.startswith("rx") else "rx") + name[2:] for name in COUNTERS}


class _Watched:
    """One interface's growth."""

    def __init__(self, interface: Interface, now: dict[str, int]) -> None:
        self.interface = interface
        self.first = self.last = now


class NetworkProbe(Probe):
    """Series an interface; totals: growth of every counter, by interface. Silent without interfaces to watch."""

    kind: ClassVar[str] = "network"

    def __init__(self) -> None:
        self._counters: dict[str | None, Counters] = {}
        self._watched: list[_Watched] = []
        self._gone: list[str] = []
        self._last_s = 0.0

    def start(self, watch: Watch) -> None:
        """Opens the counters. An interface that is not there is told of in the totals."""
        self._watched, self._gone = [], []
        for namespace in {interface.namespace for interface in watch.interfaces}:
            try:
                self._counters[namespace] = Counters(namespace)
            except (OSError, HeadraceError):
                continue
        now = self._read()
        for interface in watch.interfaces:
            found = _of(interface, now)
            if found is None:
                self._gone.append(interface.label)
            else:
                self._watched.append(_Watched(interface, found))
        self._last_s = time.monotonic()

    def _read(self) -> dict[str | None, dict[str, dict[str, int]]]:
        found: dict[str | None, dict[str, dict[str, int]]] = {}
        for namespace, counters in self._counters.items():
            try:
                found[namespace] = counters.read()
            except OSError:
                continue
        return found

    def sample(self) -> list[dict[str, Any]]:
        """One row an interface."""
        if not self._watched:
            return []
        rows: list[dict[str, Any]] = []
        now, now_s = self._read(), time.monotonic()
        span_s = max(now_s - self._last_s, 1e-6)
        self._last_s = now_s
        for watched in self._watched:
            read, label = _of(watched.interface, now), watched.interface.label
            if read is None:
                if label not in self._gone:
                    self._gone.append(label)
                continue
            grown = {counter: read[counter] - watched.last[counter] for counter in COUNTERS}
            watched.last = read
            rows.append(
                {
                    "interface": label,
                    "received_bytes_per_s": grown["rx_bytes"] / span_s,
                    "sent_bytes_per_s": grown["tx_bytes"] / span_s,
                    "received_packets_per_s": grown["rx_packets"] / span_s,
                    "sent_packets_per_s": grown["tx_packets"] / span_s,
                    "dropped": grown["rx_dropped"] + grown["tx_dropped"],
                }
            )
        return rows

    def finish(self) -> Totals:
        """By interface: `bytes_received, bytes_sent, dropped`; `gone` names those that went away."""
        self.sample()
        totals: dict[str, Any] = {}
        for watched in self._watched:
            grown = {counter: watched.last[counter] - watched.first[counter] for counter in COUNTERS}
            totals[watched.interface.label] = {
                "bytes_received": grown["rx_bytes"],
                "bytes_sent": grown["tx_bytes"],
                "dropped": grown["rx_dropped"] + grown["tx_dropped"],
            }
        for counters in self._counters.values():
            counters.close()
        self._counters, self._watched = {}, []
        if self._gone:
            totals["gone"] = self._gone
        return Totals(totals)


def _of(interface: Interface, read: dict[str | None, dict[str, dict[str, int]]]) -> dict[str, int] | None:
    """The counters of an interface, from the side of the node that hangs on it."""
    found = read.get(interface.namespace, {}).get(interface.name)
    if found is None or not interface.reversed:
        return found
    return {_TURNED[counter]: value for counter, value in found.items()}
