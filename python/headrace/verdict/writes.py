"""What the present storage takes for the writes and syncs that a program waits for; pure.

A sync is a call of fsync or fdatasync, or a write to a file opened with O_SYNC or O_DSYNC.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from headrace.profiles.steps import Ints, Op, Recording
from headrace.profiles.summary import is_read
from headrace.profiles.synchronous import explicit, sync_calls, synchronous_writes
from headrace.verdict.calls import counted_once_ns, waited

LEAST = 20
"""So many calls make a mean."""
_LARGE = 1 << 20
"""With so much data a call lasts as long as its transfer, else as long as the drive's answer."""
_TRANSFERRED_LEAST = 4 << 20
"""So many bytes of large calls tell a rate."""
_TRANSFER_LEAST = 0.2
"""Of the time of a large call: what the answer of the drive takes is known from small calls."""
_COPY_LEAST = 64 << 10
"""A smaller write tells how long a call takes, not its copy."""
_COPY_QUANTILE = 0.75
"""By bytes: of writes that waited for the drive there are less than three quarters, or the drive
decides, whatever the copy takes."""
_COPY_RATES = (0.3e9, 8e9)
"""Bounds of the rate of copies: assumption."""
_MOSTLY = 0.5
_SOME = 0.1


@dataclass(frozen=True)
class WriteTimes:
    """Times of writes on a place; None where the program's own calls do not show them."""

    sync_s: float | None = None
    """A sync of `sync_bytes` on average."""
    sync_bytes: float = 0.0
    direct_s: float | None = None
    """A write past the page cache, of `direct_bytes` on average."""
    direct_bytes: float = 0.0
    rate_bytes_per_s: float | None = None
    """Large writes and syncs."""
    most: bool = False
    """The program waits for writes and syncs more than for reads."""
    some: bool = False
    """It waits for them for a tenth of its waits or more."""

    @property
    def known(self) -> bool:
        """Return whether anything is known."""
        return any(each is not None for each in (self.sync_s, self.direct_s, self.rate_bytes_per_s))


@dataclass(frozen=True)
class _Calls:
    """Calls that had to write so many bytes, and how long they lasted."""

    moved: npt.NDArray[np.int64]
    lasted_ns: npt.NDArray[np.int64]

    def take(self, chosen: npt.NDArray[np.bool_]) -> _Calls:
        return _Calls(self.moved[chosen], self.lasted_ns[chosen])

    def without(self, answer_ns: float) -> _Calls:
        """Return the same calls without the answer of the drive."""
        least_ns = (_TRANSFER_LEAST * self.lasted_ns).astype(np.int64)
        return _Calls(self.moved, np.maximum(least_ns, self.lasted_ns - int(answer_ns)))


def recorded_writes(recording: Recording, files: Sequence[int]) -> WriteTimes:
    """Return what the program's own writes and syncs of these files show.

    They are simulated one after the other: time in which several calls wait counts once.
    """
    chosen = np.isin(recording.steps.file, files)
    kept = replace(recording, steps=recording.steps.take(chosen))
    steps = kept.steps
    waits = sync_calls(kept) & waited(steps, recording.files) & ~shared_syncs(kept)
    once_ns = waited_once_ns(kept)
    calls_ns = np.rint(once_ns).astype(np.int64)
    syncs = _Calls(_moved(kept), calls_ns).take(waits)
    direct = _Calls(steps.length, calls_ns).take(_is_direct(kept))
    found, answer_ns = WriteTimes(), 0.0
    small = syncs.take(syncs.moved < _LARGE)
    if len(small.moved) >= LEAST:
        answer_ns = float(small.lasted_ns.mean())
        found = WriteTimes(sync_s=answer_ns * 1e-9, sync_bytes=float(small.moved.mean()))
    rate = _rate([syncs.without(answer_ns), direct, _throttled(kept, once_ns)])
    found = replace(found, rate_bytes_per_s=rate)
    small = direct.take(direct.moved < _LARGE)
    if len(small.moved) >= LEAST:
        mean_s = float(small.lasted_ns.mean()) * 1e-9
        found = replace(found, direct_s=mean_s, direct_bytes=float(small.moved.mean()))
    lasted = (steps.end_ns - steps.start_ns) * waited(steps, recording.files)
    writes = np.isin(steps.op, (Op.WRITE, Op.SYNC))
    in_writes_ns, in_reads_ns = int(lasted[writes].sum()), int(lasted[is_read(steps)].sum())
    some = in_writes_ns > _SOME * (in_writes_ns + in_reads_ns)
    return replace(found, most=in_writes_ns > in_reads_ns, some=some)


def waited_once_ns(recording: Recording) -> npt.NDArray[np.float64]:
    """Return for each call how long it waited for storage, if calls are made one after the other:
    time in which calls of several threads wait, whatever they do, is shared among them.

    A sync lasts from the end of all others that had begun before it.
    """
    steps, found = recording.steps, np.zeros(len(recording.steps), np.float64)
    slow, shared = waited(steps, recording.files), shared_syncs(recording)
    begin_ns = steps.start_ns.copy()
    at = np.flatnonzero(sync_calls(recording) & slow & ~shared)
    at = at[np.argsort(steps.start_ns[at], kind="stable")]
    reached = np.append(0, np.maximum.accumulate(steps.end_ns[at]))[:-1]
    begin_ns[at] = np.minimum(steps.end_ns[at], np.maximum(steps.start_ns[at], reached))
    chosen = (slow & ~shared) | _is_direct(recording)
    found[chosen] = counted_once_ns(begin_ns[chosen], steps.end_ns[chosen])
    return found


