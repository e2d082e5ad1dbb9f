"""One client of `sequential` on URL storage: writes or reads a file record by record.

Each request is timed. This corresponds to fio on a mounted file and gives the same results
(workloads/fio/results.py), so that one merge serves both.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from headrace.errors import HeadraceError
from headrace.protocols import remote_storage
from headrace.protocols.causes import cause_of
from headrace.workloads import JobInput
from headrace.workloads.fio.client import FioRun
from headrace.workloads.fio.meeting import Meeting
from headrace.workloads.fio.results import Direction, FioResult

Access = Literal["read", "write", "mixed"]


class _Requests:
    """Timings of one direction."""

    def __init__(self) -> None:
        self.bytes = 0
        self.total_ns = 0
        self.longest_ns = 0
        self.bins: Counter[int] = Counter()

    def add(self, size: int, took_ns: int) -> None:
        self.bytes += size
        self.total_ns += took_ns
        self.longest_ns = max(self.longest_ns, took_ns)
        # Two significant digits, rounded up.
        step = 10 ** max(0, len(str(took_ns)) - 2)
        self.bins[-(-took_ns // step) * step] += 1

    def direction(self, runtime_s: float) -> Direction:
        count = sum(self.bins.values())
        if not count:
            return Direction()
        return Direction(
            self.bytes,
            count,
            runtime_s,
            self.total_ns / count,
            self.longest_ns,
            tuple(sorted(self.bins.items())),
        )


@dataclass(frozen=True)
class Stream:
    """One pass of a client through its file."""

    access: Access
    file_size: int
    record_size: int
    new: bool = False
    """Whether the file is created."""
    shuffled: bool = False
    """Whether records come in random order."""
    read_fraction: float = 0.5
    """Share of reads, for `mixed`."""
    flush: bool = True

    def run(self, job: JobInput, url: str, label: str) -> FioRun:
        """Run in step with the trial's other clients; closing the file is timed, opening is not.

        Raises HeadraceError with the message of the protocol's client.
        """
        meeting = Meeting.of(job, label)
        try:
            if meeting is None:
                return self._run(job.seed, url, lambda: None)
            with meeting.kept():
                return self._run(job.seed, url, meeting.wait)
        except HeadraceError:
            raise
        except Exception as error:
            # A client library has its own exception types.
            raise HeadraceError(f"{url}: {cause_of(error)}") from error

    def _run(self, seed: int, url: str, wait_for_others: Callable[[], None]) -> FioRun:
        chance = random.Random(seed)
        record = chance.randbytes(self.record_size)
        offsets = list(range(0, self.file_size, self.record_size))
        if self.shuffled:
            chance.shuffle(offsets)
        reads, writes = _Requests(), _Requests()
        storage, path = remote_storage(url)
        sink = storage.sink(path, new=self.new) if self.access != "read" else None
        source = storage.source(path) if self.access != "write" else None
        wait_for_others()
        start_s = time.monotonic()
        for offset in offsets:
            begun_ns = time.monotonic_ns()
            if source is not None and (sink is None or chance.random() < self.read_fraction):
                size = source.read(offset, self.record_size)
                if size < self.record_size:
                    raise OSError(
                        f"ends after {offset + size} bytes; {self.file_size} were to be read"
                    )
                if size > self.record_size:
                    raise OSError(
                        f"the server sent {size} bytes for a request of {self.record_size}"
                    )
                reads.add(size, time.monotonic_ns() - begun_ns)
            elif sink is not None:
                sink.write(offset, record)
                writes.add(self.record_size, time.monotonic_ns() - begun_ns)
        begun_ns = time.monotonic_ns()
        if sink is not None:
            if self.flush:
                sink.flush()
            sink.close()
        sync_ns = time.monotonic_ns() - begun_ns
        if source is not None:
            source.close()
        end_s = time.monotonic()
        runtime_s = end_s - start_s
        result = FioResult(reads.direction(runtime_s), writes.direction(runtime_s), float(sync_ns))
        return FioRun(result, start_s, end_s)
