"""TCP connections of this network namespace as the kernel counts them: round trip, bytes, segments.

A dump over netlink (sock_diag(7)), with `struct tcp_info` of linux/tcp.h. It needs no right.
"""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST_DUMP = 0x301
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_INFO = 2
"""INET_DIAG_INFO of linux/inet_diag.h."""
_QUESTION = struct.Struct("=IHHIIBBBBI48x")
_CONNECTED = (1 << 1) | (1 << 4) | (1 << 5) | (1 << 8)
"""States ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT."""
_HEADER, _INODE_AT, _MESSAGE = 16, 68, 72
"""Of netlink; of the inode in `struct inet_diag_msg`; of that structure."""
_COUNTS = struct.Struct("=52xI64xQQII4xIII")
"""Time since data came, bytes acknowledged and received, segments out and in, shortest round trip,
data segments in and out of `struct tcp_info` since Linux 4.6."""
_NO_ROUND_TRIP = 0xFFFFFFFF


class TcpCounts(NamedTuple):
    """One connection since it was opened."""

    sent_bytes: int
    received_bytes: int
    requests: int
    """Segments with data that were sent: a small request is one."""
    round_trip_s: float
    """The shortest; 0 if none was measured."""
    since_data_s: float
    """Since data came the last time."""


def connection_counts() -> dict[int, TcpCounts]:
    """Return the connections by inode of their socket. Raises OSError where netlink is refused."""
    found: dict[int, TcpCounts] = {}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as asked:
        asked.settimeout(1.0)
        for family in (socket.AF_INET, socket.AF_INET6):
            asked.send(
                _QUESTION.pack(
                    _QUESTION.size,
                    _SOCK_DIAG_BY_FAMILY,
                    _NLM_F_REQUEST_DUMP,
                    0,
                    0,
                    family,
                    socket.IPPROTO_TCP,
                    1 << (_INFO - 1),
                    0,
                    _CONNECTED,
                )
            )
            while _take(asked.recv(1 << 18), found):
                pass
    return found


def _take(data: bytes, found: dict[int, TcpCounts]) -> bool:
    """Add the connections of a piece of the answer; return whether more pieces follow."""
    at = 0
    while at + _HEADER <= len(data):
        length, kind = struct.unpack_from("=IH", data, at)
        if kind in (_NLMSG_ERROR, _NLMSG_DONE) or length < _HEADER:
            return False
        message = data[at + _HEADER : at + length]
        if len(message) >= _MESSAGE:
            (inode,) = struct.unpack_from("=I", message, _INODE_AT)
            counts = _counts(message[_MESSAGE:])
            if inode and counts is not None:
                found[inode] = counts
        at += length + -length % 4
    return True


def _counts(attributes: bytes) -> TcpCounts | None:
    at = 0
    while at + 4 <= len(attributes):
        length, kind = struct.unpack_from("=HH", attributes, at)
        if length < 4:
            return None
        if kind == _INFO and length - 4 >= _COUNTS.size:
            since_ms, sent, received, _, _, trip_us, _, requests = _COUNTS.unpack_from(
                attributes, at + 4
            )
            trip_s = 0.0 if trip_us == _NO_ROUND_TRIP else trip_us * 1e-6
            return TcpCounts(sent, received, requests, trip_s, since_ms * 1e-3)
        at += length + -length % 4
    return None
