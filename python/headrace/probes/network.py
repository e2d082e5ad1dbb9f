"""Probe `network`: traffic of the target's network interfaces, from /proc/net/dev.

Counts bytes, packets and drops. For nodes that Headrace built it samples the switch end of each
link, which sees all traffic of a node.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

from typing_extensions import override

from headrace.errors import HeadraceError
from headrace.probes import Probe, Totals, Watch
from headrace.system.cluster.namespaces import COUNTERS, Counters
from headrace.system.network_interface import Interface

_TURNED = {name: ("tx" if name.startswith("rx") else "rx") + name[2:] for name in COUNTERS}


class _Watched:
    """Counters of one interface."""

    def __init__(self, interface: Interface, now: dict[str, int]) -> None:
        self.interface = interface
        self.first = self.last = now


class NetworkProbe(Probe):
    """One series per interface. Totals: increase of every counter, by interface. No rows without
    interfaces."""

    kind: ClassVar[str] = "network"

    def __init__(self) -> None:
        self._counters: dict[str | None, Counters] = {}
        self._watched: list[_Watched] = []
        self._gone: list[str] = []
        self._last_s = 0.0

    def start(self, watch: Watch) -> None:
        """Open the counters. A missing interface makes the trial invalid."""
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
        """Return one row per interface."""
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
        """Return `bytes_received, bytes_sent, dropped` by interface; `gone` names those that
        disappeared."""
        self.sample()
        totals: dict[str, Any] = {}
        for watched in self._watched:
            grown = {
                counter: watched.last[counter] - watched.first[counter] for counter in COUNTERS
            }
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
        invalid = [
            (
                "interface-gone",
                f"the counters of {name} could not be read to the end of the trial: no such "
                "interface",
            )
            for name in self._gone
        ]
        return Totals(totals, invalid)

    @classmethod
    @override
    def combine(cls, values: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        """Return the counters of all interfaces; equal labels must be one interface."""
        gone = [label for totals in values.values() for label in totals.get("gone", ())]
        found = {label: each for totals in values.values() for label, each in totals.items()}
        return {**found, "gone": gone} if gone else found


def _of(
    interface: Interface, read: dict[str | None, dict[str, dict[str, int]]]
) -> dict[str, int] | None:
    """Return the counters of an interface from the view of the node that it connects."""
    found = read.get(interface.namespace, {}).get(interface.name)
    if found is None or not interface.reversed:
        return found
    return {_TURNED[counter]: value for counter, value in found.items()}
