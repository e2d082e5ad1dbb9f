"""A recorded job as steps of the simulator (crates/simulator, `Step`).

Consecutive reads or writes of one file become one `sequence` step.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np

from headrace.profiles.prefetching import Prefetch, prefetch
from headrace.profiles.steps import Op, Recording
from headrace.profiles.synchronous import explicit
from headrace.profiles.timeline import Timeline, timeline
from headrace.scenario import Access, AccessList, Step

_SIZES: dict[Op, Literal["truncate", "allocate", "reserve"]] = {
    Op.TRUNCATE: "truncate",
    Op.ALLOCATE: "allocate",
    Op.RESERVE: "reserve",
}
_SIMPLE: dict[Op, Literal["open", "close", "stat", "fsync"]] = {
    Op.OPEN: "open",
    Op.CLOSE: "close",
    Op.STAT: "stat",
    Op.SYNC: "fsync",
}


def scenario_steps(
    recording: Recording,
    names: list[str],
    *,
    software: bool = False,
    as_fast_as_it_goes: bool = False,
    sizes: bool = False,
    ahead: bool = False,
) -> list[Step]:
    """Return steps for a scenario whose file sets have these names, one per file of the recording.

    `sizes`: include operations that set sizes and allocate space, which a replay needs. The
    simulator has no such steps: there a file is as long as was written, and reads beyond its end
    cost nothing. `ahead`: reads that a thread of the job did ahead of the work run ahead of it, as
    far as the recording shows; without it, and in a replay, they come one after the other.
    """
    recording = explicit(recording)
    line = timeline(
        recording.steps,
        recording.files,
        recording.duration_ns,
        software=software,
        cpu_ns=recording.cpu_ns,
        cpu_wait_ns=recording.cpu_wait_ns,
    )
    if as_fast_as_it_goes:
        nothing = np.zeros(len(line.steps), np.int64)
        line = Timeline(line.steps, nothing, nothing, 0, 0)
    found = None
    if ahead and not as_fast_as_it_goes:
        found = prefetch(line, recording)
    if found is None:
        return _steps(line, recording, names, sizes)
    return _with_prefetch(line, found, recording, names, sizes)


def _with_prefetch(
    line: Timeline, found: Prefetch, recording: Recording, names: list[str], sizes: bool
) -> list[Step]:
    """Return steps in which the reads of a thread run ahead, each with the work on it.

    Work that the line has between them is in that work, and sleep follows it; time before the first
    read stays there. Steps of other threads that are between two reads come after the work on the
    first.
    """
    steps, made = line.steps, list[Step]()
    first, last = int(found.rows[0]), int(found.rows[-1])
    made += _steps(line.part(slice(0, first)), recording, names, sizes)
    made += _pause(found.work_before_ns, found.wait_before_ns)
    edges = [*found.rows.tolist(), last + 1]
    for number, (row, after) in enumerate(pairwise(edges)):
        file = int(steps.file[row])
        group: AccessList = {
            "do": "sequence",
            "file": names[file],
            "ranges_bytes": [[int(steps.offset[row]), int(steps.length[row])]],
            "cpu_after_ns": int(found.work_ns[number]),
            "access": _access(Op.READ, recording.files[file].direct),
            "ahead": found.ahead,
        }
        if found.wait_ns[number]:
            group["wait_ns"] = [int(found.wait_ns[number])]
        made.append(group)
        made += _steps(line.part(slice(row + 1, after)).without_time(), recording, names, sizes)
    rest = line.part(slice(last + 1, len(steps)))
    return made + _steps(rest.from_time(found.until_ns), recording, names, sizes)


def _steps(line: Timeline, recording: Recording, names: list[str], sizes: bool) -> list[Step]:
    made: list[Step] = []
    steps = line.steps
    moves = np.isin(steps.op, (Op.READ, Op.WRITE, Op.MAPPED_READ)) & (steps.length > 0)
    # A run ends where the file or the operation changes.
    key = np.where(moves, steps.file * 16 + steps.op, -1 - np.arange(len(steps)))
    edges = np.flatnonzero(np.diff(key, prepend=np.int64(-1 << 62), append=np.int64(1 << 62)))
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        file = int(steps.file[first])
        op = Op(int(steps.op[first]))
        if moves[first]:
            rows = slice(first, last)
            step: AccessList = {
                "do": "sequence",
                "file": names[file],
                "op": "write" if op == Op.WRITE else "read",
                "ranges_bytes": np.column_stack([steps.offset[rows], steps.length[rows]]).tolist(),
                "access": _access(op, recording.files[file].direct),
            }
            if line.work_ns[rows].any():
                step["cpu_ns"] = line.work_ns[rows].tolist()
            if line.wait_ns[rows].any():
                step["wait_ns"] = line.wait_ns[rows].tolist()
            made.append(step)
            continue
        made += _pause(int(line.work_ns[first]), int(line.wait_ns[first]))
        created = recording.files[file].created
        if op == Op.OPEN and created:
            made.append({"do": "create", "file": names[file]})
        elif op == Op.UNLINK:
            if created:
                made.append({"do": "delete", "file": names[file]})
        elif op in _SIZES:
            if sizes:
                offset, length = int(steps.offset[first]), int(steps.length[first])
                made.append(
                    {
                        "do": _SIZES[op],
                        "file": names[file],
                        "offset_bytes": offset,
                        "length_bytes": length,
                    }
                )
        elif op in _SIMPLE:
            made.append({"do": _SIMPLE[op], "file": names[file]})
    return made + _pause(line.work_after_ns, line.wait_after_ns)


def _access(op: Op, direct: bool) -> Access:
    return "mapped" if op == Op.MAPPED_READ else "direct" if direct else "buffered"


def _pause(work_ns: int, wait_ns: int) -> list[Step]:
    steps: list[Step] = []
    if work_ns:
        steps.append({"do": "compute", "cpu_ns": work_ns})
    if wait_ns:
        steps.append({"do": "wait", "wait_ns": wait_ns})
    return steps
