"""Hand out packets of events to workers on request, as PROOF's adaptive packetiser does.

Files of the worker's own node come first (`packet_files.py`), a packet takes about equal time
(`engine/packet_sizes.py`), or each worker has a share of its own from the start
(`packet_shares.py`). crates/simulator/src/packets has the same rules in virtual time. A
packet always consists of whole clusters: the events of a cluster are compressed together, and two
workers that share one would each read and decompress all of it.

Each request for a packet brings the results of the worker so far. If the worker dies, these count,
and only the packet that it held is handed out again. Where a workload cannot report results before
its end (it writes files), all packets of a dead worker are handed out again, as in PROOF. A packet
that two workers held when they died is given up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headrace.engine.measure.packet_files import QueryFile, Readers, choose
from headrace.engine.measure.packet_shares import Range, shares
from headrace.engine.packet_sizes import Sizes, WorkerRate
from headrace.records.trial_record import GivenUpPacket, PacketsRecord, PacketWorker, WorkerDeath
from headrace.workloads import Packet

_DEATHS = 2
"""A packet is given up after this many workers died while they held it."""


@dataclass(eq=False)
class _Handed:
    """A range of events that was handed out and may be handed out again."""

    range: Range
    server: str = ""
    """Server that it is read from, as far as is known."""
    local: bool = False
    """Whether the file is on the worker's node."""
    deaths: int = 0
    """Number of workers that died while they held it."""
    new: bool = False
    """Whether it is of a dead worker's share and was not handed out yet."""

    @property
    def file(self) -> QueryFile:
        return self.range.file


@dataclass
class _Worker:
    number: int
    node: str = ""
    rate: WorkerRate = field(default_factory=WorkerRate)
    asked_at: float = 0.0
    packet: _Handed | None = None
    file: QueryFile | None = None
    share: deque[Range] = field(default_factory=deque[Range])
    """What only this worker gets, in a static split."""
    done: list[_Handed] = field(default_factory=list[_Handed])
    """Packets whose results it holds, or has returned."""
    handed_out: int = 0
    busy_s: float = 0.0
    alive: bool = True

    def record(self) -> PacketWorker:
        return PacketWorker(
            job=self.number,
            node=self.node,
            handed_out=self.handed_out,
            events=sum(packet.range.events for packet in self.done),
            events_local=sum(packet.range.events for packet in self.done if packet.local),
            busy_s=self.busy_s,
        )


