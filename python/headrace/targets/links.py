"""Targets: the port of a site's link in virtual time, and what headers leave of a link's rate.

A packet of `mtu` bytes carries `mtu - 52` bytes of data, and takes the time of more bytes than it
has on the link:

    data rate = rate * (mtu - 52) / (mtu + of the frame)

Ethernet at line rate (`1 GbE`) sends 38 bytes with each packet; a rate that a token bucket sets
(`1 Gb/s`, `rate = ...`) counts 14 of them. At 1 Gb/s that is 941 and 956 Mb/s of data with packets
of 1500 bytes, and 990 and 993 Mb/s with 9000. Rates of a scenario are those of data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.catalog import entry
from headrace.scenario import Port
from headrace.site import link_text

TCP_IP_BYTES = 52
"""Headers in each packet: IPv4 20 (RFC 791), TCP 20 (RFC 9293), its time stamps 12 (RFC 7323),
which Linux sends by default (`net.ipv4.tcp_timestamps`)."""
ETHERNET_BYTES = 38
"""Of each frame on the link: preamble and start 8, header 14, check sequence 4, gap 12 (IEEE
802.3)."""
BUCKET_BYTES = 14
"""Of each frame that tc counts: the header (`qdisc_pkt_len_init` in net/core/dev.c, which counts it
for each packet of a large one that the device or the kernel divides, too)."""
DEFAULT_MTU = 1500
"""Largest packet of basic frames (IEEE 802.3), Linux's default (`ETH_DATA_LEN`)."""


def data_share(mtu: int, frame_bytes: int) -> float:
    """Return which share of a link's rate is data, in packets of `mtu` bytes."""
    return (mtu - TCP_IP_BYTES) / (mtu + frame_bytes)


@dataclass(frozen=True)
class LinkRate:
    """Rate of a link as it is stated."""

    port_bytes_per_s: float
    """Of one port, with headers."""
    ports: int
    mtu: int
    frame_bytes: int

    @property
    def share(self) -> float:
        """Which share of the rate is data."""
        return data_share(self.mtu, self.frame_bytes)

    @property
    def bucket_bytes_per_s(self) -> float:
        """The rate of all ports as a token bucket counts frames, with the same rate of data."""
        rate = self.port_bytes_per_s * self.ports
        if self.frame_bytes == BUCKET_BYTES:
            return rate
        return rate * self.share / data_share(self.mtu, BUCKET_BYTES)


def link_rate(link: Any) -> LinkRate:
    """Return the rate of a site's link: None (1 Gb/s), the name of an entry, `1 GbE`, `4 x 1 GbE`,
    `1 Gb/s`, or a table."""
    if link is None:
        return LinkRate(125e6, 1, DEFAULT_MTU, BUCKET_BYTES)
    if isinstance(link, str):
        ports, known, rate = link_text(link)
        named = rate is None or known.endswith("be")
        frame_bytes = ETHERNET_BYTES if named else BUCKET_BYTES
        if rate is not None:
            return LinkRate(rate, ports, DEFAULT_MTU, frame_bytes)
        table = entry("links", known).table
        return LinkRate(table.rate_bytes_per_s, ports, table.mtu_bytes, frame_bytes)
    return LinkRate(link.rate, link.count, link.mtu, BUCKET_BYTES)


def network_port(link: Any) -> Port:
    """Return a port of a scenario from a site's link (as `link_rate`). Its rates are of data."""
    rate = link_rate(link)
    port: Port = entry("links", _latency_of(link, rate)).table.part()
    data_bytes_per_s = rate.port_bytes_per_s * rate.share
    port["rate_bytes_per_s"] = data_bytes_per_s * rate.ports
    if rate.ports > 1:
        # Bonded ports: one flow uses one of them.
        port["flow_bytes_per_s"] = data_bytes_per_s
    elif flow := port.get("flow_bytes_per_s"):
        port["flow_bytes_per_s"] = flow * rate.share
    if link is not None and not isinstance(link, str):
        if link.socket_buffer is not None:
            port["socket_buffer_bytes"] = link.socket_buffer
        if link.latency:
            port["latency_ns"] = round(link.latency * 1e9)
    return port


def _latency_of(link: Any, rate: LinkRate) -> str:
    """Return the catalog entry whose latency a link has: its own, or that of the nearest rate."""
    if isinstance(link, str):
        _, known, stated = link_text(link)
        if stated is None:
            return known
    for name, least in (("100-gbe", 6e9), ("25-gbe", 2e9), ("10-gbe", 6e8)):
        if rate.port_bytes_per_s >= least:
            return name
    return "1-gbe"
