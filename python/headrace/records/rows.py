"""Rows of a record's tables: jobs.parquet and the series of devices (docs/records.md)."""

from __future__ import annotations

from typing import NotRequired, TypedDict

LOAD_OVER = "the sustained load was over"
"""Cause of a simulated job that the end of a sustained load cut off."""


class PhaseRow(TypedDict):
    """One phase of a job."""

    name: str
    start_s: float
    end_s: float


class JobRow(TypedDict):
    """One job. Columns that are missing are null."""

    trial: str
    job: int
    slot: int
    node: int
    file: NotRequired[str | None]
    exit: str
    cause: str | None
    start_s: float
    end_s: float
    wall_s: float
    user_s: NotRequired[float]
    system_s: NotRequired[float]
    on_cpu_s: NotRequired[float]
    wait_cpu_s: NotRequired[float]
    wait_block_s: NotRequired[float]
    wait_network_s: NotRequired[float]
    other_s: NotRequired[float]
    residue_s: NotRequired[float]
    ledger_source: NotRequired[str]
    events: int
    bytes_uncompressed: NotRequired[int]
    bytes_asked: NotRequired[int]
    bytes_served: NotRequired[int]
    bytes_device: NotRequired[int | None]
    bytes_unique: NotRequired[int]
    bytes_written: NotRequired[int]
    read_calls: NotRequired[int]
    request_repeats: NotRequired[int]
    open_s: NotRequired[float | None]
    peak_rss_bytes: NotRequired[int | None]
    phases: NotRequired[list[PhaseRow]]
    results: NotRequired[str]


class BlockRow(TypedDict):
    """What a device did in one interval."""

    time_s: float
    device: str
    read_bytes_per_s: float
    write_bytes_per_s: float
    read_iops: float
    write_iops: float
    in_flight: float
    read_latency_ms: float
    write_latency_ms: float
    busy: float