class Packetiser:
    """The master of one query over a shared set of files."""

    def __init__(
        self,
        files: Sequence[QueryFile],
        *,
        homes: Sequence[str],
        sizes: Sizes,
        static: bool = False,
        workers_per_server: int | None = None,
        cluster_events: int = 1,
    ) -> None:
        """Prepare the packets of a query.

        `homes`: the node of each worker, by worker number. `static`: the workers' shares are fixed
        from the start. `cluster_events`: events per cluster.
        """
        self._files = list(files)
        self._workers: dict[int, _Worker] = {}
        self._readers = Readers(workers_per_server)
        self._sizes = sizes
        self._cluster = cluster_events
        self._again: list[_Handed] = []
        """Packets of dead workers, handed out before others."""
        self._handed_out_again = 0
        self._deaths: list[WorkerDeath] = []
        self.given_up: list[GivenUpPacket] = []
        """Packets that are no longer handed out."""
        if static:
            for number, share in enumerate(shares(self._files, homes, cluster_events)):
                self._workers[number] = _Worker(number, homes[number], share=share)
                for each in share:
                    each.file.next_event = each.file.events

    # -- state --

    @property
    def events_done(self) -> int:
        """Events in packets that workers have finished."""
        return sum(
            packet.range.events for worker in self._workers.values() for packet in worker.done
        )

    @property
    def events_left(self) -> int:
        """Events that are neither handed out nor finished, without those given up."""
        shared = sum(file.left for file in self._files) + _events(
            each.range for each in self._again
        )
        return shared + sum(_events(worker.share) for worker in self._workers.values())

    def stranded(self, nodes: Iterable[str]) -> bool:
        """Return whether events are left that no worker of these nodes may take."""
        able = set(nodes)
        left = [file for file in self._files if file.left] + [each.file for each in self._again]
        return any(not any(file.place.readable_on(node) for node in able) for file in left)

    def summary(self, since_s: float = 0.0) -> PacketsRecord:
        """Return what each worker was given; times of deaths are counted from `since_s`."""
        lost = self.events_left + sum(packet.events for packet in self.given_up)
        workers = tuple(worker.record() for worker in self._workers.values())
        placed = any(file.place.nodes for file in self._files)
        return PacketsRecord(
            handed_out=sum(worker.handed_out for worker in workers),
            handed_out_again=self._handed_out_again,
            given_up=tuple(self.given_up),
            events_not_processed=lost,
            events=sum(worker.events for worker in workers),
            events_local=sum(worker.events_local for worker in workers) if placed else None,
            workers=workers,
            deaths=tuple(
                WorkerDeath(
                    job=each.job,
                    node=each.node,
                    at_s=each.at_s - since_s,
                    cause=each.cause,
                    events_kept=each.events_kept,
                    events_again=each.events_again,
                )
                for each in self._deaths
            ),
        )

    # -- requests --

    def next(self, number: int, now: float, home: str = "") -> Packet | str | None:
        """Return the next packet for a worker that finished its last one.

        `home` is its node. Returns None when the query has no more work for it; `"wait"` when every
        server with work left has its maximum number of readers: the worker must ask again after
        another has finished.
        """
        worker = self._workers.setdefault(number, _Worker(number))
        worker.node = home
        self.finished(number, now)
        handed = self._next_again(worker) or self._next_of_share(worker) or self._next_new(worker)
        if handed is None:
            return "wait" if self._left_for(worker) else None
        file = worker.file = handed.file
        self._readers.begin(file, handed.server)
        worker.packet, worker.asked_at = handed, now
        worker.handed_out += 1
        return Packet(file.path_on(home), handed.range.first_event, handed.range.events)

    def finished(self, number: int, now: float) -> None:
        """Mark a worker's packet as finished and update the worker's rate."""
        worker = self._workers.setdefault(number, _Worker(number))
        packet = self._taken_back(worker)
        if packet is None:
            return
        took_s = now - worker.asked_at
        worker.busy_s += took_s
        worker.rate.finished(packet.file.path, packet.range.events, took_s)
        worker.done.append(packet)

    def died(
        self, number: int, cause: str, now: float = 0.0, *, results_kept: bool = False
    ) -> None:
        """Hand out again what a worker that ended without a report held.

        `results_kept`: its results up to its last request are known. The packet that it held is
        given up if another worker has died with it before.
        """
        worker = self._workers.get(number)
        if worker is None or not worker.alive:
            return
        worker.alive = False
        again: list[_Handed] = []
        packet = self._taken_back(worker)
        if packet is not None:
            packet.deaths += 1
            if packet.deaths < _DEATHS:
                again.append(packet)
            else:
                self._give_up(packet, cause)
        if not results_kept:
            again += worker.done
            worker.done = []
        lost = _events(each.range for each in again)
        kept = _events(each.range for each in worker.done)
        self._deaths.append(
            WorkerDeath(
                job=number,
                node=worker.node,
                at_s=now,
                cause=cause,
                events_kept=kept,
                events_again=lost,
            )
        )
        self._again += again
        self._again += [_Handed(each, new=True) for each in worker.share]
        worker.share.clear()

    def _give_up(self, packet: _Handed, cause: str) -> None:
        self.given_up.append(
            GivenUpPacket(
                file=packet.file.path,
                first_event=packet.range.first_event,
                events=packet.range.events,
                cause=cause,
            )
        )

    def _taken_back(self, worker: _Worker) -> _Handed | None:
        """Take the current packet from a worker."""
        packet, worker.packet = worker.packet, None
        if packet is not None:
            self._readers.end(packet.file, packet.server)
        return packet

    # -- which packet --

    def _left_for(self, worker: _Worker) -> bool:
        """Return whether there are events left that the worker may take at some time."""
        readable = [file for file in self._files if file.left]
        readable += [packet.file for packet in self._again]
        return bool(worker.share) or any(file.place.readable_on(worker.node) for file in readable)

    def _next_again(self, worker: _Worker) -> _Handed | None:
        """Return a packet of a dead worker that may be read now, or None."""
        may = [packet for packet in self._again if packet.file.place.readable_on(worker.node)]
        for packet in sorted(may, key=lambda each: not each.file.is_local(worker.node)):
            handed = self._handed(worker, packet.range)
            if handed is not None:
                handed.deaths = packet.deaths
                self._again.remove(packet)
                self._handed_out_again += not packet.new
                return handed
        return None

    def _next_of_share(self, worker: _Worker) -> _Handed | None:
        """Return the next range of a worker's own share, or None."""
        handed = self._handed(worker, worker.share[0]) if worker.share else None
        if handed is not None:
            worker.share.popleft()
        return handed

    def _next_new(self, worker: _Worker) -> _Handed | None:
        file = choose(self._files, self._readers, worker.node, worker.file)
        if file is None:
            return None
        handed = self._handed(worker, Range(file, file.next_event, self._size(worker, file)))
        if handed is not None:
            file.next_event += handed.range.events
        return handed

    def _handed(self, worker: _Worker, given: Range) -> _Handed | None:
        """Return a range as a packet for a worker; None while its servers have no room."""
        server = self._readers.server(given.file, worker.node)
        if server is None:
            return None
        return _Handed(given, server, given.file.is_local(worker.node))

    def _size(self, worker: _Worker, file: QueryFile) -> int:
        """Return the number of events of a new packet, extended to the end of a cluster."""
        rate = worker.rate.events_per_s(file.path)
        events = self._sizes.first_events
        if rate:
            left = sum(each.left for each in self._files)
            speed = sum(
                each.rate.mean_events_per_s for each in self._workers.values() if each.alive
            )
            events = int(rate * self._sizes.time_s(left, speed or rate))
        stop = -(-(file.next_event + max(events, 1)) // self._cluster) * self._cluster
        return min(stop, file.events) - file.next_event


def _events(ranges: Iterable[Range]) -> int:
    return sum(each.events for each in ranges)
