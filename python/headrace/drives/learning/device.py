"""The drive that is learnt: a block device, or a model in virtual time, under the same scripts."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from headrace._core import SECTOR_BYTES, TimedBlockDevice, TimedModel
from headrace.drives.learning.traffic import DiskCounters, DiskSums, OtherTraffic, others_in
from headrace.errors import HeadraceError
from headrace.scenario import Table

UNIT = 8
"""Sectors of the smallest request: 4 KiB, the sector of current drives."""
CHUNK = 256
"""Requests of one call of the core, between which a signal is handled."""
WITHOUT_LIMIT_NS = 1 << 62
MOST_IN_FLIGHT = 128
READ, WRITE, WRITE_THROUGH = 0, 1, 2
"""Kinds of request; the last one is done when the data are on the medium."""
EDGE_SECTORS = (2 << 20) // SECTOR_BYTES
"""Sectors at both ends that are never written, so that the device stays blank for those who look
for what it holds."""

Times = npt.NDArray[np.float64]
Columns = tuple[int | Sequence[int], Sequence[int], int | Sequence[int], int | Sequence[int]]
"""What requests do, their places, their sectors and the pauses before them; one value for all of
them, or one each."""


@dataclass(frozen=True)
class RequestTimes:
    """When each request was submitted and when it was done, in seconds."""

    start_s: Times
    end_s: Times

    @property
    def response_s(self) -> Times:
        """Return the response times."""
        return self.end_s - self.start_s

    def __len__(self) -> int:
        return len(self.start_s)


@contextmanager
def _prompt() -> Generator[None]:
    """Run without waiting for other programs' CPU time, where the user may have such a priority."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


