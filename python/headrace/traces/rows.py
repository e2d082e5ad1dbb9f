"""The requests of a trace as columns, in issue order: for replaying and converting."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace import _core
from headrace.traces.files import TraceFile, readable
from headrace.traces.statistics import TraceDamage, damages_of

READ, WRITE, FLUSH, DISCARD = range(4)
OP_WORDS = ("read", "write", "flush", "discard")
UNSEEN_NS = (1 << 64) - 1
_AT_ONCE = 65_536


@dataclass(frozen=True)
class RequestRows:
    """A batch of requests; columns of equal length."""

    time_ns: npt.NDArray[np.uint64]
    """Issue time (queue time in a trace without issues), on the trace's own clock."""
    queue_ns: npt.NDArray[np.uint64]
    """Queue time; `UNSEEN_NS` if not in the trace."""
    complete_ns: npt.NDArray[np.uint64]
    """Completion time; `UNSEEN_NS` if not in the trace."""
    op: npt.NDArray[np.uint32]
    """0 read, 1 write, 2 flush, 3 discard."""
    sector: npt.NDArray[np.uint64]
    """First sector, in sectors of 512 bytes."""
    sectors: npt.NDArray[np.uint32]
    pid: npt.NDArray[np.uint32]
    device: npt.NDArray[np.uint32]
    """`major << 20 | minor`; 0 if unknown."""
    names: dict[int, str]
    """Names of the processes so far."""
    damages: tuple[TraceDamage, ...]
    """Damages found so far, the first of them."""
    damage_count: int
    """Number of all damages so far."""
    missing: int
    """Events that the trace, as far as it was read, is known to lack."""

    def __len__(self) -> int:
        return len(self.time_ns)


def device_text(number: int) -> str:
    """Return `major:minor` of a device's number in `RequestRows`."""
    return f"{number >> 20}:{number & 0xFFFFF}"


def read_rows(trace: TraceFile) -> Generator[RequestRows]:
    """Yield the requests in batches of some ten thousand; the last batch may be empty. Raises
    StudyError if it is not a trace."""
    with readable():
        source = _core.TraceRows(trace.files, trace.device) if trace.files else None
    while source is not None:
        with readable():
            columns = source.next_rows(_AT_ONCE)
        wide: dict[str, npt.NDArray[np.uint64]] = {
            name: np.frombuffer(columns[name], np.uint64)
            for name in ("time_ns", "queue_ns", "complete_ns", "sector")
        }
        narrow: dict[str, npt.NDArray[np.uint32]] = {
            name: np.frombuffer(columns[name], np.uint32)
            for name in ("op", "sectors", "pid", "device")
        }
        damages = json.loads(source.damages_json())
        yield RequestRows(
            time_ns=wide["time_ns"],
            queue_ns=wide["queue_ns"],
            complete_ns=wide["complete_ns"],
            sector=wide["sector"],
            op=narrow["op"],
            sectors=narrow["sectors"],
            pid=narrow["pid"],
            device=narrow["device"],
            names=source.names(),
            damages=damages_of(damages),
            damage_count=damages["count"],
            missing=max(trace.lost, source.missing()),
        )
        if not len(wide["time_ns"]):
            return
