"""Hands packets of events to workers as they ask, sized to each worker's own speed, the way PROOF's adaptive packetiser does.

A packet is meant to take a worker a certain time: a twentieth of what the query still needs, within bounds, so that packets are
large while much is left and small at the end, when a slow worker would keep all others waiting. It is always whole clusters:
events of one cluster lie compressed together, and two workers that share one would each read and decompress all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.workloads import Packet

_SHARE_OF_REST = 1 / 20
_SHORTEST_S = 0.1
_LONGEST_S = 10.0


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
class _Worker:
    rate_events_per_s: float = 0.0
    asked_at: float = 0.0
    packet: Packet | None = None
    file: _File | None = None
    done_events: int = 0


class Packetiser:
    """The master's side of one query over a shared set of files."""

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
        """`files`: (path, events). `cluster_events`: events of a cluster, each file beginning with a whole one. `servers`: which file
        server each lies on; all on one when None. `local`: what a file is called on the node of its own server."""
        names = list(servers) if servers is not None else [""] * len(files)
        self._files = [
            _File(path, server, 0, events) for (path, events), server in zip(files, names, strict=True)
        ]
        self._workers: dict[int, _Worker] = {}
        self._local = dict(local or {})
        self._count = workers
        self._limit = workers_per_server
        self._cluster = cluster_events
        total = sum(events for _, events in files)
        self._first = first_events or max(1, min(total // (workers * 10) or 1, 50_000))

    @property
    def events_done(self) -> int:
        """Events of packets that their workers have finished."""
        return sum(worker.done_events for worker in self._workers.values())

    def next(self, worker_id: int, now: float, home: str = "") -> Packet | str | None:
        """The next packet for a worker that finished its last, of the server on its own node (`home`) while that has any; None when the query is done for it; `"wait"` when as many
        workers as allowed read every server that has work left: ask again after another worker has finished."""
        worker = self._workers.setdefault(worker_id, _Worker())
        self.finished(worker_id, now)
        file = self._choose(worker, home)
        if file is None:
            return None if not any(file.left for file in self._files) else "wait"
        worker.file = file
        file.readers += 1
        events = self._size(worker, file)
        path = self._local.get(file.path, file.path) if home and file.server == home else file.path
        worker.packet = Packet(path, file.next_event, events)
        worker.asked_at = now
        file.next_event += events
        return worker.packet

    def finished(self, worker_id: int, now: float) -> None:
        """A worker is done with its packet, and says how fast it was by asking again or by ending."""
        worker = self._workers.setdefault(worker_id, _Worker())
        if worker.packet is None:
            return
        took = max(now - worker.asked_at, 1e-6)
        rate = worker.packet.events / took
        worker.rate_events_per_s = (
            rate if not worker.rate_events_per_s else 0.5 * (worker.rate_events_per_s + rate)
        )
        worker.done_events += worker.packet.events
        worker.packet = None
        if worker.file is not None:
            worker.file.readers -= 1

    def _choose(self, worker: _Worker, home: str) -> _File | None:
        """Its own file while that lasts, so that workers read on where they are; else one on its own node; else the least read file with
        the most left."""
        busy: dict[str, int] = {}
        for file in self._files:
            busy[file.server] = busy.get(file.server, 0) + file.readers
        open_files = [
            file
            for file in self._files
            if file.left and (self._limit is None or busy[file.server] < self._limit)
        ]
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
        speed = sum(each.rate_events_per_s for each in self._workers.values()) or worker.rate_events_per_s
        wanted_s = min(max(left / speed * _SHARE_OF_REST * self._count / 2, _SHORTEST_S), _LONGEST_S)
        return self._whole_clusters(int(worker.rate_events_per_s * wanted_s), file)

    def _whole_clusters(self, events: int, file: _File) -> int:
        """So many events, up to the next end of a cluster."""
        stop = -(-(file.next_event + max(events, 1)) // self._cluster) * self._cluster
        return min(stop, file.events) - file.next_event
