"""Finds reads of a recorded job that a thread of its own does ahead of the work on them.

A prefetching thread reads and hardly works; other threads work on what it has read. A recording
says when the reads began, not which work needed which read. If the thread may be `a` reads ahead,
read k begins when read k - 1 has ended and the work on read k - a - 1 is done:

    begin(k) = max(end(k - 1), done(k - a - 1));  done(k) = max(done(k - 1), end(k)) + work(k)

With a = 0 reads and work take turns. The depth is the one whose schedule has the recorded begins
(least mean difference); the work of all other threads is divided among the reads by their bytes.
A schedule of reads and work alone is too short when the job slept as well. What is lacking counts
like work when the depth is determined (sleep that may lie anywhere would fit every depth). Then it
is divided among the reads by the time between them: what held up read k followed the work on read
k - a - 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.profiles.steps import Ints, Op, Recording, Steps
from headrace.profiles.timeline import Timeline

FEWEST = 8
"""Reads that a thread must have for a depth to be told."""
MOST_WORK = 0.2
"""Largest CPU time of a prefetching thread, as a share of that of the others meanwhile."""
DEPTHS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 1 << 20)
BETTER = 0.7
"""Mean difference with a depth, as a share of that with reads and work in turn, at most."""


@dataclass(frozen=True)
class Prefetch:
    """Reads of one thread that run ahead."""

    rows: npt.NDArray[np.intp]
    """Their places among the steps."""
    ahead: int
    work_ns: Ints
    """Work on each read."""
    work_before_ns: int
    """Work between the step before and the first read."""
    wait_before_ns: int
    wait_ns: Ints
    """Sleep after the work on each read."""
    until_ns: int
    """When the work and sleep end: the next step of another thread, or the end of the job."""


def prefetch(line: Timeline, recording: Recording) -> Prefetch | None:
    """Return the reads of a job that run ahead of its work; None if there are none.

    `line`: the recording's steps that act on storage.
    """
    steps, every = line.steps, recording.steps
    cpu_ns, end_ns = recording.cpu_ns, recording.duration_ns
    reads = (steps.op == Op.READ) & (steps.length > 0)
    for thread in np.unique(steps.thread[reads]):
        own = steps.thread == thread
        rows = np.flatnonzero(own & reads)
        if len(rows) < FEWEST or len(rows) < 0.9 * np.count_nonzero(own):
            continue
        first_ns, last_ns = int(steps.start_ns[rows[0]]), int(steps.end_ns[rows[-1]])
        later = ~own & (steps.start_ns >= last_ns)
        until_ns = int(steps.start_ns[later].min(initial=end_ns))
        others_ns = _work_of_others(every, int(thread), first_ns, until_ns, cpu_ns, end_ns)
        if int(steps.cpu_ns[rows[1:]].sum()) > MOST_WORK * others_ns:
            continue
        busy_ns = _within(steps, ~own, first_ns, until_ns)
        span_ns = until_ns - busy_ns - first_ns
        # One thread cannot have worked longer than there was time.
        before_ns = min(int(line.work_ns[rows[0]]), max(0, others_ns - span_ns))
        share = steps.length[rows] / steps.length[rows].sum()
        work = (share * (others_ns - before_ns)).astype(np.int64)
        late_ns = round(recording.cpu_wait_ns * span_ns / max(end_ns, 1))
        span = _Span(steps.start_ns[rows], steps.end_ns[rows], first_ns + span_ns, late_ns)
        if (found := _depth(span, work, line.gaps_after(rows, until_ns, end_ns))) is not None:
            gap_ns = int(line.work_ns[rows[0]] + line.wait_ns[rows[0]])
            ahead, sleep = found
            return Prefetch(rows, ahead, work, before_ns, gap_ns - before_ns, sleep, until_ns)
    return None


def _work_of_others(
    every: Steps, thread: int, first_ns: int, until_ns: int, cpu_ns: int, end_ns: int
) -> int:
    """Return the CPU time of the other threads between two times.

    What no step shows was used at the end of the job.
    """
    others = every.thread != thread
    within = others & (every.start_ns > first_ns) & (every.start_ns <= until_ns)
    unseen_ns = max(0, cpu_ns - int(every.cpu_ns.sum())) if until_ns == end_ns else 0
    return int(every.cpu_ns[within].sum()) + unseen_ns


def _within(steps: Steps, chosen: npt.NDArray[np.bool_], first_ns: int, until_ns: int) -> int:
    """Return the time that these steps took between two times."""
    within = chosen & (steps.start_ns > first_ns) & (steps.start_ns < until_ns)
    return int((steps.end_ns[within] - steps.start_ns[within]).sum())


@dataclass(frozen=True)
class _Span:
    """When reads began and ended, and when the work on them ended."""

    start_ns: Ints
    end_ns: Ints
    done_ns: int
    cpu_wait_ns: int
    """Time meanwhile for which the job waited for a CPU."""


def _depth(span: _Span, work_ns: Ints, gaps_ns: Ints) -> tuple[int, Ints] | None:
    """Return how many reads the thread is ahead, at most, and the sleep after the work on each
    read. None if it waits for the work on each.

    `gaps_ns`: time between each read and the next in which no step runs.
    """
    count = len(span.start_ns)
    depths = [depth for depth in DEPTHS if depth < count] + [count]
    recorded = np.append(span.start_ns, span.done_ns) - span.start_ns[0]
    reads = (span.end_ns - span.start_ns).tolist()
    share = work_ns / max(int(work_ns.sum()), 1)
    errors: list[float] = []
    lacking: list[int] = []
    for depth in depths:
        without_ns = _begins(reads, work_ns.tolist(), depth)[-1]
        lacking.append(max(0, int(recorded[-1]) - span.cpu_wait_ns - without_ns))
        busy = work_ns + (share * lacking[-1]).astype(np.int64)
        begins = _begins(reads, busy.tolist(), depth)
        errors.append(float(np.abs(np.array(begins) - recorded).mean()))
    best = int(np.argmin(errors))
    if depths[best] == 0 or errors[best] >= BETTER * errors[0]:
        return None
    return depths[best], _sleep_after_work(gaps_ns, depths[best], lacking[best])


def _sleep_after_work(gaps_ns: Ints, ahead: int, lacking_ns: int) -> Ints:
    """Return the sleep after the work on each read, `lacking_ns` in all: by the time between reads,
    each `ahead` reads before the one that it held up."""
    sleep = np.zeros_like(gaps_ns)
    held_up = np.maximum(np.arange(len(gaps_ns) - 1) - ahead, 0)
    np.add.at(sleep, held_up, gaps_ns[:-1])
    sleep[-1] += gaps_ns[-1]
    total = int(sleep.sum())
    share = min(1.0, lacking_ns / total) if total else 0.0
    return (sleep * share).astype(np.int64)


def _begins(read_ns: list[int], work_ns: list[int], ahead: int) -> list[int]:
    """Return the begin of each read, and the end of the work on the last, since the first begin."""
    begins: list[int] = []
    done: list[int] = []
    end = 0
    for number, (read, work) in enumerate(zip(read_ns, work_ns, strict=True)):
        begin = max(end, done[number - ahead - 1]) if number > ahead else end
        end = begin + read
        begins.append(begin)
        done.append(max(done[-1] if done else 0, end) + work)
    return [*begins, done[-1]]
