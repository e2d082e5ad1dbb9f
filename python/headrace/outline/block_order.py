"""The order of a job's reads, from the block requests of its threads (root)."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headrace.errors import HeadraceError
from headrace.system.devices import devices_of
from headrace.system.journal import Journal
from headrace.system.mounts import read_mounts
from headrace.system.owned import work_directory
from headrace.system.tracefs import TracedDevice
from headrace.traces import Capture, open_trace, traced_device
from headrace.traces.rows import READ, read_rows

LARGEST_READ_BYTES = 1 << 20
"""A read of more counts as several in order: a drive does not tell them apart."""
_SECTOR_BYTES = 512
_STREAMS = 256
"""So many places are remembered at which a read may go on."""


@dataclass(frozen=True)
class BlockReads:
    """Block reads of a job."""

    requests: int = 0
    bytes: int = 0
    runs: int = 0
    """Stretches of neighbouring blocks: each needs a read call at least."""
    first_bytes: int = 0
    """Bytes of the first request of each run, each at most `LARGEST_READ_BYTES`."""
    lost: int = 0
    """Events that the kernel dropped."""
    by_chance: float = 0.0
    """Share of the requests that would neighbour a recent one if each were anywhere between the
    first and the last block, where nothing has been read yet; at most 2/3."""


class BlockOrder:
    """Records block requests while a job is watched. `problem` says why it cannot."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stack = contextlib.ExitStack()
        self._capture: Capture | None = None
        self._folder = Path()
        self.problem = ""

    def start(self, devices: Iterable[str]) -> None:
        """Begin to record the devices of the job's mounts, and these."""
        if os.geteuid() != 0:
            self.problem = "block events need root"
            return
        names = {*devices, *_mounted(self._pid)}
        try:
            traced = {each.name: each for each in _traced(names)}
            if not traced:
                self.problem = "no block device is mounted for the job"
                return
            journal = self._stack.enter_context(Journal.open("headrace watch --profile"))
            folder, entry = work_directory(journal)
            self._stack.callback(journal.undo, entry)
            self._folder = folder / "trace"
            capture = Capture(journal, [*traced.values()], self._folder)
            self._stack.callback(capture.abandon)
            capture.start()
            self._capture = capture
        except HeadraceError as error:
            self.problem = f"block events cannot be recorded: {error.message}"

    def finish(self, threads: Collection[int], began_ns: int, ended_ns: int) -> BlockReads | None:
        """Return the reads of these threads in this time; None when nothing was recorded."""
        if self._capture is None:
            return None
        try:
            captured = self._capture.finish()
            self._capture = None
            timed = captured.by == "tracefs"  # its clock is the monotonic one
            counter = _Runs(lost=captured.lost)
            for device in captured.devices:
                for rows in read_rows(open_trace(self._folder, device)):
                    chosen = (rows.op == READ) & np.isin(rows.pid, [*threads])
                    if timed:
                        chosen &= (rows.time_ns >= began_ns) & (rows.time_ns <= ended_ns)
                    pairs = zip(
                        rows.sector[chosen].tolist(), rows.sectors[chosen].tolist(), strict=True
                    )
                    for sector, sectors in pairs:
                        counter.add(sector, sectors)
                counter.forget()
            return counter.reads
        except HeadraceError as error:
            self.problem = f"block events cannot be read: {error.message}"
            return None

    def close(self) -> None:
        """Stop recording and remove what was recorded. Safe to call twice."""
        self._capture = None
        self._stack.close()


class _Runs:
    """Counts runs: a request that neither follows nor precedes a recent one begins a new run."""

    def __init__(self, lost: int) -> None:
        self._lost = lost
        self._edges: dict[int, None] = {}
        self._requests = self._bytes = self._runs = self._first = 0
        self._by_chance = 0.0
        self._begin_device()

    def _begin_device(self) -> None:
        self._edges.clear()
        self._low, self._high = math.inf, 0
        self._of_device = self._sectors = 0

    def add(self, sector: int, sectors: int) -> None:
        size = sectors * _SECTOR_BYTES
        self._of_device += 1
        self._sectors += sectors
        self._bytes += size
        end = sector + sectors
        self._low, self._high = min(self._low, sector), max(self._high, end)
        if sector not in self._edges and end not in self._edges:
            self._runs += 1
            self._first += min(size, LARGEST_READ_BYTES)
        for edge in (sector, end):
            self._edges.pop(edge, None)
            self._edges[edge] = None
        while len(self._edges) > 2 * _STREAMS:
            del self._edges[next(iter(self._edges))]

    def forget(self) -> None:
        """Begin another device."""
        if self._of_device:
            self._requests += self._of_device
            # What was read is in the page cache, and not read again.
            places = (self._high - self._low) * self._of_device / self._sectors
            left = max(1.0, places - self._of_device)
            # Its first and its last block can each meet an edge.
            chance = min(2 * len(self._edges) / left, _neighboured(self._of_device / places))
            self._by_chance += self._of_device * chance
        self._begin_device()

    @property
    def reads(self) -> BlockReads:
        self.forget()
        by_chance = self._by_chance / self._requests if self._requests else 0.0
        return BlockReads(
            self._requests, self._bytes, self._runs, self._first, self._lost, by_chance
        )


def _neighboured(share: float) -> float:
    """Return which part of the reads neighbours an earlier one, when this share of a file's blocks
    is read in any order: the mean of 1 - (1 - t)^2 for t from 0 to the share, at most 2/3."""
    share = min(1.0, share)
    return 1 - (1 - (1 - share) ** 3) / (3 * share)


def runs_of(requests: Iterable[tuple[int, int]]) -> BlockReads:
    """Return what requests, as (first sector, sectors) in order of time, show; pure."""
    counter = _Runs(lost=0)
    for sector, sectors in requests:
        counter.add(sector, sectors)
    return counter.reads


def _traced(names: Iterable[str]) -> Iterable[TracedDevice]:
    """Yield devices by name. One that is gone meanwhile, as others' loop devices, is left out."""
    for name in sorted(names):
        with contextlib.suppress(OSError, HeadraceError):
            yield traced_device(name)


def _mounted(pid: int) -> set[str]:
    """Return the block devices of the mounts that a process sees."""
    found: set[str] = set()
    with contextlib.suppress(OSError, ValueError):
        for mount in read_mounts(pid):
            with contextlib.suppress(OSError, HeadraceError):
                found |= {name for name in devices_of(mount) if not name.startswith("ram")}
    return found
