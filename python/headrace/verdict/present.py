"""What the present storage takes for a read, from the recording and from a second of own reads."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.profiles.steps import Ints, Recording, Steps
from headrace.profiles.summary import is_read
from headrace.system.direct_reads import ALIGNMENT, timed_direct_reads
from headrace.verdict.calls import counted_once_ns, jumps, waited
from headrace.verdict.observation import StoragePlace
from headrace.verdict.writes import waited_once_ns

_LEAST = 20
"""So many waits make a mean."""
_OWN_LIMIT_S = 0.5
_OWN_RANDOM = 64
_OWN_SEQUENTIAL = 16
_OWN_PIECE = 1 << 20
READ_AHEADS = 4
"""Reads wait once in two sizes of the read-ahead, while one is used and one is on its way: so many
sizes have a wait for certain, and move at the rate of the drive."""


@dataclass(frozen=True)
class ReadTimes:
    """Times of reads on a place; None where nothing was measured."""

    random_s: float | None = None
    """A read elsewhere, of `random_bytes` on average."""
    random_bytes: float = 4096.0
    random_copied: float = 0.0
    """Of `random_bytes`: copied out of the page cache, in this time, too."""
    rate_bytes_per_s: float | None = None
    """Reads in order."""
    direct_s: float | None = None
    """A direct read in order, of `direct_bytes` on average: nothing is read ahead of it."""
    direct_bytes: float = 0.0
    own_random: bool = False
    """`random_s` is of reads that were made after the program: it makes hardly any."""
    own_reads: int = 0
    """Reads that were made to learn it, after the program."""


def recorded_times(
    recording: Recording, files: Sequence[int], read_ahead_bytes: int = 0
) -> ReadTimes:
    """Return what the program's own reads of these files show; pure.

    `read_ahead_bytes`: of their device. So much and more comes at once after a wait, and is then
    read as fast as it can be copied.
    """
    kept = replace(recording, steps=recording.steps.take(np.isin(recording.steps.file, files)))
    reads = is_read(kept.steps)
    steps = kept.steps.take(reads)
    slow, jumped = waited(steps, recording.files), jumps(steps)
    direct = np.array([file.direct for file in recording.files] or [False])[steps.file]
    # They are simulated one after the other, also those that several threads made at once.
    once = waited_once_ns(kept)[reads]
    found = ReadTimes()
    chosen = slow & jumped
    if int(chosen.sum()) >= _LEAST:
        lasted = once[chosen]
        found = replace(
            found,
            random_s=float(lasted.mean()) * 1e-9,
            random_bytes=float(steps.length[chosen].mean()),
            random_copied=float((steps.length * ~direct)[chosen].mean()),
        )
    chosen = slow & direct & ~jumped
    if int(chosen.sum()) >= _LEAST:
        lasted = once[chosen]
        found = replace(
            found,
            direct_s=float(lasted.mean()) * 1e-9,
            direct_bytes=float(steps.length[chosen].mean()),
        )
    return replace(found, rate_bytes_per_s=_rate(kept, steps, read_ahead_bytes))


class _Stretches(NamedTuple):
    """Reads in order of one file from one wait to the next, in which the drive was busy with them:
    it reads ahead."""

    begin_ns: Ints
    end_ns: Ints
    bytes: Ints
    is_first: npt.NDArray[np.bool_]
    """Whether a piece begins: what is read ahead at once moves in one piece."""


def _rate(recording: Recording, steps: Steps, read_ahead_bytes: int) -> float | None:
    """Return the rate of reads in order in bytes per second: the median of pieces, by bytes.

    None if there are too few waits.
    """
    found = [
        _stretches(recording, steps.take(steps.file == file), read_ahead_bytes)
        for file in np.unique(steps.file).tolist()
    ]
    if sum(len(each.bytes) for each in found) < _LEAST:
        return None
    begin, end, moved, is_first = (np.concatenate(each) for each in zip(*found, strict=True))
    # Files that are read at the same time share it, and writes that wait meanwhile.
    others = recording.steps.take(
        ~is_read(recording.steps) & waited(recording.steps, recording.files)
    )
    elapsed = counted_once_ns(
        np.concatenate([begin, others.start_ns]), np.concatenate([end, others.end_ns])
    )[: len(begin)]
    edges = np.flatnonzero(is_first)
    moved, elapsed = np.add.reduceat(moved, edges), np.add.reduceat(elapsed, edges)
    rates = moved / np.maximum(elapsed, 1.0) * 1e9
    order = np.argsort(rates)
    reached = np.cumsum(moved[order])
    return float(rates[order[int(np.searchsorted(reached, reached[-1] / 2))]])


def _stretches(recording: Recording, steps: Steps, read_ahead_bytes: int) -> _Stretches:
    """Return the stretches of one file, whose reads `steps` are."""
    runs = np.cumsum(jumps(steps))
    total = np.cumsum(steps.length)
    waits = np.flatnonzero(waited(steps, recording.files))
    last, this = waits[:-1], waits[1:]
    direct = recording.files[int(steps.file[0])].direct
    # Past the page cache nothing is read ahead: data moves in the call alone.
    begin = steps.start_ns[this] if direct else steps.end_ns[last]
    end, moved = steps.end_ns[this], total[this] - total[last]
    used = (runs[this] == runs[last]) & (end > begin) & (moved > 0)
    is_first = np.ones(int(used.sum()), bool)
    if read_ahead_bytes and not direct:
        piece = total[last] // (READ_AHEADS * read_ahead_bytes)
        of = np.column_stack([runs[last], piece])[used]
        is_first[1:] = (of[1:] != of[:-1]).any(axis=1)
    return _Stretches(begin[used], end[used], moved[used], is_first)


def completed(times: ReadTimes, path: Path, place: StoragePlace) -> ReadTimes:
    """Return the times with what is missing measured on this file, in a second at most.

    What cannot be measured (no O_DIRECT, a small file) stays missing.
    """
    if place.kind not in ("block", "network"):
        return times
    chosen = random.Random(1)
    with contextlib.suppress(OSError, ValueError):
        size = path.stat().st_size
        if times.random_s is None:
            places = [chosen.randrange(size // ALIGNMENT) * ALIGNMENT for _ in range(_OWN_RANDOM)]
            lasted = timed_direct_reads(path, places, ALIGNMENT, _OWN_LIMIT_S)
            times = replace(
                times,
                random_s=float(np.mean(lasted)),
                random_bytes=float(ALIGNMENT),
                random_copied=0.0,
                own_random=True,
                own_reads=times.own_reads + len(lasted),
            )
        if times.rate_bytes_per_s is None:
            pieces = min(_OWN_SEQUENTIAL, size // _OWN_PIECE)
            first = chosen.randrange(max(1, size // _OWN_PIECE - pieces)) * _OWN_PIECE
            places = [first + number * _OWN_PIECE for number in range(pieces)]
            lasted = timed_direct_reads(path, places, _OWN_PIECE, _OWN_LIMIT_S)
            # The first read has to find its place.
            if len(lasted) > 1:
                times = replace(
                    times,
                    rate_bytes_per_s=_OWN_PIECE / float(np.median(lasted[1:])),
                    own_reads=times.own_reads + len(lasted),
                )
    return times
