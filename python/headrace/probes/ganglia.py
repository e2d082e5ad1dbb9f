"""Probe `ganglia`: metrics of hosts from the XML that Ganglia's gmond sends over TCP.

gmond states whole seconds: its own time (`LOCALTIME`) and the age of each value (`TN`). A value
counts once, at the time of its report.
"""

from __future__ import annotations

import contextlib
import math
import socket
from collections.abc import Iterable
from typing import Any, ClassVar
from xml.parsers import expat

from pydantic import Field
from typing_extensions import override

from headrace.errors import HeadraceError
from headrace.probes.options import ProbeOptions
from headrace.probes.services import (
    MOST_BYTES,
    ClockOffset,
    Sample,
    ServiceOptions,
    ServiceProbe,
    steady_s,
)
from headrace.system.waiting import remaining

PORT = 8649


class GangliaOptions(ServiceOptions):
    """Fields of `[probe.NAME]` with `kind = "ganglia"`."""

    address: str = Field(min_length=1, description='host of a gmond: "farm", "10.0.0.1:8649"')
    hosts: tuple[str, ...] = Field((), description="names of hosts; all when not given")
    metrics: tuple[str, ...] = Field(
        ("load_one", "cpu_user", "bytes_in", "bytes_out"),
        min_length=1,
        description="names of metrics",
    )


class GangliaProbe(ServiceProbe):
    """Values of gmond by host."""

    kind: ClassVar[str] = "ganglia"
    Options: ClassVar[type[ProbeOptions] | None] = GangliaOptions
    options: GangliaOptions

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._clock = ClockOffset()
        self._reported: dict[tuple[str, str], float] = {}

    @override
    def ask(self) -> Iterable[Sample]:
        before_s = steady_s()
        text = self._text()
        state = _State(self.options)
        try:
            state.parse(text)
        except (expat.ExpatError, ValueError, KeyError) as error:
            raise HeadraceError(f"{self.options.address}: not the XML of gmond: {error}") from None
        if state.time_s is None:
            raise HeadraceError(f"{self.options.address}: no cluster in the answer of gmond")
        self._clock.add(before_s, steady_s(), state.time_s, 1.0)
        return [
            Sample(self._clock.monotonic_s(reported_s + 0.5), host, metric, value, unit)
            for host, metric, reported_s, value, unit in state.found
            if self._new(host, metric, reported_s)
        ]

    def _new(self, host: str, metric: str, reported_s: float) -> bool:
        """Return whether a value was not seen before. Times can differ by 1 s from cutting."""
        if reported_s - self._reported.get((host, metric), -math.inf) <= 1:
            return False
        self._reported[host, metric] = reported_s
        return True

    def _text(self) -> bytes:
        host, port = _place(self.options.address)
        data = bytearray()
        try:
            with socket.create_connection((host, port), self.options.timeout) as connection:
                for left_s in remaining(self.options.timeout):
                    connection.settimeout(max(left_s, 0.001))
                    piece = connection.recv(1 << 16)
                    if not piece:
                        return bytes(data)
                    data += piece
                    if len(data) > MOST_BYTES:
                        raise HeadraceError(f"{host}:{port} sends more than {MOST_BYTES} B")
            raise TimeoutError(f"not done within {self.options.timeout:g} s")
        except OSError as error:
            raise HeadraceError(
                f"gmond at {host}:{port} gives no answer: {error.strerror or error}",
                hint="check the address, and tcp_accept_channel of gmond.conf",
            ) from None

    @override
    def clock(self) -> tuple[float, float] | None:
        return (self._clock.offset_s, self._clock.uncertainty_s) if self._clock.known else None


def _place(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon:
        return address, PORT
    if not port.isdigit() or int(port) > 65535:
        raise HeadraceError(f"{address}: not HOST or HOST:PORT")
    return host.strip("[]"), int(port)


class _State:
    """The wanted values of one answer. Entities are refused: nothing expands or is fetched."""

    def __init__(self, options: GangliaOptions) -> None:
        self.time_s: float | None = None
        self.found: list[tuple[str, str, float, float, str]] = []
        """Host, metric, time of its report on the server's clock, value, unit."""
        self._hosts, self._metrics = frozenset(options.hosts), frozenset(options.metrics)
        self._host = ""

    def parse(self, text: bytes) -> None:
        """Raises ValueError and ExpatError."""
        parser = expat.ParserCreate()
        parser.StartElementHandler = self._begin
        parser.EntityDeclHandler = self._refuse
        parser.Parse(text, True)

    def _refuse(self, *_: object) -> None:
        raise ValueError("it declares entities")

    def _begin(self, name: str, fields: dict[str, str]) -> None:
        if name in ("CLUSTER", "GRID") and "LOCALTIME" in fields:
            self.time_s = float(fields["LOCALTIME"])
        elif name == "HOST":
            self._host = fields["NAME"]
        elif name == "METRIC" and fields.get("NAME") in self._metrics:
            self._add(fields)

    def _add(self, fields: dict[str, str]) -> None:
        if (self._hosts and self._host not in self._hosts) or self.time_s is None:
            return
        with contextlib.suppress(ValueError, KeyError):  # text is no value
            if float(fields["TN"]) > 4 * float(fields.get("TMAX", "inf")):
                return  # the last value of a host that is down, by Ganglia's own rule
            value, reported_s = float(fields["VAL"]), self.time_s - float(fields["TN"])
            if math.isfinite(value):
                unit = fields.get("UNITS", "").strip()
                self.found.append((self._host, fields["NAME"], reported_s, value, unit))