def _moved(recording: Recording) -> Ints:
    """Return for each sync the bytes that were written to its file since the sync before."""
    steps, is_sync = recording.steps, sync_calls(recording)
    synchronous = synchronous_writes(recording)
    past_cache = np.array([file.direct for file in recording.files] or [False])[steps.file]
    dirtied = (steps.op == Op.WRITE) & (synchronous | ~past_cache)
    order = np.argsort(steps.file, kind="stable")
    file, total = steps.file[order], np.cumsum((steps.length * dirtied)[order])
    at = np.flatnonzero(is_sync[order])
    first = np.searchsorted(file, file[at])
    before_file = np.append(0, total)[first]
    since = np.concatenate([[0], total[at]])[:-1]
    moved = np.zeros(len(steps), np.int64)
    # The last sync before may be one of another file, which ended before this file begins.
    moved[order[at]] = total[at] - np.maximum(since, before_file)
    return moved


def shared_syncs(recording: Recording) -> npt.NDArray[np.bool_]:
    """Return which small fsyncs began while another thread waited for one: the filesystem writes
    its journal, and the drive its buffer, once for all that wait (assumption)."""
    steps, found = recording.steps, np.zeros(len(recording.steps), bool)
    small = (steps.op == Op.SYNC) & waited(steps, recording.files) & (_moved(recording) < _LARGE)
    at, end_ns = np.flatnonzero(small), 0
    for number in at[np.argsort(steps.start_ns[at], kind="stable")].tolist():
        found[number] = steps.start_ns[number] < end_ns
        if not found[number]:
            end_ns = int(steps.end_ns[number])
    return found


def without_shared_syncs(recording: Recording) -> Recording:
    """Return the recording with reads of nothing, which take no time, for fsyncs that are another
    one's, too."""
    steps, shared = recording.steps, shared_syncs(recording)
    op = np.where(shared, int(Op.READ), steps.op)
    end_ns = np.where(shared, steps.start_ns, steps.end_ns)
    return replace(recording, steps=replace(steps, op=op, end_ns=end_ns))


def copy_rate(recording: Recording) -> float | None:
    """Return the bytes per second of writes into the page cache; None without large ones."""
    steps = recording.steps.take(_is_buffered(recording))
    steps = steps.take((steps.length >= _COPY_LEAST) & (steps.end_ns > steps.start_ns))
    if int(steps.length.sum()) < _TRANSFERRED_LEAST:
        return None
    rates = steps.length / (steps.end_ns - steps.start_ns) * 1e9
    order = np.argsort(rates)
    reached = np.cumsum(steps.length[order])
    at = int(np.searchsorted(reached, _COPY_QUANTILE * reached[-1]))
    return float(np.clip(rates[order[at]], *_COPY_RATES))


def _is_buffered(recording: Recording) -> npt.NDArray[np.bool_]:
    """Return which steps are writes into the page cache that are no syncs."""
    steps = recording.steps
    past_cache = np.array([file.direct for file in recording.files] or [False])[steps.file]
    return (steps.op == Op.WRITE) & ~past_cache & ~synchronous_writes(recording)


def _is_direct(recording: Recording) -> npt.NDArray[np.bool_]:
    """Return which steps are writes past the page cache that are no syncs."""
    steps = recording.steps
    past_cache = np.array([file.direct for file in recording.files] or [False])[steps.file]
    return (steps.op == Op.WRITE) & past_cache & ~synchronous_writes(recording)


def _throttled(recording: Recording, once_ns: npt.NDArray[np.float64]) -> _Calls:
    """Return the time between buffered writes that waited, and the bytes written in it.
    `once_ns`: how long each call waited, without what others have of it.

    The kernel lets a program that has too many dirty pages write as fast as the drive does. Where
    the wait is less than half of the time between two waits, something else held the write up.
    """
    chosen = _is_buffered(recording)
    writes, once_ns = recording.steps.take(chosen), once_ns[chosen]
    slow = np.flatnonzero(waited(writes, recording.files))
    if len(slow) <= LEAST:
        return _Calls(np.zeros(0, np.int64), np.zeros(0, np.int64))
    elapsed = np.diff(writes.end_ns[slow])
    moved = np.diff(np.cumsum(writes.length)[slow])
    lasted = (writes.end_ns - writes.start_ns)[slow[1:]]
    waits = lasted > _MOSTLY * elapsed
    elapsed = elapsed - lasted + np.rint(once_ns[slow[1:]]).astype(np.int64)
    found = _Calls(moved[waits], elapsed[waits])
    # Pieces of a stream: together they are one large call.
    return _Calls(found.moved.sum(keepdims=True), found.lasted_ns.sum(keepdims=True))


def _rate(kinds: Sequence[_Calls]) -> float | None:
    """Return the bytes per second of large calls."""
    large = [each.take(each.moved >= _LARGE) for each in kinds]
    moved = sum(int(each.moved.sum()) for each in large)
    lasted_ns = sum(int(each.lasted_ns.sum()) for each in large)
    return moved / lasted_ns * 1e9 if moved >= _TRANSFERRED_LEAST and lasted_ns > 0 else None


def grouped(recording: Recording, number: int) -> Recording:
    """Return the recording with one of so many syncs of each file, and its last one.

    The others become reads of nothing: a step that was left out would be a pause of that length.
    """
    recording = explicit(recording)
    steps = recording.steps
    at = np.flatnonzero(steps.op == Op.SYNC)
    at = at[np.argsort(steps.file[at], kind="stable")]
    file = steps.file[at]
    rank = np.arange(len(at)) - np.searchsorted(file, file)
    last = np.append(file[1:] != file[:-1], True)[: len(at)]
    op = steps.op.copy()
    op[at[((rank + 1) % number != 0) & ~last]] = Op.READ
    return replace(recording, steps=replace(steps, op=op))
