"""Base layer: a link of the cluster: rate, delay, MTU, queue, socket buffers, set at both ends.

They are set with tc and sysctl. A token bucket (tc-tbf(8)) of at most 256 KiB limits the rate,
followed by a queue of `txqueuelen` packets as in a network card. Delay needs the kernel's netem.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError, UnsupportedLevelError
from headrace.system.cluster.namespaces import call_inside, run_ip

_BURST_S = 2e-3
_BURST_BYTES_MAX = 256 << 10
_BURST_BYTES_MIN = 16 << 10
"""A token bucket must hold at least one packet; the kernel segments larger GSO packets."""


@dataclass(frozen=True)
class LinkSettings:
    """One cable between a node and the switch, the same in both directions."""

    rate_bytes_per_s: float | None = None
    """None: as fast as the machine is."""
    delay_s: float = 0.0
    """One-way delay, in addition to the inherent one."""
    mtu: int = 1500
    txqueuelen: int = 1000
    """Packets queued at one end."""
    socket_buffer_bytes: int | None = None
    """Limit on the send and receive buffers of each TCP socket of the node (tcp_wmem, tcp_rmem);
    the kernel's default when None."""

    def as_dict(self) -> dict[str, Any]:
        """Return the settings for the record."""
        return asdict(self)


def queue_commands(device: str, link: LinkSettings) -> list[str]:
    """Return the `tc -batch` lines that set rate and delay of one end of a cable; pure."""
    lines: list[str] = []
    parent = "root"
    if link.delay_s > 0:
        packets = (
            1000
            if link.rate_bytes_per_s is None
            else int(link.rate_bytes_per_s * link.delay_s / 1500)
        )
        limit = max(link.txqueuelen, 2 * packets)
        lines.append(
            f"qdisc add dev {device} {parent} handle 1: netem delay {round(link.delay_s * 1e6)}us "
            f"limit {limit}"
        )
        parent = "parent 1:1"
    if link.rate_bytes_per_s is not None:
        burst = round(
            min(max(link.rate_bytes_per_s * _BURST_S, _BURST_BYTES_MIN), _BURST_BYTES_MAX)
        )
        rate = round(link.rate_bytes_per_s * 8)
        limit = burst + link.txqueuelen * link.mtu
        lines.append(
            f"qdisc add dev {device} {parent} handle 2: tbf rate {rate}bit burst {burst} limit "
            f"{limit}"
        )
        lines.append(f"qdisc add dev {device} parent 2:1 handle 3: pfifo limit {link.txqueuelen}")
    return lines


def apply_link(node: str, switch: str, port: str, link: LinkSettings) -> None:
    """Set both ends of a node's cable, replacing earlier settings.

    Raises UnsupportedLevelError when the kernel cannot provide that link.
    """
    if link.delay_s > 0 and not has_netem():
        raise UnsupportedLevelError(
            "a link's delay needs the kernel's netem (sch_netem), which is not here"
        )
    for namespace, device in ((node, "eth0"), (switch, port)):
        run_ip(
            "-n",
            namespace,
            "link",
            "set",
            device,
            "mtu",
            str(link.mtu),
            "txqueuelen",
            str(link.txqueuelen),
        )
        _clear(namespace, device)
        if lines := queue_commands(device, link):
            run_ip("-n", namespace, program="tc", batch="\n".join(lines) + "\n")
    if link.socket_buffer_bytes is not None:
        call_inside(node, lambda: _bound_sockets(int(link.socket_buffer_bytes or 0)))


def _clear(namespace: str, device: str) -> None:
    shown = run_ip("-n", namespace, "qdisc", "show", "dev", device, "root", program="tc")
    if shown.strip() and "noqueue" not in shown:
        run_ip("-n", namespace, "qdisc", "del", "dev", device, "root", program="tc")


def _bound_sockets(size: int) -> None:
    for name in ("tcp_rmem", "tcp_wmem"):
        file = Path("/proc/sys/net/ipv4") / name
        least = min(4096, size)
        file.write_text(f"{least} {size} {size}")
        if int(file.read_text().split()[2]) != size:
            raise UnsupportedLevelError(f"the kernel takes no {name} of {size} bytes")


def read_link(namespace: str) -> dict[str, Any]:
    """Return the settings of a node's end as read back: mtu, txqueuelen, queues, socket buffers."""

    def inside() -> dict[str, Any]:
        return {
            name: Path(f"/proc/sys/net/ipv4/{name}").read_text().split()[2]
            for name in ("tcp_rmem", "tcp_wmem")
        }

    device = json.loads(run_ip("-n", namespace, "-json", "link", "show", "eth0"))[0]
    queues = (
        run_ip("-n", namespace, "qdisc", "show", "dev", "eth0", program="tc").strip().splitlines()
    )
    return {
        "mtu": device["mtu"],
        "txqueuelen": device.get("txqlen"),
        "queues": [" ".join(line.split()) for line in queues],
        "socket_buffers": call_inside(namespace, inside),
    }


@cache
def has_netem() -> bool:
    """Return whether this kernel can delay packets (tested once in a new namespace; needs root)."""
    name = f"headrace-netem-{os.urandom(4).hex()}"
    try:
        run_ip("netns", "add", name)
        try:
            run_ip(
                "-n",
                name,
                "qdisc",
                "add",
                "dev",
                "lo",
                "root",
                "netem",
                "delay",
                "1ms",
                program="tc",
            )
            return True
        finally:
            run_ip("netns", "delete", name)
    except HeadraceError:
        return False
