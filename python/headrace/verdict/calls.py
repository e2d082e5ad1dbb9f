"""How long a recorded program's calls waited, by the storage of their files; pure."""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.profiles.steps import Ints, Op, Recording, Steps
from headrace.profiles.summary import covered_bytes, is_read
from headrace.verdict.observation import Access, StoragePlace
from headrace.verdict.places import UNKNOWN

CACHED_NS = 20_000
"""A call on cached data takes less, besides its copy, on any machine of the last ten years."""
COPIED_BYTES_PER_NS = 1.0
"""At least so fast is the copy from the page cache: assumption, a tenth of what one core does."""

_CALLS = {
    Op.OPEN: "opens", Op.CLOSE: "closes", Op.WRITE: "writes", Op.STAT: "stats", Op.SYNC: "fsyncs",
    Op.UNLINK: "removals", Op.TRUNCATE: "truncations", Op.ALLOCATE: "allocations",
    Op.RESERVE: "allocations",
}  # fmt: skip


def cached_most_ns(length: Ints) -> npt.NDArray[np.float64]:
    """Return the longest time of a call of so many bytes that waited for nothing."""
    return CACHED_NS + length / COPIED_BYTES_PER_NS


def waited(steps: Steps) -> npt.NDArray[np.bool_]:
    """Return which calls waited for storage."""
    return steps.end_ns - steps.start_ns > cached_most_ns(steps.length)


def jumps(steps: Steps) -> npt.NDArray[np.bool_]:
    """Return which steps begin elsewhere than where the one before, of the same file, ended."""
    found = np.ones(len(steps), bool)
    order = np.lexsort((steps.start_ns, steps.file))
    file, begin = steps.file[order], steps.offset[order]
    end = begin + steps.length[order]
    if len(order) > 1:
        found[order[1:]] = (file[1:] != file[:-1]) | (begin[1:] != end[:-1])
    return found


def again(steps: Steps) -> npt.NDArray[np.bool_]:
    """Return which steps begin where one before began, in the same page of the same file."""
    pages = np.column_stack([steps.file, steps.offset // mmap.PAGESIZE])
    _, first = np.unique(pages, axis=0, return_index=True)
    found = np.ones(len(steps), bool)
    found[first] = False
    return found


def mapped_on(recording: Recording, places: Mapping[str, StoragePlace]) -> StoragePlace | None:
    """Return where the data file is whose mapped pages it used most."""
    steps = recording.steps
    pages = steps.take((steps.op == Op.MAPPED_READ) & (steps.length > 0))
    used: dict[StoragePlace, int] = {}
    for number in np.unique(pages.file).tolist():
        file = recording.files[number]
        place = places.get(file.path, UNKNOWN)
        if not file.software and place.kind in ("block", "network"):
            used[place] = used.get(place, 0) + int(pages.length[pages.file == number].sum())
    return max(used, key=lambda place: used[place], default=None)


def waited_bytes(recording: Recording) -> int:
    """Return the bytes of read calls that waited."""
    steps = recording.steps
    return int(steps.length[(steps.op == Op.READ) & waited(steps)].sum())


def accesses_of(recording: Recording, places: Mapping[str, StoragePlace]) -> tuple[Access, ...]:
    """Return the accesses of each place, by the time that was waited there, most first."""
    steps = recording.steps
    numbers: dict[StoragePlace, list[int]] = {}
    for number, file in enumerate(recording.files):
        numbers.setdefault(places.get(file.path, UNKNOWN), []).append(number)
    found = [
        _access(place, steps.take(np.isin(steps.file, files)), recording, files)
        for place, files in numbers.items()
    ]
    return tuple(sorted(found, key=lambda access: (-access.waited_s, -access.bytes_read)))


def _access(
    place: StoragePlace, steps: Steps, recording: Recording, files: Sequence[int]
) -> Access:
    # What is known about the order of reads is about data: software is read as the loader wants.
    data = [number for number in files if not recording.files[number].software] or list(files)
    reads = steps.take(is_read(steps) & np.isin(steps.file, data))
    slow = waited(steps)
    lasted_s = (steps.end_ns - steps.start_ns)[slow] * 1e-9
    slow_reads = is_read(steps)[slow]
    lost = _lost(reads, recording) if place.kind == "block" else np.zeros(len(reads), bool)
    written = steps.length[steps.op == Op.WRITE]
    slowest, slow_others, slow_other_s = _slowest(
        steps.op[slow][~slow_reads], lasted_s[~slow_reads]
    )
    return Access(
        place=place,
        reads=len(reads),
        bytes_read=int(reads.length.sum()),
        bytes_unique=sum(
            covered_bytes(reads.offset[reads.file == each], reads.length[reads.file == each])
            for each in np.unique(reads.file).tolist()
        ),
        span_bytes=sum(
            int((own.offset + own.length).max() - own.offset.min())
            for own in (reads.take(reads.file == each) for each in np.unique(reads.file).tolist())
        ),
        bytes_written=int(written.sum()),
        read_bytes_median=float(np.median(reads.length)) if len(reads) else 0.0,
        random_fraction=float(jumps(reads).mean()) if len(reads) > 1 else 0.0,
        waited_s=float(lasted_s.sum()),
        slow_reads=int(slow_reads.sum()),
        slow_read_s=float(lasted_s[slow_reads].mean()) if slow_reads.any() else 0.0,
        again_s=float((reads.end_ns - reads.start_ns)[lost].sum() * 1e-9),
        other_calls_s=float(lasted_s[~slow_reads].sum()),
        slowest_other=slowest,
        slow_others=slow_others,
        slow_other_s=slow_other_s,
    )


def _slowest(
    operations: npt.NDArray[np.integer[Any]], lasted_s: npt.NDArray[np.floating[Any]]
) -> tuple[str, int, float]:
    """Return the kind of call that lasted longest in all, how many there are and their mean."""
    if not len(operations):
        return "", 0, 0.0
    kinds = np.unique(operations).tolist()
    slowest = max(kinds, key=lambda kind: lasted_s[operations == kind].sum())
    lasted = lasted_s[operations == slowest]
    return _CALLS.get(Op(slowest), "other calls"), len(lasted), float(lasted.mean())


def _lost(reads: Steps, recording: Recording) -> npt.NDArray[np.bool_]:
    """Return which reads waited for what had been read before; parts of a page do not count."""
    cached = np.array([not file.direct for file in recording.files] or [True])
    return waited(reads) & again(reads) & (reads.length >= mmap.PAGESIZE) & cached[reads.file]
