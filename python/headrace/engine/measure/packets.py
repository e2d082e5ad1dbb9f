"""Hand out packets of events to workers on request, as PROOF's adaptive packetiser does.

The size of a packet depends on the worker's speed. A packet should take a worker a twentieth of the
time that the query still needs, within bounds: packets are large at first and small at the end,
when one slow worker would delay all others. A packet always consists of whole clusters: the events
of a cluster are compressed together, and two workers that share one would each read and decompress
all of it.

A worker keeps the results of its packets until it ends. If it dies they are lost, so all its
packets are handed out again, as in PROOF. A packet that two workers held when they died is given
up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.records.trial_record import GivenUpPacket, PacketsRecord
from headrace.workloads import Packet

_SHARE_OF_REST = 1 / 20
_SHORTEST_S = 0.1
_LONGEST_S = 10.0
_DEATHS = 2
"""A packet is given up after this many workers died while they held it."""


@dataclass
class _File:
    path: str
    server: str
    next_event: int
    events: int
    readers: int = 0

    @property
    def left(self) -> int:
        return self.events - self.next_event


@dataclass
class _Handed:
    """A range of events that was handed out and may be handed out again."""

    file: _File
    first_event: int
    events: int
    deaths: int = 0
    """Number of workers that died while they held it."""


@dataclass
class _Worker:
    rate_events_per_s: float = 0.0
    asked_at: float = 0.0
    packet: _Handed | None = None
    file: _File | None = None
    done: list[_Handed] = field(default_factory=list[_Handed])
    """Packets whose results it holds."""

    @property
    def done_events(self) -> int:
        return sum(packet.events for packet in self.done)


class Packetiser:
    """The master of one query over a shared set of files."""

    def __init__(
        self,
        files: Sequence[tuple[str, int]],
        *,
        workers: int,
        first_events: int | None,
        workers_per_server: int | None,
        cluster_events: int = 1,
        servers: Sequence[str] | None = None,
        local: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare the packets of a query.

        `files`: (path, events). `cluster_events`: events per cluster; each file starts with a whole
        cluster. `servers`: the file server of each file; one server for all when None. `local`:
        path of a file on the node of its own server.
        """
        names = list(servers) if servers is not None else [""] * len(files)
        self._files = [
            _File(path, server, 0, events)
            for (path, events), server in zip(files, names, strict=True)
        ]
        self._workers: dict[int, _Worker] = {}
        self._again: list[_Handed] = []
        """Packets of dead workers, handed out before others."""
        self.handed_out_again = 0
        """Packets handed out again because their worker died."""
        self.given_up: list[GivenUpPacket] = []
        """Packets that are no longer handed out."""
        self._local = dict(local or {})
        self._count = workers
        self._limit = workers_per_server
        self._cluster = cluster_events
        total = sum(events for _, events in files)
        self._first = first_events or max(1, min(total // (workers * 10) or 1, 50_000))

    @property
    def events_done(self) -> int:
        """Events in packets that workers have finished."""
        return sum(worker.done_events for worker in self._workers.values())

    @property
    def events_left(self) -> int:
        """Events that are neither handed out nor finished, without those given up."""
        return sum(file.left for file in self._files) + sum(packet.events for packet in self._again)

    def summary(self) -> PacketsRecord:
        """Return what happened to packets of workers that died."""
        lost = self.events_left + sum(packet.events for packet in self.given_up)
        return PacketsRecord(
            handed_out_again=self.handed_out_again,
            given_up=tuple(self.given_up),
            events_not_processed=lost,
        )

    def next(self, worker_id: int, now: float, home: str = "") -> Packet | str | None:
        """Return the next packet for a worker that finished its last one.

        Files of the server on its own node (`home`) come first. Returns None when the query has no
        more work for it; `"wait"` when every server with work left has its maximum number of
        readers: the worker must ask again after another has finished.
        """
        worker = self._workers.setdefault(worker_id, _Worker())
        self.finished(worker_id, now)
        handed = self._next_again() or self._next_new(worker, home)
        if handed is None:
            return "wait" if self.events_left else None
        file = worker.file = handed.file
        file.readers += 1
        worker.packet, worker.asked_at = handed, now
        path = self._local.get(file.path, file.path) if home and file.server == home else file.path
        return Packet(path, handed.first_event, handed.events)

    def _next_again(self) -> _Handed | None:
        """Return a packet of a dead worker that may be read now, or None."""
        for number, packet in enumerate(self._again):
            if self._may_read(packet.file):
                self.handed_out_again += 1
                return self._again.pop(number)
        return None

    def _next_new(self, worker: _Worker, home: str) -> _Handed | None:
        file = self._choose(worker, home)
        if file is None:
            return None
        handed = _Handed(file, file.next_event, self._size(worker, file))
        file.next_event += handed.events
        return handed

    def finished(self, worker_id: int, now: float) -> None:
        """Mark a worker's packet as finished and update the worker's rate."""
        worker = self._workers.setdefault(worker_id, _Worker())
        packet = self._taken_back(worker)
        if packet is None:
            return
        rate = packet.events / max(now - worker.asked_at, 1e-6)
        worker.rate_events_per_s = (
            rate if not worker.rate_events_per_s else 0.5 * (worker.rate_events_per_s + rate)
        )
        worker.done.append(packet)

    def died(self, worker_id: int, cause: str) -> None:
        """Return the packets of a worker that ended without results to the queue.

        The packet that it held is given up if another worker has died with it before.
        """
        worker = self._workers.pop(worker_id, None)
        if worker is None:
            return
        packet = self._taken_back(worker)
        if packet is not None:
            packet.deaths += 1
            if packet.deaths >= _DEATHS:
                self.given_up.append(
                    GivenUpPacket(
                        file=packet.file.path,
                        first_event=packet.first_event,
                        events=packet.events,
                        cause=cause,
                    )
                )
            else:
                self._again.append(packet)
        self._again += worker.done

    def _taken_back(self, worker: _Worker) -> _Handed | None:
        """Take the current packet from a worker."""
        packet, worker.packet = worker.packet, None
        if packet is not None:
            packet.file.readers -= 1
        return packet

    def _may_read(self, file: _File) -> bool:
        """Return whether one more worker may read from the file's server."""
        if self._limit is None:
            return True
        return sum(each.readers for each in self._files if each.server == file.server) < self._limit

    def _choose(self, worker: _Worker, home: str) -> _File | None:
        """Return the file for a worker's next packet.

        Prefer its current file, so that workers continue where they are; then a file on its own
        node; then the file with the fewest readers and the most events left.
        """
        open_files = [file for file in self._files if file.left and self._may_read(file)]
        if worker.file is not None and worker.file in open_files and worker.file.readers == 0:
            return worker.file
        return min(
            open_files,
            key=lambda file: (bool(home) and file.server != home, file.readers, -file.left),
            default=None,
        )

    def _size(self, worker: _Worker, file: _File) -> int:
        if not worker.rate_events_per_s:
            return self._whole_clusters(self._first, file)
        left = sum(each.left for each in self._files)
        speed = (
            sum(each.rate_events_per_s for each in self._workers.values())
            or worker.rate_events_per_s
        )
        wanted_s = min(
            max(left / speed * _SHARE_OF_REST * self._count / 2, _SHORTEST_S), _LONGEST_S
        )
        return self._whole_clusters(int(worker.rate_events_per_s * wanted_s), file)

    def _whole_clusters(self, events: int, file: _File) -> int:
        """Return the number of events, extended to the end of a cluster."""
        stop = -(-(file.next_event + max(events, 1)) // self._cluster) * self._cluster
        return min(stop, file.events) - file.next_event
