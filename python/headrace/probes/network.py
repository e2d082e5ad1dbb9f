"""Probe `network`: bytes, packets and drops of the interfaces that carry the target's data, from sysfs.

Counters as in the kernel's Documentation/ABI/testing/sysfs-class-net-statistics.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, ClassVar

from headrace.probes import Probe, Totals, Watch
from headrace.system.accounting import CounterFile

_COUNTERS = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_dropped", "tx_dropped")


class _Interface:
    """One interface's counters, kept open."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.files: dict[str, CounterFile] = {}
        try:
            for counter in _COUNTERS:
                self.files[counter] = CounterFile(Path("/sys/class/net") / name / "statistics" / counter, 32)
            self.first = self.last = self.read()
        except OSError:
            self.close()
            raise
        self.last_s = time.monotonic()

    def read(self) -> dict[str, int]:
        return {counter: int(file.read()) for counter, file in self.files.items()}

    def close(self) -> None:
        for file in self.files.values():
            file.close()


class NetworkProbe(Probe):
    """Series an interface; totals: growth of every counter, by interface. Silent without interfaces to watch."""

    kind: ClassVar[str] = "network"

    def __init__(self) -> None:
        self._interfaces: list[_Interface] = []
        self._gone: list[str] = []

    def start(self, watch: Watch) -> None:
        """Opens the counters. An interface that is not there is told of in the totals."""
        self._interfaces, self._gone = [], []
        for name in watch.interfaces:
            try:
                self._interfaces.append(_Interface(name))
            except OSError:
                self._gone.append(name)

    def sample(self) -> list[dict[str, Any]]:
        """One row an interface."""
        rows: list[dict[str, Any]] = []
        for interface in self._interfaces:
            try:
                now, now_s = interface.read(), time.monotonic()
            except OSError:
                if interface.name not in self._gone:
                    self._gone.append(interface.name)
                continue
            span_s = max(now_s - interface.last_s, 1e-6)
            grown = {counter: now[counter] - interface.last[counter] for counter in _COUNTERS}
            interface.last, interface.last_s = now, now_s
            rows.append(
                {
                    "interface": interface.name,
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
        for interface in self._interfaces:
            grown = {counter: interface.last[counter] - interface.first[counter] for counter in _COUNTERS}
            totals[interface.name] = {
                "bytes_received": grown["rx_bytes"],
                "bytes_sent": grown["tx_bytes"],
                "dropped": grown["rx_dropped"] + grown["tx_dropped"],
            }
            interface.close()
        self._interfaces = []
        if self._gone:
            totals["gone"] = self._gone
        return Totals(totals)
