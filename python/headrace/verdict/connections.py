"""What the connections of a program did, from the kernel's counts of TCP while it runs."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Sequence

from headrace.system.tcp_connections import TcpCounts, connection_counts
from headrace.verdict.observation import ConnectionUse

_SEEN_LEAST = 3
"""Looks that must have seen a connection."""
_KEPT = 0.5
"""A connection that lasts is in so many of the looks since the first one that saw any. Of others
too little is seen."""


class ConnectionLooks:
    """The last counts of each connection of a tree of processes."""

    def __init__(self) -> None:
        self._last: dict[int, TcpCounts] = {}
        self._times: dict[int, int] = {}
        self._looks = 0
        self._first_s = self._last_s = 0.0
        self._since_s: list[float] = []

    def look(self, pids: Iterable[int]) -> None:
        """Look at the connections of these processes now."""
        sockets = _sockets(pids)
        if not sockets:
            self._looks += bool(self._last)
            return
        with contextlib.suppress(OSError):
            mine = {
                inode: counts
                for inode, counts in connection_counts().items()
                if inode in sockets and counts.requests
            }
            self._last |= mine
            if mine:
                self._since_s.append(min(each.since_data_s for each in mine.values()))
                self._last_s = time.monotonic()
                self._first_s = self._first_s or self._last_s
            self._looks += bool(self._last)
            for inode in mine:
                self._times[inode] = self._times.get(inode, 0) + 1

    def use(self, apart_s: float) -> ConnectionUse | None:
        """What they did in all; None without connections, or if they are too short to be seen.

        Connections of the last look, at most `apart_s` ago, go on as before (assumption).
        """
        lasting = [
            each
            for inode, each in self._last.items()
            if self._times[inode] >= max(_SEEN_LEAST, _KEPT * self._looks)
        ]
        if not lasting or 2 * len(lasting) < len(self._last):
            return None
        seen_s, since_s = self._last_s - self._first_s, time.monotonic() - self._last_s
        whole = 1 + since_s / seen_s if since_s < apart_s <= seen_s else 1.0
        trips = [each.round_trip_s for each in lasting if each.round_trip_s > 0]
        return ConnectionUse(
            connections=len(lasting),
            requests=round(whole * sum(each.requests for each in lasting)),
            received_bytes=round(whole * sum(each.received_bytes for each in lasting)),
            sent_bytes=round(whole * sum(each.sent_bytes for each in lasting)),
            round_trip_s=min(trips, default=0.0),
            since_data_s=_deciles(self._since_s),
        )


def _deciles(values: Sequence[float]) -> tuple[float, ...]:
    ordered = sorted(values)
    return tuple(ordered[round(each / 10 * (len(ordered) - 1))] for each in range(11))


def _sockets(pids: Iterable[int]) -> set[int]:
    found: set[int] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for entry in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
                with contextlib.suppress(OSError):
                    link = os.readlink(f"/proc/{pid}/fd/{entry}")  # noqa: PTH115
                    if link.startswith("socket:["):
                        found.add(int(link[8:-1]))
    return found
