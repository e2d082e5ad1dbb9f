"""Runs a drive under a load or a trace in the Rust core.

The core's errors become faults of the drive's file.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict, cast

import numpy as np
import numpy.typing as npt

from headrace import _core
from headrace.catalog import CatalogEntry
from headrace.drives.fio import Load
from headrace.drives.traces import Trace
from headrace.errors import FileProblem, StudyError
from headrace.scenario import Table


class DirectionRun(TypedDict):
    """Reads, writes or flushes of a run."""

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
    flush: DirectionRun
    elapsed_s: float
    failed: int
    energy_j: float
    power_w_mean: float


def run_drive(
    table: Table,
    load: Load,
    file: Path | None = None,
    options: Mapping[str, tuple[str, str]] | None = None,
) -> DriveRun:
    """Run the model of an unused drive: return `read` and `write` with IOPS, rate and latencies,
    energy and mean power.

    The region that the load reads holds data, unless `load.empty`; writes start from the state in
    the table. Raises StudyError that names the invalid option or field of the drive.

    `options`: for fields of the load, the option that it comes from and the text given, for errors.
    """
    with placed(file or Path(str(table.get("name", "drive"))), options or {}):
        return json.loads(_core.drive_run_json(json.dumps(table), load.as_json()))


def run_series(
    table: Table,
    load: Load,
    iodepths: Sequence[int],
    file: Path | None = None,
    options: Mapping[str, tuple[str, str]] | None = None,
) -> list[DriveRun]:
    """Run the load with each number of requests in flight, one run after the other on the same
    drive, which keeps its state: its cache is full, its flash written. Otherwise as `run_drive`.
    """
    with placed(file or Path(str(table.get("name", "drive"))), options or {}):
        return json.loads(
            _core.drive_series_json(json.dumps(table), load.as_json(), list(iodepths))
        )


def replay_trace(
    found: CatalogEntry,
    trace: Trace,
    *,
    iodepth: int,
    seed: int = 0,
    raid: Table | None = None,
) -> npt.NDArray[np.uint64]:
    """Return the response time of every request of a trace, nanoseconds, in the order of the trace.

    The region that the trace reads holds data from the start, except what the trace discards.
    `raid`: a RAID of such drives serves the trace (`RaidSpec` of crates/model).

    `iodepth` 0 is an open loop: each request arrives at its recorded time. Otherwise a closed loop:
    that many requests are in flight, and each arrives when an earlier one is done. Raises
    StudyError, also for a request past the end of the drive (with its line, for a text trace).
    """
    capacity_sectors = capacity_bytes(found.table, raid) // _core.SECTOR_BYTES
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
            None if raid is None else json.dumps(raid),
        )
    return np.asarray(times, np.uint64)


def capacity_bytes(table: Table, raid: Table | None) -> int:
    """Return the capacity of a drive, or of a RAID of such drives."""
    capacity = int(cast("int", table["capacity_bytes"]))
    if raid is None:
        return capacity
    drives, level = int(cast("int", raid["drives"])), raid["level"]
    data = {0: drives, 1: 1, 5: drives - 1, 6: drives - 2, 10: drives // 2}
    chunk = int(cast("int", raid.get("chunk_bytes", 64 << 10)))
    return capacity // chunk * chunk * data.get(int(cast("int", level)), 1)


_RAID = {"raid.level": "--raid", "raid.drives": "--drives", "raid.chunk_bytes": "--chunk"}
"""What of a RAID is no field of a drive's file, but an option."""


@contextmanager
def placed(file: Path, options: Mapping[str, tuple[str, str]] | None = None) -> Generator[None]:
    """Convert the core's errors to problems of a file, those of a RAID and of fields in `options`
    to problems of options."""
    try:
        yield
    except _core.ModelError as error:
        field, given, allowed = error.args
        if field in _RAID:
            file, field = Path("command line"), _RAID[field]
        elif options and field in options:
            allowed = f"{allowed} {'bytes' if field.endswith('_bytes') else 'seconds'}"
            file, (field, given) = Path("command line"), options[field]
        raise StudyError(
            [FileProblem(file, 0, field, str(given), "is not allowed", str(allowed))]
        ) from None
