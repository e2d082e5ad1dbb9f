"""The drive that is learnt: a block device, or a model in virtual time, under the same scripts."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from headrace._core import SECTOR_BYTES, TimedBlockDevice, TimedModel
from headrace.errors import FileProblem, HeadraceError, MissingError, StudyError
from headrace.scenario import Table
from headrace.system import block_queue, devices

UNIT = 8
"""Sectors of the smallest request: 4 KiB, the sector of current drives."""
CHUNK = 256
"""Requests of one call of the core, between which a signal is handled."""
WITHOUT_LIMIT_NS = 1 << 62

Times = npt.NDArray[np.float64]


class Timed(Protocol):
    """What runs scripts: `TimedBlockDevice` or `TimedModel`."""

    def capacity_bytes(self) -> int: ...

    def run(
        self,
        write: Sequence[bool],
        sector: Sequence[int],
        sectors: Sequence[int],
        wait_ns: Sequence[int],
        depth: int,
        limit_ns: int,
    ) -> bytes: ...


class PromptBlockDevice:
    """A block device whose requests are issued without waiting for other programs' CPU time, where
    the user may have such a priority."""

    def __init__(self, path: Path) -> None:
        self._device = TimedBlockDevice(path, False)

    def capacity_bytes(self) -> int:
        return self._device.capacity_bytes()

    def run(
        self,
        write: Sequence[bool],
        sector: Sequence[int],
        sectors: Sequence[int],
        wait_ns: Sequence[int],
        depth: int,
        limit_ns: int,
    ) -> bytes:
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        try:
            return self._device.run(write, sector, sectors, wait_ns, depth, limit_ns)
        finally:
            with contextlib.suppress(PermissionError):
                os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


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


class LearntDevice:
    """A drive with the clock and the random numbers of its script."""

    def __init__(self, timed: Timed, *, name: str, seed: int = 0, queue_depth: int = 32) -> None:
        self.name = name
        self.capacity_bytes = timed.capacity_bytes()
        self.queue_depth = queue_depth
        """Requests that the drive or the kernel holds."""
        self.random = np.random.default_rng(seed)
        self.elapsed_s = 0.0
        """Time of the drive's clock."""
        self.read_bytes = 0
        self._timed = timed

    @property
    def capacity_sectors(self) -> int:
        """Return the capacity in sectors, whole units only."""
        return self.capacity_bytes // SECTOR_BYTES // UNIT * UNIT

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
        count = len(sector)
        lengths = [sectors] * count if isinstance(sectors, int) else list(sectors)
        waits = [wait_s] * count if isinstance(wait_s, (int, float)) else list(wait_s)
        until_s = None if limit_s is None else self.elapsed_s + limit_s
        step = CHUNK if depth == 1 else max(count, 1)
        parts: list[Times] = []
        for first in range(0, count, step):
            left_s = None if until_s is None else until_s - self.elapsed_s
            if left_s is not None and left_s <= 0:
                break
            chunk = slice(first, first + step)
            made = self._timed.run(
                [False] * len(sector[chunk]),
                [int(each) for each in sector[chunk]],
                lengths[chunk],
                [round(each * 1e9) for each in waits[chunk]],
                depth,
                WITHOUT_LIMIT_NS if left_s is None else round(left_s * 1e9),
            )
            times = np.frombuffer(made, np.uint64).astype(np.float64).reshape(-1, 2) * 1e-9
            parts.append(times)
            if len(times):
                self.elapsed_s = float(times[:, 1].max())
            self.read_bytes += sum(lengths[chunk][: len(times)]) * SECTOR_BYTES
        times = np.concatenate(parts) if parts else np.empty((0, 2))
        return RequestTimes(times[:, 0], times[:, 1])

    def random_sectors(self, count: int, sectors: int = UNIT) -> list[int]:
        """Return random places of requests of that length anywhere on the drive."""
        places = self.capacity_sectors // sectors
        return [int(place) * sectors for place in self.random.integers(0, places, count)]


def modelled_device(table: Table, *, seed: int = 0, script_seed: int = 0) -> LearntDevice:
    """Return the model of a drive that is full of data, in virtual time."""
    queue = cast("Table", table.get("queue", {}))
    depth = int(cast("int", queue.get("depth") or table.get("queue_depth") or 32))
    timed = TimedModel(json.dumps(table), seed, True)
    name = str(table["name"])
    return LearntDevice(timed, name=name, seed=script_seed, queue_depth=min(depth, 128))


def block_device(path: Path, *, seed: int = 0) -> LearntDevice:
    """Open a block device for reads past the page cache. Raises MissingError without the right to
    read it, StudyError if it is no block device."""
    if not path.exists() or not path.is_block_device():
        what = "not found" if not path.exists() else "is no block device"
        raise _refused(path, what, "a block device, such as /dev/sdb")
    try:
        timed = PromptBlockDevice(path)
    except OSError as error:  # of the core: without `errno`, with the kernel's words
        if isinstance(error, PermissionError):
            given = "a container or virtual machine must be given the device"
            as_root = os.geteuid() == 0
            raise MissingError(
                f"{path} cannot be read, not even by root"
                if as_root
                else f"{path} cannot be read by this user",
                hint=given if as_root else f"run it as root or in its group; {given}",
            ) from None
        raise _refused(path, f"cannot be opened: {error}", "") from None
    name = os.path.realpath(path).rsplit("/", 1)[-1]
    depth = block_queue.read_depth(devices.parent_disk(name) or name)
    if timed.capacity_bytes() < 64 << 20:
        raise _refused(path, f"has {timed.capacity_bytes()} bytes", "64 MiB or more")
    depth = min(depth or 32, 128)
    return LearntDevice(timed, name=str(path), seed=seed, queue_depth=depth)


def _refused(path: Path, what: str, allowed: str) -> StudyError:
    return StudyError([FileProblem(path, 0, "DEVICE", "", what, allowed)])


class NotLearntError(HeadraceError):
    """The drive did not answer as its kind does."""


Say = Callable[[str], None]
