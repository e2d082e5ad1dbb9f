"""What the present storage takes for a read, from the recording and from a second of own reads."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from headrace.profiles.steps import Recording
from headrace.profiles.summary import is_read
from headrace.system.direct_reads import ALIGNMENT, timed_direct_reads
from headrace.verdict.calls import jumps, waited
from headrace.verdict.observation import StoragePlace

_LEAST = 20
"""So many waits make a mean."""
_OWN_LIMIT_S = 0.5
_OWN_RANDOM = 64
_OWN_SEQUENTIAL = 16
_OWN_PIECE = 1 << 20


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
    own_reads: int = 0
    """Reads that were made to learn it, after the program."""


def recorded_times(recording: Recording, files: Sequence[int]) -> ReadTimes:
    """Return what the program's own reads of these files show; pure."""
    steps = recording.steps.take(is_read(recording.steps) & np.isin(recording.steps.file, files))
    slow, jumped = waited(steps, recording.files), jumps(steps)
    direct = np.array([file.direct for file in recording.files] or [False])[steps.file]
    found = ReadTimes()
    chosen = slow & jumped
    if int(chosen.sum()) >= _LEAST:
        lasted = (steps.end_ns - steps.start_ns)[chosen]
        found = replace(
            found,
            random_s=float(lasted.mean()) * 1e-9,
            random_bytes=float(steps.length[chosen].mean()),
            random_copied=float((steps.length * ~direct)[chosen].mean()),
        )
    chosen = slow & direct & ~jumped
    if int(chosen.sum()) >= _LEAST:
        lasted = (steps.end_ns - steps.start_ns)[chosen]
        found = replace(
            found,
            direct_s=float(lasted.mean()) * 1e-9,
            direct_bytes=float(steps.length[chosen].mean()),
        )
    # Between two waits in order the drive was busy with the bytes between them: it reads ahead.
    rates: list[float] = []
    weights: list[int] = []
    for file in np.unique(steps.file).tolist():
        own = np.flatnonzero(steps.file == file)
        runs = np.cumsum(jumped[own])
        total = np.cumsum(steps.length[own])
        waits = np.flatnonzero(slow[own])
        same = runs[waits[1:]] == runs[waits[:-1]]
        elapsed = np.diff(steps.end_ns[own][waits])[same]
        moved = np.diff(total[waits])[same]
        if recording.files[file].direct:  # nothing is read ahead: it moves in the call alone
            elapsed = (steps.end_ns - steps.start_ns)[own][waits][1:][same]
        used = (elapsed > 0) & (moved > 0)
        rates += (moved[used] / elapsed[used] * 1e9).tolist()
        weights += moved[used].tolist()
    if len(rates) >= _LEAST:
        order = np.argsort(rates)
        reached = np.cumsum(np.array(weights)[order])
        middle = order[int(np.searchsorted(reached, reached[-1] / 2))]
        found = replace(found, rate_bytes_per_s=rates[int(middle)])
    return found


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
