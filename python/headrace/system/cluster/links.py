"""Base layer: a link of the cluster: rate, delay, MTU, queue, socket buffers, set at both ends.

They are set by netlink and sysctl. A token bucket (tc-tbf(8)) of at most 256 KiB limits the rate,
followed by a queue of `txqueuelen` packets as in a network card. Delay needs the kernel's netem.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from headrace.errors import HeadraceError, UnsupportedLevelError
from headrace.system.cluster.netlink import LinkQueue, Network, in_network, in_new_network
from headrace.system.network_namespaces import call_inside

_BURST_S = 2e-3
_BURST_BYTES_MAX = 256 << 10
_BURST_BYTES_MIN = 16 << 10
"""A token bucket must hold at least one packet; the kernel segments larger GSO packets."""


@dataclass(frozen=True)
class LinkSettings:
    """One cable between a node and the switch, the same in both directions."""

    rate_bytes_per_s: float | None = None
    """Of frames with their headers, without preamble, check sequence and gap. None: as fast as the
    machine is."""
    delay_s: float = 0.0
    """One-way delay, in addition to the inherent one."""
    mtu: int = 1500
    txqueuelen: int = 1000
    """Packets queued at one end."""
    socket_buffer_bytes: int | None = None
    """Limit on the send and receive buffers of each TCP socket of the node (tcp_wmem, tcp_rmem);
    the kernel's default when None."""

    def as_dict(self) -> dict[str, object]:
        """Return the settings for the record."""
        return asdict(self)


def queues_of(link: LinkSettings) -> list[LinkQueue]:
    """Return the queues that set rate and delay of one end of a cable, the outermost first."""
    queues: list[LinkQueue] = []
    if link.delay_s > 0:
        packets = (
            1000
            if link.rate_bytes_per_s is None
            else int(link.rate_bytes_per_s * link.delay_s / link.mtu)
        )
        limit = max(link.txqueuelen, 2 * packets)
        options = {"delay": round(link.delay_s * 1e6), "limit": limit}
        queues.append(LinkQueue("netem", "1:", None, options))
    if link.rate_bytes_per_s is not None:
        burst = round(
            min(max(link.rate_bytes_per_s * _BURST_S, _BURST_BYTES_MIN), _BURST_BYTES_MAX)
        )
        limit = burst + link.txqueuelen * link.mtu
        options = {"rate": round(link.rate_bytes_per_s), "burst": burst, "limit": limit}
        queues.append(LinkQueue("tbf", "2:", "1:1" if queues else None, options))
        queues.append(LinkQueue("pfifo", "3:", "2:1", {"limit": link.txqueuelen}))
    return queues


def apply_link(node: str, switch: str, port: str, link: LinkSettings) -> None:
    """Set both ends of a node's cable, replacing earlier settings.

    Raises UnsupportedLevelError when the kernel cannot provide that link.
    """
    if link.delay_s > 0 and not has_netem():
        raise UnsupportedLevelError(
            "a link's delay needs the kernel's netem (sch_netem), which is not here"
        )
    for namespace, device in ((node, "eth0"), (switch, port)):
        in_network(namespace, lambda network, device=device: _set_end(network, device, link))
    if link.socket_buffer_bytes is not None:
        call_inside(node, lambda: _bound_sockets(int(link.socket_buffer_bytes or 0)))


def _set_end(network: Network, device: str, link: LinkSettings) -> None:
    network.set(device, mtu=link.mtu, txqlen=link.txqueuelen)
    network.set_queues(device, queues_of(link))


def _bound_sockets(size: int) -> None:
    for name in ("tcp_rmem", "tcp_wmem"):
        file = Path("/proc/sys/net/ipv4") / name
        least = min(4096, size)
        file.write_text(f"{least} {size} {size}")
        if int(file.read_text().split()[2]) != size:
            raise UnsupportedLevelError(f"the kernel takes no {name} of {size} bytes")


def read_link(namespace: str) -> dict[str, object]:
    """Return the settings of a node's end as read back: mtu, txqueuelen, queues, socket buffers."""

    def inside() -> dict[str, object]:
        return {
            name: Path(f"/proc/sys/net/ipv4/{name}").read_text().split()[2]
            for name in ("tcp_rmem", "tcp_wmem")
        }

    ends = in_network(namespace, lambda network: (network.get("eth0"), network.queues("eth0")))
    return {
        "mtu": ends[0]["mtu"],
        "txqueuelen": ends[0]["txqlen"],
        "queues": ends[1],
        "socket_buffers": call_inside(namespace, inside),
    }


@cache
def has_netem() -> bool:
    """Return whether this kernel can delay packets (tested once in a new namespace; needs root)."""
    delay = LinkQueue("netem", "1:", None, {"delay": 1000, "limit": 1000})
    try:
        in_new_network(lambda network: network.set_queues("lo", [delay]))
    except HeadraceError:
        return False
    return True
