"""How long a recorded program's calls waited, by the storage of their files; pure."""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.profiles.steps import Ints, Op, RecordedFile, Recording, Steps
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
_FILES_MOST = 100
"""So many files of calls that waited are named."""
_SYNCHRONOUS, _DIRECT = 100, 101
_WRITES = {_SYNCHRONOUS: "synchronous writes", _DIRECT: "direct writes"}
"""Writes that bypass the page cache, or wait until their data is on stable storage."""


def cached_most_ns(length: Ints) -> npt.NDArray[np.float64]:
    """Return the longest time of a call of so many bytes that waited for nothing."""
    return CACHED_NS + length / COPIED_BYTES_PER_NS


def waited(steps: Steps, files: Sequence[RecordedFile]) -> npt.NDArray[np.bool_]:
    """Return which calls waited for storage; `files` are those of the recording.

    Data that moves past the page cache is not copied: a fast drive moves it faster than a copy.
    """
    direct = np.array([file.direct for file in files] or [False])[steps.file]
    copied = np.where(direct, 0, steps.length)
    return steps.end_ns - steps.start_ns > cached_most_ns(copied)


def counted_once_ns(begin_ns: Ints, end_ns: Ints) -> npt.NDArray[np.float64]:
    """Return how much of the time belongs to each interval if time in several is shared among them:
    the sum is the time in which there was any."""
    times = np.concatenate([begin_ns, end_ns])
    order = np.argsort(times, kind="stable")
    at_once = np.cumsum(np.where(order < len(begin_ns), 1, -1))[:-1]
    spans = np.diff(times[order]) / np.maximum(at_once, 1) * (at_once > 0)
    reached = np.empty(len(times), np.float64)
    reached[order] = np.concatenate([[0.0], np.cumsum(spans)])[: len(times)]
    return reached[len(begin_ns) :] - reached[: len(begin_ns)]


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
    return int(steps.length[(steps.op == Op.READ) & waited(steps, recording.files)].sum())


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
    slow = waited(steps, recording.files)
    lasted_s = (steps.end_ns - steps.start_ns)[slow] * 1e-9
    slow_reads = is_read(steps)[slow]
    lost = _lost(reads, recording) if place.kind == "block" else np.zeros(len(reads), bool)
    written = steps.length[steps.op == Op.WRITE]
    others = steps.take(slow).take(~slow_reads)
    slowest = _slowest(others, _kinds(others, recording), recording)
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
        slowest_other=slowest.name,
        slow_others=slowest.number,
        slow_other_s=slowest.mean_s,
        slow_other_files=slowest.files,
    )


class _SlowCalls(NamedTuple):
    """Calls of one kind that waited."""

    name: str = ""
    number: int = 0
    mean_s: float = 0.0
    files: tuple[str, ...] = ()
    """The file that they waited for longest comes first."""


def _kinds(steps: Steps, recording: Recording) -> Ints:
    """Return the operation of each step, and of writes how they are made."""
    synchronous = np.array([file.synchronous for file in recording.files] or [False])
    direct = np.array([file.direct for file in recording.files] or [False])
    kinds = np.where(direct[steps.file], _DIRECT, steps.op)
    kinds = np.where(synchronous[steps.file], _SYNCHRONOUS, kinds)
    return np.where(steps.op == Op.WRITE, kinds, steps.op)


def _slowest(steps: Steps, kinds: Ints, recording: Recording) -> _SlowCalls:
    """Return the kind of call that lasted longest in all."""
    if not len(steps):
        return _SlowCalls()
    lasted_s = (steps.end_ns - steps.start_ns) * 1e-9
    found = np.unique(kinds).tolist()
    slowest = max(found, key=lambda kind: lasted_s[kinds == kind].sum())
    chosen = kinds == slowest
    file, lasted_s = steps.file[chosen], lasted_s[chosen]
    waited_s = np.bincount(file, lasted_s)
    by_file = sorted(np.unique(file).tolist(), key=lambda each: -waited_s[each])
    name = _WRITES.get(slowest) or _CALLS.get(Op(slowest), "other calls")
    paths = tuple(recording.files[number].path for number in by_file[:_FILES_MOST])
    return _SlowCalls(name, len(file), float(lasted_s.mean()), paths)


def _lost(reads: Steps, recording: Recording) -> npt.NDArray[np.bool_]:
    """Return which reads waited for what had been read before; parts of a page do not count."""
    cached = np.array([not file.direct for file in recording.files] or [True])
    slow = waited(reads, recording.files)
    return slow & again(reads) & (reads.length >= mmap.PAGESIZE) & cached[reads.file]
