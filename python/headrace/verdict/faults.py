"""Page faults of mapped files, simulated as reads of the pages that were moved.

Neither the order of faults nor the time of each is recorded. What is known: how many waited, the
bytes that devices read for them, which pages were used, and how long the program waited in all. The
time of a read is measured after the program has ended, so whether the simulation agrees with the
time that was measured is a test of the model.
"""

from __future__ import annotations

import mmap
import random
from dataclasses import replace
from pathlib import Path

import numpy as np

from headrace.errors import HeadraceError
from headrace.profiles.steps import Op, Recording, Steps
from headrace.verdict.advice import Advice
from headrace.verdict.observation import Observation, PageFaults
from headrace.verdict.places import places_of
from headrace.verdict.present import ReadTimes, completed
from headrace.verdict.simulating import simulated_advice
from headrace.verdict.variants import Variant, alternatives
from headrace.verdict.volumes import READ_AHEAD, present_volume

_LEAST = 20
"""Fewer faults tell nothing of their mean size."""


def advise_faults(seen: Observation, recording: Recording) -> Advice:
    """Return simulated times on the present storage and on others.

    Raises HeadraceError with the reason when it cannot be simulated.
    """
    faults = seen.faults
    if faults is None or faults.number < _LEAST or not faults.mean_bytes:
        raise HeadraceError("too few page faults waited to tell what each moved")
    places = places_of(file.path for file in recording.files)
    steps = recording.steps
    files = [
        number
        for number, file in enumerate(recording.files)
        if places.get(file.path) == faults.place
        and not file.software
        and ((steps.file == number) & (steps.op == Op.MAPPED_READ)).any()
    ]
    kept = as_reads(recording, files, faults)
    most_read = max(
        files, key=lambda number: int(kept.steps.length[kept.steps.file == number].sum())
    )
    times = completed(ReadTimes(), Path(recording.files[most_read].path), faults.place)
    present = present_volume(faults.place, times)
    # A larger read-ahead moves more for each fault elsewhere: how much is not known.
    others = [
        each
        for each in alternatives(faults.place, present, times, kept)
        if not each.name.startswith("read-ahead")
    ]
    return simulated_advice(kept, files, Variant("", present), others, recording, times)


def as_reads(recording: Recording, files: list[int], faults: PageFaults) -> Recording:
    """Return the recording with reads, evenly in time, instead of all its steps.

    They are in order if a fault moved more than the read-ahead, else elsewhere among the pages that
    were used (assumption: a fault elsewhere moves what is around it, at most the read-ahead).
    """
    pieces = _pieces(recording, files, faults)
    in_order = faults.mean_bytes > (faults.place.read_ahead_bytes or READ_AHEAD)
    if not in_order:
        random.Random(1).shuffle(pieces)
    pieces = pieces[: faults.number]
    number = len(pieces)
    span_ns = max(0, recording.duration_ns - round(faults.seconds * 1e9))
    start = np.linspace(0, span_ns, number + 2).astype(np.int64)[1:-1]
    table = np.array(pieces, np.int64).reshape(-1, 3)
    made = Steps(
        start_ns=start,
        end_ns=start,
        thread=np.zeros(number, np.int64),
        op=np.full(number, int(Op.READ)),
        file=table[:, 0],
        offset=table[:, 1],
        length=table[:, 2],
        cpu_ns=np.full(number, min(span_ns, recording.cpu_ns) // (number + 1)),
    )
    return replace(recording, steps=made, duration_ns=span_ns, cpu_wait_ns=0)


def _pieces(
    recording: Recording, files: list[int], faults: PageFaults
) -> list[tuple[int, int, int]]:
    """Return file, offset and length of as many reads as faults, of the pages that were used."""
    steps = recording.steps
    chosen = np.isin(steps.file, files) & (steps.op == Op.MAPPED_READ) & (steps.length > 0)
    used = steps.take(chosen)
    moved = min(faults.bytes_read, int(used.length.sum()))
    length = max(1, moved // faults.number // mmap.PAGESIZE) * mmap.PAGESIZE
    return [
        (file, offset, length)
        for file, begin, size in zip(
            used.file.tolist(), used.offset.tolist(), used.length.tolist(), strict=True
        )
        for offset in range(begin, begin + max(1, size - length + 1), length)
    ]
