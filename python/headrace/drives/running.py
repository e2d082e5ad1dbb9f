"""Runs a drive under a load or a trace in the Rust core.

The core's errors become faults of the drive's file.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from headrace import _core
from headrace.catalog import CatalogEntry
from headrace.drives.fio import Load
from headrace.drives.traces import Trace
from headrace.errors import FileProblem, StudyError
from headrace.scenario import Table


class DirectionRun(TypedDict):
    """Reads or writes of a run."""

    requests: int
    bytes: int
    iops: float
    bytes_per_s: float
    latency_ns_mean: float
    latency_ns_min: int
    latency_ns_p50: int
    latency_ns_p90: int
    latency_ns_p99: int
    latency_ns_p999: int
    latency_ns_max: int


class DriveRun(TypedDict):
    """Results of a run (crates/model, `DriveRun`)."""

    read: DirectionRun
    write: DirectionRun
    elapsed_s: float
    failed: int
    flushes: int
    energy_j: float
    power_w_mean: float


def run_drive(table: Table, load: Load, file: Path | None = None) -> DriveRun:
    """Run the model of an unused drive: return `read` and `write` with IOPS, rate and latencies,
    energy and mean power.

    The region that the load reads holds data, unless `load.empty`; writes start from the state in
    the table. Raises StudyError that names the invalid option or field of the drive.
    """
    with placed(file or Path(str(table.get("name", "drive")))):
        return json.loads(_core.drive_run_json(json.dumps(table), load.as_json()))


def replay_trace(
    found: CatalogEntry, trace: Trace, *, iodepth: int, seed: int = 0
) -> npt.NDArray[np.uint64]:
    """Return the response time of every request of a trace, nanoseconds, in the order of the trace.

    The region that the trace reads holds data from the start, except what the trace discards.

    `iodepth` 0 is an open loop: each request arrives at its recorded time. Otherwise a closed loop:
    that many requests are in flight, and each arrives when an earlier one is done. Raises
    StudyError, also for a request past the end of the drive (with its line, for a text trace).
    """
    capacity_sectors = int(found.table["capacity_bytes"]) // _core.SECTOR_BYTES
    past = np.flatnonzero(trace.sector + trace.sectors > capacity_sectors)
    if len(past):
        first = int(past[0])
        raise StudyError(
            [
                FileProblem(
                    trace.file,
                    trace.line_naming(first),
                    "sector",
                    str(int(trace.sector[first])),
                    f"request {first + 1} ends past the end of {found.name}",
                    f"sectors below {capacity_sectors}",
                )
            ]
        )
    with placed(found.file):
        times = _core.drive_replay(
            json.dumps(found.table),
            trace.time_ns.tolist(),
            trace.op.tolist(),
            trace.sector.tolist(),
            trace.sectors.tolist(),
            iodepth,
            seed,
        )
    return np.asarray(times, np.uint64)


@contextmanager
def placed(file: Path) -> Generator[None]:
    """Convert the core's errors to faults of a file."""
    try:
        yield
    except _core.ModelError as error:
        field, given, allowed = error.args
        raise StudyError(
            [FileProblem(file, 0, field, str(given), "cannot be", str(allowed))]
        ) from None
