"""What a recorded job did, in numbers: bytes, sizes, order, reuse, times, offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.profiles.steps import Ints, Op, RecordedFile, Recording, Steps
from headrace.profiles.synchronous import sync_calls
from headrace.profiles.timeline import Timeline, timeline


@dataclass(frozen=True)
class FileUse:
    """Use of one file."""

    path: str
    bytes: int
    """Its size when opened; for files that the job created, the bytes written."""
    reads: int
    bytes_read: int
    bytes_unique: int
    writes: int
    bytes_written: int


@dataclass(frozen=True)
class Summary:
    """Summary of a whole job. Percentiles are 5, 50 and 95; none of nothing."""

    duration_s: float
    cpu_s: float
    cpu_wait_s: float
    in_calls_s: float
    """Time in reads, writes, opens and similar calls, of all threads."""
    reads: int
    """Reads of at least one byte."""
    empty_reads: int
    """Read calls that returned no byte, as those at the end of a file."""
    bytes_read: int
    bytes_unique: int
    """Each byte counted once, however often it was read."""
    writes: int
    bytes_written: int
    opens: int
    stats: int
    seeks: int
    maps: int
    syncs: int
    """Calls of fsync and fdatasync, and writes to files opened with O_SYNC or O_DSYNC."""
    read_size_percentiles: tuple[float, ...]
    read_size_buckets: tuple[tuple[int, int], ...]
    """(power of two that the size is below, reads)."""
    sequential_fraction: float | None
    """Share that begins where the previous read of the same file ended, of the reads that follow
    one; None without such reads."""
    forward_fraction: float | None
    """Share of them that begins there or further on; None without such reads."""
    between_ms_percentiles: tuple[float, ...]
    """CPU time between a read and the next."""
    files: tuple[FileUse, ...]
    """Data files, sorted by bytes, most first."""
    software_files: int
    software_bytes: int

    @property
    def reuse(self) -> float:
        """Mean number of times each byte was read; 1 for a job that reads nothing twice."""
        return self.bytes_read / self.bytes_unique if self.bytes_unique else 0.0


def is_read(steps: Steps) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which steps read bytes."""
    return np.isin(steps.op, (Op.READ, Op.MAPPED_READ)) & (steps.length > 0)


def covered_bytes(offset: Ints, length: Ints) -> int:
    """Return the bytes covered by ranges that may overlap."""
    order = np.argsort(offset, kind="stable")
    begin, end = offset[order], (offset + length)[order]
    reached = np.maximum.accumulate(end)
    before = np.concatenate([begin[:1], reached[:-1]]) if len(begin) else begin
    return int(np.maximum(end - np.maximum(begin, before), 0).sum())


@dataclass
class _Follows:
    """How many reads follow another one of the same file, and where they begin."""

    reads: int = 0
    sequential: int = 0
    forward: int = 0

    def add(self, reads: Steps) -> None:
        """Count the reads of one file."""
        if len(reads) > 1:
            ends = (reads.offset + reads.length)[:-1]
            self.sequential += int((reads.offset[1:] == ends).sum())
            self.forward += int((reads.offset[1:] >= ends).sum())
            self.reads += len(reads) - 1


def _file_use(file: RecordedFile, reads: Steps, writes: Steps) -> FileUse:
    made = int((writes.offset + writes.length).max(initial=0))
    return FileUse(
        file.path,
        made if file.created else file.bytes,
        len(reads),
        int(reads.length.sum()),
        covered_bytes(reads.offset, reads.length),
        len(writes),
        int(writes.length.sum()),
    )


def bytes_moved(recording: Recording) -> tuple[int, int]:
    """Return the bytes read from data files, through mapped pages too, and written to them."""
    data = recording.steps.take(_about_data(recording))
    return int(data.length[is_read(data)].sum()), int(data.length[data.op == Op.WRITE].sum())


def _about_data(recording: Recording) -> npt.NDArray[np.bool_]:
    """Return which steps are not of software."""
    software = np.array([file.software for file in recording.files] or [False])
    return ~software[recording.steps.file] if len(recording.steps) else np.zeros(0, bool)


def summarise(recording: Recording) -> Summary:
    """Summarise the data files; software is counted separately."""
    steps = recording.steps
    about_data = _about_data(recording)
    data = steps.take(about_data)
    reads, writes = data.take(is_read(data)), data.take(data.op == Op.WRITE)
    counts = {op: int((data.op == op).sum()) for op in Op}
    line = timeline(steps, recording.files, recording.duration_ns)
    follows = _Follows()
    files: list[FileUse] = []
    for number, file in enumerate(recording.files):
        if not file.software:
            own = reads.take(reads.file == number)
            follows.add(own)
            files.append(_file_use(file, own, writes.take(writes.file == number)))
    files.sort(key=lambda use: -(use.bytes_read + use.bytes_written))
    sizes = reads.length
    powers, numbers = np.unique(
        np.ceil(np.log2(np.maximum(sizes, 1) + 1)).astype(np.int64), return_counts=True
    )
    others = steps.take(~about_data)
    return Summary(
        duration_s=recording.duration_ns * 1e-9,
        cpu_s=recording.cpu_ns * 1e-9,
        cpu_wait_s=recording.cpu_wait_ns * 1e-9,
        in_calls_s=float((data.end_ns - data.start_ns).sum() * 1e-9),
        reads=len(reads),
        empty_reads=int(((data.op == Op.READ) & (data.length == 0)).sum()),
        bytes_read=int(sizes.sum()),
        bytes_unique=sum(use.bytes_unique for use in files),
        writes=len(writes),
        bytes_written=int(writes.length.sum()),
        opens=counts[Op.OPEN],
        stats=counts[Op.STAT],
        seeks=counts[Op.SEEK],
        maps=counts[Op.MAP],
        syncs=int((sync_calls(recording) & about_data).sum()),
        read_size_percentiles=_percentiles(sizes),
        read_size_buckets=tuple(zip((1 << powers).tolist(), numbers.tolist(), strict=True)),
        sequential_fraction=follows.sequential / follows.reads if follows.reads else None,
        forward_fraction=follows.forward / follows.reads if follows.reads else None,
        between_ms_percentiles=_percentiles(_work_between(line) * 1e-6),
        files=tuple(files),
        software_files=sum(file.software for file in recording.files),
        software_bytes=int(others.length[is_read(others)].sum()),
    )


def _percentiles(values: npt.NDArray[Any]) -> tuple[float, ...]:
    if not len(values):
        return ()
    return tuple(float(value) for value in np.percentile(values, (5, 50, 95)))


def _work_between(line: Timeline) -> Ints:
    """Return the CPU time (ns) between each read and the next, other calls or not."""
    return np.diff(np.cumsum(line.work_ns)[is_read(line.steps)])


def sizes_given(recording: Recording, *, software: bool = False) -> str:
    """Return how often the job set a file's size or allocated space ("2 truncate, 1 allocate");
    empty if never.

    Files of software count only if requested.
    """
    chosen = np.array([software or not file.software for file in recording.files] or [False])
    ops = recording.steps.op[chosen[recording.steps.file]]
    counts = {op: int((ops == int(op)).sum()) for op in (Op.TRUNCATE, Op.ALLOCATE, Op.RESERVE)}
    return ", ".join(f"{count} {op.name.lower()}" for op, count in counts.items() if count)
