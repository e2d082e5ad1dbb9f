"""Merges all threads of a recorded job into one sequence of steps, work and sleep.

A job with one thread is such a sequence already. Steps of several threads are ordered by start.
Time between the end of all steps so far and the next one is work as far as any thread worked then
(each thread's CPU time is spread evenly between its steps), otherwise sleep. Overlapping steps run
one after the other: on slower storage the sequence is no faster than the job was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.profiles.steps import Ints, Op, RecordedFile, Steps

NEEDED = (Op.OPEN, Op.CLOSE, Op.READ, Op.WRITE, Op.STAT, Op.SYNC, Op.MAPPED_READ, Op.UNLINK,
          Op.TRUNCATE, Op.ALLOCATE, Op.RESERVE)  # fmt: skip
"""Steps that act on storage; seeks and maps show in the reads that follow."""


@dataclass(frozen=True)
class Timeline:
    """Steps in order, and the work and sleep before each."""

    steps: Steps
    work_ns: Ints
    wait_ns: Ints
    work_after_ns: int
    wait_after_ns: int
    """Between the last step and the end of the job."""

    def part(self, rows: slice) -> Timeline:
        """Return some of the steps; the time after the last one belongs to the last part."""
        _, stop, _ = rows.indices(len(self.steps))
        after = (self.work_after_ns, self.wait_after_ns) if stop == len(self.steps) else (0, 0)
        kept = np.arange(len(self.steps))[rows]
        return Timeline(self.steps.take(kept), self.work_ns[rows], self.wait_ns[rows], *after)

    def without_time(self) -> Timeline:
        """Return the same steps without work and sleep."""
        nothing = np.zeros(len(self.steps), np.int64)
        return Timeline(self.steps, nothing, nothing, 0, 0)

    def from_time(self, time_ns: int) -> Timeline:
        """Return the same steps without work and sleep before a time at which one starts, or
        before the end of the job if none does."""
        later = self.steps.start_ns > time_ns
        ends_here = not (self.steps.start_ns >= time_ns).any()
        after = (0, 0) if ends_here else (self.work_after_ns, self.wait_after_ns)
        return Timeline(self.steps, self.work_ns * later, self.wait_ns * later, *after)

    def gaps_after(self, rows: npt.NDArray[np.intp], until_ns: int, end_ns: int) -> Ints:
        """Return the work and sleep between each of some steps and the next, and between the last
        of them and `until_ns`, when another step starts or the job ends (`end_ns`)."""
        before = np.append(0, np.cumsum(self.work_ns + self.wait_ns))
        stop = int(np.searchsorted(self.steps.start_ns, until_ns, "right"))
        ends = np.append(rows[1:] + 1, max(stop, int(rows[-1]) + 1))
        gaps = before[ends] - before[rows + 1]
        if until_ns >= end_ns:
            gaps[-1] += self.work_after_ns + self.wait_after_ns
        return gaps


def timeline(
    steps: Steps,
    files: tuple[RecordedFile, ...],
    duration_ns: int,
    *,
    software: bool = False,
    cpu_ns: int = 0,
    cpu_wait_ns: int = 0,
) -> Timeline:
    """Merge all threads into one sequence.

    Steps on software, and files that are only queried, are omitted unless `software`; their time
    stays, as work for CPU time and as sleep for the rest. `cpu_ns` is the CPU time of the whole
    job: the part that no step shows (threads without steps) replaces sleep evenly. `cpu_wait_ns`,
    time that the job waited for a CPU, is subtracted from sleep.
    """
    kept = np.isin(steps.op, [int(op) for op in NEEDED])
    if not software:
        data = np.array([not file.software for file in files] or [False])
        opened = np.zeros(max(len(files), 1), bool)
        opened[steps.file[steps.op == Op.OPEN]] = True
        opened[steps.file[np.isin(steps.op, (Op.READ, Op.WRITE, Op.MAPPED_READ))]] = True
        kept &= (data & opened)[steps.file]
    chosen = steps.take(kept)
    reached = np.maximum.accumulate(chosen.end_ns) if len(chosen) else chosen.end_ns
    begins = np.concatenate([[0], reached])
    ends = np.concatenate(
        [np.maximum(chosen.start_ns, begins[:-1]), [max(duration_ns, int(begins[-1]))]]
    )
    gaps = ends - begins
    work = np.minimum(_worked(steps, begins, ends), gaps)
    shown = int(work.sum())
    unseen = cpu_ns - int(steps.cpu_ns.sum()) if cpu_ns else 0
    idle = int(gaps.sum()) - shown
    if unseen > 0 and idle > 0:
        work = work + ((gaps - work) * min(1.0, unseen / idle)).astype(np.int64)
    wait = gaps - work
    if cpu_wait_ns and (idle := int(wait.sum())):
        wait = (wait * max(0.0, 1 - cpu_wait_ns / idle)).astype(np.int64)
    return Timeline(chosen, work[:-1], wait[:-1], int(work[-1]), int(wait[-1]))


def _worked(steps: Steps, begins: Ints, ends: Ints) -> Ints:
    """Return the CPU time of all threads within each interval."""
    total = np.zeros(len(begins), np.float64)
    for thread in np.unique(steps.thread):
        own = steps.take(steps.thread == thread)
        # Between the end of a step and the start of the next the thread worked for `cpu_ns`.
        before = np.concatenate(
            [[max(0, int(own.start_ns[0]) - int(own.cpu_ns[0]))], own.end_ns[:-1]]
        )
        total += _integral(own.cpu_ns, before, own.start_ns, ends) - _integral(
            own.cpu_ns, before, own.start_ns, begins
        )
    return np.maximum(total, 0).astype(np.int64)


def _integral(
    amounts: Ints, from_ns: npt.NDArray[np.int64], to_ns: Ints, at_ns: Ints
) -> npt.NDArray[np.float64]:
    """Return how much of `amounts`, spread evenly over their intervals, is before each of
    `at_ns`."""
    # The sum is piecewise linear: flat within steps, rising between them.
    times = np.empty(2 * len(amounts), np.float64)
    times[0::2], times[1::2] = from_ns, np.maximum(to_ns, from_ns)
    heights = np.empty_like(times)
    sums = np.concatenate([[0], np.cumsum(amounts)]).astype(np.float64)
    heights[0::2], heights[1::2] = sums[:-1], sums[1:]
    return np.interp(at_ns, np.maximum.accumulate(times), heights)