class LearntDevice:
    """A drive with the clock and the random numbers of its script."""

    def __init__(
        self,
        timed: TimedBlockDevice | TimedModel,
        *,
        name: str,
        seed: int = 0,
        queue_depth: int = 32,
        most_in_flight: int = MOST_IN_FLIGHT,
        writable: bool = False,
        counters: DiskCounters | None = None,
    ) -> None:
        self.name = name
        self.capacity_bytes = timed.capacity_bytes()
        self.queue_depth = queue_depth
        """Requests that the drive or the kernel holds."""
        self.most_in_flight = most_in_flight
        """Requests that can be submitted at once: the next one waits in the kernel to be."""
        self.random = np.random.default_rng(seed)
        self.elapsed_s = 0.0
        """Time of the drive's clock."""
        self.request_cpu_s = 0.0
        """CPU time of this program in requests."""
        self.read_bytes = 0
        self.written_bytes = 0
        self.writable = writable
        self.flushes = isinstance(timed, TimedBlockDevice)
        """Whether a write through the cache may be a write and a flush: the kernel decides."""
        self.region: tuple[int, int] = (0, self.capacity_sectors)
        """Sectors where loads and random reads are."""
        self._timed = timed
        self._disk = counters
        self._issued = DiskSums()
        self._seen = counters.read() if counters is not None else None

    @property
    def capacity_sectors(self) -> int:
        """Return the capacity in sectors, whole units only."""
        return self.capacity_bytes // SECTOR_BYTES // UNIT * UNIT

    @property
    def traffic_seen(self) -> bool:
        """Return whether requests of other programs would be seen."""
        return self._seen is not None or isinstance(self._timed, TimedModel)

    def reads(
        self,
        sector: Sequence[int],
        sectors: int | Sequence[int] = UNIT,
        *,
        wait_s: float | Sequence[float] = 0.0,
        depth: int = 1,
        limit_s: float | None = None,
    ) -> RequestTimes:
        """Read in this order with `depth` requests in flight. `wait_s`: pause before each. No
        request starts after `limit_s`, so there may be fewer timings."""
        return self._requests(READ, sector, sectors, wait_s, depth, limit_s)

    def writes(
        self,
        sector: Sequence[int],
        sectors: int | Sequence[int] = UNIT,
        *,
        wait_s: float | Sequence[float] = 0.0,
        depth: int = 1,
        limit_s: float | None = None,
        through: bool = False,
    ) -> RequestTimes:
        """Write like `reads` reads; `through`: each write is done when it is on the medium."""
        self._check_writable(sector, sectors)
        op = WRITE_THROUGH if through else WRITE
        return self._requests(op, sector, sectors, wait_s, depth, limit_s)

    def mixed(
        self,
        sector: Sequence[int],
        sectors: int,
        write: Sequence[bool],
        *,
        depth: int,
        limit_s: float | None = None,
    ) -> RequestTimes:
        """Read and write in this order, with `depth` requests in flight. No request starts after
        `limit_s`, so there may be fewer timings."""
        self._check_writable(sector, sectors)
        ops = [WRITE if each else READ for each in write]
        return self._requests(ops, sector, sectors, 0.0, depth, limit_s)

    def _check_writable(self, sector: Sequence[int], sectors: int | Sequence[int]) -> None:
        """Raise ValueError if the device must not be written in all of these places."""
        last = self.capacity_sectors - EDGE_SECTORS
        lengths = [sectors] * len(sector) if isinstance(sectors, int) else sectors
        ends = zip(sector, lengths, strict=True)
        if not self.writable or any(at < EDGE_SECTORS or at + length > last for at, length in ends):
            raise ValueError(f"{self.name} must not be written there")

    def _requests(
        self,
        op: int | Sequence[int],
        sector: Sequence[int],
        sectors: int | Sequence[int],
        wait_s: float | Sequence[float],
        depth: int,
        limit_s: float | None,
    ) -> RequestTimes:
        waits_ns = (
            round(wait_s * 1e9)
            if isinstance(wait_s, (int, float))
            else [round(each * 1e9) for each in wait_s]
        )
        until_s = None if limit_s is None else self.elapsed_s + limit_s
        count = len(sector)
        step = CHUNK if depth == 1 else max(count, 1)
        parts: list[Times] = []
        for first in range(0, count, step):
            left_s = None if until_s is None else until_s - self.elapsed_s
            if left_s is not None and left_s <= 0:
                break
            chunk = slice(first, first + step)
            times = self._run(
                _part(op, chunk), sector[chunk], _part(sectors, chunk), _part(waits_ns, chunk),
                depth, left_s,
            )  # fmt: skip
            parts.append(times)
        times = np.concatenate(parts) if parts else np.empty((0, 2))
        return RequestTimes(times[:, 0], times[:, 1])

    def _run(
        self,
        op: int | Sequence[int],
        sector: Sequence[int],
        sectors: int | Sequence[int],
        wait_ns: int | Sequence[int],
        depth: int,
        left_s: float | None,
    ) -> Times:
        limit_ns = WITHOUT_LIMIT_NS if left_s is None else round(left_s * 1e9)
        columns = (op, sector, sectors, wait_ns)
        if isinstance(self._timed, TimedModel):  # a fit runs thousands of short loads
            made = self._timed.run(*columns, depth, limit_ns)
        else:
            made = self._run_device(self._timed, columns, depth, limit_ns)
        times = np.frombuffer(made, np.uint64).astype(np.float64).reshape(-1, 2) * 1e-9
        if len(times):
            self.elapsed_s = float(times[:, 1].max())
        read, written = _moved(op, sectors, len(times))
        self.read_bytes += read * SECTOR_BYTES
        self.written_bytes += written * SECTOR_BYTES
        self._issued += DiskSums(len(times), read, written)
        return times

    def _run_device(
        self, device: TimedBlockDevice, columns: Columns, depth: int, limit_ns: int
    ) -> bytes:
        begun_s = time.process_time()
        try:
            with _prompt():
                made = device.run(*columns, depth, limit_ns)
        except OSError as error:
            ops = {columns[0]} if isinstance(columns[0], int) else set(columns[0])
            what = " or ".join(sorted({"read" if op == READ else "write" for op in ops}))
            raise HeadraceError(
                f"{self.name}: a {what} failed after {self.elapsed_s:.0f} s: {error}",
                hint="the kernel's log (dmesg) says why; no drive file is written",
            ) from None
        self.request_cpu_s += time.process_time() - begun_s
        return made

    def take_idle(self, pause_s: float) -> None:
        """Leave the drive alone: it empties its caches meanwhile."""
        self.reads([self.region[0]], wait_s=pause_s)

    def random_sectors(self, count: int, sectors: int = UNIT) -> list[int]:
        """Return random places of requests of that length anywhere in the region."""
        first, end = self.region
        return self.places_in(first, end, count, sectors)

    def writable_sectors(self, count: int, sectors: int = UNIT) -> list[int]:
        """Return random places of writes of that length in the region, without the edges."""
        return self.places_in(*self.writable_region, count, sectors)

    @property
    def writable_region(self) -> tuple[int, int]:
        """Return the sectors of the region that may be written."""
        last = self.capacity_sectors - EDGE_SECTORS
        return max(self.region[0], EDGE_SECTORS), min(self.region[1], last)

    def places_in(self, first: int, end: int, count: int, sectors: int) -> list[int]:
        """Return random places of requests of that length between two sectors."""
        low, high = -(-first // sectors), max(end // sectors, -(-first // sectors) + 1)
        return (self.random.integers(low, high, count) * sectors).tolist()

    def take_others(self, part: str) -> OtherTraffic | None:
        """Return the requests of other programs since the last call; None if none were seen."""
        issued, self._issued = self._issued, DiskSums()
        now = self._disk.read() if self._disk is not None else None
        before, self._seen = self._seen, now
        if now is None or before is None:
            return None
        return others_in(part, now - before, issued)


def _part(column: int | Sequence[int], chunk: slice) -> int | Sequence[int]:
    return column if isinstance(column, int) else column[chunk]


def _moved(op: int | Sequence[int], sectors: int | Sequence[int], count: int) -> tuple[int, int]:
    """Return the sectors that the first requests read and wrote."""
    total = sectors * count if isinstance(sectors, int) else sum(sectors[:count])
    if isinstance(op, int):
        return (total, 0) if op == READ else (0, total)
    lengths = [sectors] * count if isinstance(sectors, int) else sectors
    read = sum(length for op, length in zip(op[:count], lengths, strict=False) if op == READ)
    return read, total - read


def modelled_device(
    table: Table, *, seed: int = 0, script_seed: int = 0, writable: bool = False
) -> LearntDevice:
    """Return the model of a drive that is full of data, in virtual time."""
    queue = cast("Table", table.get("queue", {}))
    depth = int(cast("int", queue.get("depth") or table.get("queue_depth") or 32))
    timed = TimedModel(json.dumps(table), seed, True)
    name = str(table["name"])
    return LearntDevice(
        timed, name=name, seed=script_seed, queue_depth=min(depth, 128), writable=writable
    )


class NotLearntError(HeadraceError):
    """The drive did not answer as its kind does."""


Say = Callable[[str], None]
