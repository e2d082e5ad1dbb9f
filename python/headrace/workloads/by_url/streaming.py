"""One client of `sequential` on storage that is reached by URL: a file written or read record by record, each request timed.

What fio does on a mounted file, with the same results (workloads/fio/results.py), so that one merge serves both.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Literal

from headrace.errors import HeadraceError
from headrace.workloads import JobInput
from headrace.workloads.by_url import ByteSink, ByteSource, remote_storage
from headrace.workloads.fio.client import FioRun
from headrace.workloads.fio.meeting import Meeting
from headrace.workloads.fio.results import Direction, FioResult

Access = Literal["read", "write", "mixed"]


class _Requests:
    """What was timed of one direction."""

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


def stream(
    job: JobInput,
    url: str,
    *,
    access: Access,
    new: bool = False,
    shuffled: bool = False,
    read_fraction: float = 0.5,
    file_size: int,
    record_size: int,
    flush: bool,
    label: str,
) -> FioRun:
    """Goes once through a file of the storage, in step with the other clients of the trial; opening it is not timed, closing is.

    `new`: the file is made; `shuffled`: records in random order; `read_fraction`: of `mixed`. Raises HeadraceError with the client's
    own words.
    """
    meeting = Meeting.of(job, label)
    if meeting is None:
        return _stream(job, url, access, new, shuffled, read_fraction, file_size, record_size, flush, None)
    with meeting.kept():
        return _stream(job, url, access, new, shuffled, read_fraction, file_size, record_size, flush, meeting)


def _stream(
    job: JobInput,
    url: str,
    access: Access,
    new: bool,
    shuffled: bool,
    read_fraction: float,
    file_size: int,
    record_size: int,
    flush: bool,
    meeting: Meeting | None,
) -> FioRun:
    chance = random.Random(job.seed)
    record = chance.randbytes(record_size)
    offsets = list(range(0, file_size, record_size))
    if shuffled:
        chance.shuffle(offsets)
    reads, writes = _Requests(), _Requests()
    try:
        storage, path = remote_storage(url)
        sink: ByteSink | None = storage.sink(path, new=new) if access != "read" else None
        source: ByteSource | None = storage.source(path) if access != "write" else None
        if meeting is not None:
            meeting.wait()
        start_s = time.monotonic()
        for offset in offsets:
            reading = sink is None or (source is not None and chance.random() < read_fraction)
            begun_ns = time.monotonic_ns()
            if reading and source is not None:
                size = source.read(offset, record_size)
                if size < record_size:
                    raise OSError(f"ends after {offset + size} bytes; {file_size} were to be read")
                reads.add(size, time.monotonic_ns() - begun_ns)
            elif sink is not None:
                sink.write(offset, record)
                writes.add(record_size, time.monotonic_ns() - begun_ns)
        begun_ns = time.monotonic_ns()
        if sink is not None:
            if flush:
                sink.flush()
            sink.close()
        sync_ns = time.monotonic_ns() - begun_ns
        if source is not None:
            source.close()
        end_s = time.monotonic()
    except HeadraceError:
        raise
    except Exception as error:
        # A client's library has exceptions of its own.
        raise HeadraceError(f"{url}: {' '.join(str(error).split()) or type(error).__name__}") from error
    runtime_s = end_s - start_s
    return FioRun(
        FioResult(reads.direction(runtime_s), writes.direction(runtime_s), float(sync_ns)), start_s, end_s
    )
