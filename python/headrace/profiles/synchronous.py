"""Writes to files that were opened with O_SYNC or O_DSYNC, as writes and syncs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from headrace.profiles.steps import COLUMNS, Op, Recording, Steps


def synchronous_writes(recording: Recording) -> npt.NDArray[np.bool_]:
    """Return which steps are writes that wait until their data is on stable storage."""
    files = np.array([file.synchronous for file in recording.files] or [False])
    return (recording.steps.op == Op.WRITE) & files[recording.steps.file]


def sync_calls(recording: Recording) -> npt.NDArray[np.bool_]:
    """Return which steps wait for stable storage: syncs and synchronous writes."""
    return (recording.steps.op == Op.SYNC) | synchronous_writes(recording)


def explicit(recording: Recording) -> Recording:
    """Return the recording with a sync after each synchronous write, and no synchronous files.

    The sync takes no time of its own: the write that was recorded has waited for it.
    """
    chosen = synchronous_writes(recording)
    if not chosen.any():
        return recording
    steps, nothing = recording.steps, np.zeros(int(chosen.sum()), np.int64)
    written = steps.take(chosen)
    syncs = Steps(
        start_ns=written.end_ns,
        end_ns=written.end_ns,
        thread=written.thread,
        op=np.full(len(written), int(Op.SYNC)),
        file=written.file,
        offset=nothing,
        length=nothing,
        cpu_ns=nothing,
    )
    both = Steps(
        *(np.concatenate([getattr(steps, name), getattr(syncs, name)]) for name in COLUMNS)
    )
    files = tuple(replace(file, synchronous=False) for file in recording.files)
    # Of steps that start at once, a sync comes right after its write.
    number = np.concatenate([np.arange(len(steps)), np.flatnonzero(chosen) + 0.5])
    in_order = np.lexsort((number, both.start_ns))
    return replace(recording, files=files, steps=both.take(in_order))
