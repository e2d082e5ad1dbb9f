"""How many events a packet has: as many as its worker processes in the packet's time.

The rules are those of PROOF (`TPacketizerAdaptive::CalculatePacketSize`). A packet takes a quarter
of the time that the query still needs (`PROOF_PacketAsAFraction`, 4), within bounds
(`PROOF_MinPacketTime`, `PROOF_MaxPacketTime`: 3 s and 20 s there; shorter here, where queries
are shorter): packets are large at first and small at the end, when one slow worker would delay all
others. The rate is that of the worker in its file, else its mean so far.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_PARTS_OF_REST = 4
_SHORTEST_TIME_S = 1e-6
_FIRST_PARTS, _FIRST_MOST = 10, 50_000
"""The first packet of a worker is at most this part of its equal share, and this many events."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of the packets of one query."""

    first_events: int
    """Events of a worker's first packet."""
    shortest_s: float
    longest_s: float

    def time_s(self, left: int, events_per_s: float) -> float:
        """Return the time of a packet when `left` events are processed at the workers' rate."""
        rest_s = left / events_per_s
        return min(max(rest_s / _PARTS_OF_REST, self.shortest_s), self.longest_s)


def first_events(total: int, workers: int) -> int:
    """Return the events of first packets: rates of the workers are not known yet."""
    return max(1, min(total // (workers * _FIRST_PARTS), _FIRST_MOST))


@dataclass
class _Done:
    events: int = 0
    seconds: float = 0.0

    def add(self, events: int, seconds: float) -> None:
        self.events += events
        self.seconds += seconds

    @property
    def rate(self) -> float:
        return self.events / self.seconds if self.seconds > 0 else 0.0


@dataclass
class WorkerRate:
    """How fast a worker is."""

    _all: _Done = field(default_factory=_Done)
    _in_file: _Done = field(default_factory=_Done)
    _file: str = ""

    def finished(self, file: str, events: int, seconds: float) -> None:
        """Take a finished packet into account."""
        if file != self._file:
            self._file, self._in_file = file, _Done()
        for done in (self._all, self._in_file):
            done.add(events, max(seconds, _SHORTEST_TIME_S))

    @property
    def mean_events_per_s(self) -> float:
        """Mean of the query so far; 0 before the first packet."""
        return self._all.rate

    def events_per_s(self, file: str) -> float:
        """Return the rate in a file if known, else the mean so far; 0 before the first packet."""
        return self._in_file.rate if file == self._file else self._all.rate
