"""Finds reads of a recorded job that a thread of its own does ahead of the work on them.

A prefetching thread reads and hardly works; other threads work on what it has read. A recording
says when the reads began, not which work needed which read. If the thread may be `a` reads ahead,
read k begins when read k - 1 has ended and the work on read k - a - 1 is done:

    begin(k) = max(end(k - 1), done(k - a - 1));  done(k) = max(done(k - 1), end(k)) + work(k)

With a = 0 reads and work take turns. The depth is the one whose schedule has the recorded begins
(least mean difference); the work of all other threads is divided among the reads by their bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.profiles.steps import Ints, Op, Steps

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


def prefetch(steps: Steps, every: Steps, cpu_ns: int, end_ns: int) -> Prefetch | None:
    """Return the reads of a job that run ahead of its work; None if there are none.

    `steps`: those that act on storage; `every`: all steps. `cpu_ns`: CPU time of the whole job,
    until `end_ns`.
    """
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
        share = steps.length[rows] / steps.length[rows].sum()
        work = (share * others_ns).astype(np.int64)
        if (ahead := _depth(steps.start_ns[rows], steps.end_ns[rows], work, until_ns)) > 0:
            return Prefetch(rows, ahead, work)
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


def _depth(start_ns: Ints, end_ns: Ints, work_ns: Ints, job_end_ns: int) -> int:
    """Return how many reads the thread is ahead, at most; 0 if it waits for the work on each."""
    errors: list[float] = []
    depths = [depth for depth in DEPTHS if depth < len(start_ns)] + [len(start_ns)]
    recorded = np.append(start_ns, job_end_ns) - start_ns[0]
    for depth in depths:
        begins = _begins((end_ns - start_ns).tolist(), work_ns.tolist(), depth)
        errors.append(float(np.abs(np.array(begins) - recorded).mean()))
    best = int(np.argmin(errors))
    return depths[best] if errors[best] < BETTER * errors[0] else 0


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
