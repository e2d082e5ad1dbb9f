"""Statistics of a trace, in total and per process, counted by crates/blocktrace in one pass."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace import _core
from headrace.traces.files import TraceFile, empty, readable

_SECTOR_BYTES = 512


@dataclass(frozen=True)
class TraceDamage:
    """A place in a trace that could not be read; the rest was read."""

    file: Path
    line: int
    """Line of a text file; 0 for a binary one."""
    offset: int
    """Byte offset in a binary file; 0 for text."""
    problem: str
    given: str
    field: str
    allowed: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else f"{self.file} at byte {self.offset}"
        # Of a whole line there is nothing to name.
        field = f"{self.field}: " if self.field not in ("", "file", "line") else ""
        given = f" ({self.given.strip()})" if self.given else ""
        return f"{place}: {field}{self.problem}{given}"


@dataclass(frozen=True)
class Latency:
    """Durations of one kind: exact count, mean and maximum, quantiles to an eighth of an octave;
    bins that merge by addition."""

    count: int
    mean_ns: float
    p50_ns: float
    p90_ns: float
    p99_ns: float
    p999_ns: float
    max_ns: int
    lower_ns: tuple[int, ...]
    """Lowest duration of each filled bin."""
    bin_count: tuple[int, ...]


@dataclass(frozen=True)
class RequestGroup:
    """All requests, or those of one process. `values` has all of it as JSON (docs/traces.md)."""

    pid: int
    name: str
    requests: int
    """Reads and writes."""
    bytes: int
    iops: float | None
    """Rates are None for a trace without times."""
    rate_bytes_per_s: float | None
    seeks_per_s: float | None
    sequential_fraction: float | None
    """None if no request followed another."""
    queue_depth_mean: float | None
    """Of requests with a known completion; None if there is none, as in an iolog."""
    queue_depth_max: int | None
    queue_to_complete: Latency | None
    dispatch_to_complete: Latency | None
    values: dict[str, Any]

    def amount(self, op: str, stage: str = "issued") -> tuple[int, int]:
        """Return (requests, bytes) of an operation (`read` …) at a stage (`queued`, `issued`,
        `completed`)."""
        found = self.values[op][stage]
        return int(found["count"]), int(found["bytes"])


@dataclass(frozen=True)
class Statistics:
    """Summary of a trace."""

    trace: TraceFile
    format: str
    duration_s: float
    first_ns: int
    last_ns: int
    sector_low: int
    sector_high: int
    total: RequestGroup
    processes: tuple[RequestGroup, ...]
    """Sorted by bytes, most first."""
    damages: tuple[TraceDamage, ...]
    damage_count: int
    values: dict[str, Any]
    """Everything as JSON."""

    @property
    def has_times(self) -> bool:
        """True if the events have different times: an iolog of version 2 without waits has none."""
        return self.duration_s > 0

    @property
    def missing(self) -> int:
        """Events that the trace is known to lack: its capture lost them, or the numbers of its
        events have gaps. Rates, depths and waits are then those of the rest."""
        return int(self.values["missing_events"])

    @property
    def unended(self) -> int:
        """Requests without a completion, plus second issues of requests that were not requeued."""
        return int(self.values["unfinished"]) + int(self.values["reissues"])


def _latency(values: dict[str, Any] | None) -> Latency | None:
    if values is None:
        return None
    bins = {"lower_ns": tuple(values["lower_ns"]), "bin_count": tuple(values["bin_count"])}
    made: dict[str, Any] = {**values, **bins}
    return Latency(**made)


def _part(values: dict[str, Any]) -> RequestGroup:
    return RequestGroup(
        pid=values["pid"],
        name=values["name"],
        requests=values["requests"],
        bytes=values["bytes"],
        iops=values["iops"],
        rate_bytes_per_s=values["rate_bytes_per_s"],
        seeks_per_s=values["seeks_per_s"],
        sequential_fraction=values["sequential_fraction"],
        queue_depth_mean=values["queue_depth_mean"],
        queue_depth_max=values["queue_depth_max"],
        queue_to_complete=_latency(values["queue_to_complete"]),
        dispatch_to_complete=_latency(values["dispatch_to_complete"]),
        values=values,
    )


def _in_whole_sectors(group: dict[str, Any]) -> None:
    """Round quantiles of distances down to what a distance can be.

    The core interpolates within a bin of its histogram; that of distance 0 has one value.
    """
    for name in ("seek_distance_absolute", "seek_distance_closeness"):
        for quantile in ("bytes_p50", "bytes_p90"):
            sectors = group[name][quantile] // _SECTOR_BYTES
            group[name][quantile] = sectors * _SECTOR_BYTES


def damages_of(values: dict[str, Any]) -> tuple[TraceDamage, ...]:
    """Return the damages that were reported in full."""
    found: list[dict[str, Any]] = values["first"]
    return tuple(
        TraceDamage(
            file=Path(each["file"]),
            line=each["line"],
            offset=each["offset"],
            problem=each["problem"],
            given=each["given"],
            field=each["field"],
            allowed=each["allowed"],
        )
        for each in found
    )


def summarise(trace: TraceFile) -> Statistics:
    """Read a trace once and summarise it. Raises StudyError if it is no trace or has no request."""
    if not trace.files:
        raise empty(trace)
    with readable():
        values: dict[str, Any] = json.loads(_core.trace_summary_json(trace.files, trace.device))
    summary = values["summary"]
    if summary is None:
        raise empty(trace, damages_of(values["damages"]))
    for group in (summary["total"], *summary["processes"]):
        _in_whole_sectors(group)
    return Statistics(
        trace=trace,
        format=summary["format"],
        duration_s=summary["duration_s"],
        first_ns=summary["total"]["first_ns"],
        last_ns=summary["total"]["last_ns"],
        sector_low=summary["sector_low"],
        sector_high=summary["sector_high"],
        total=_part(summary["total"]),
        processes=tuple(_part(each) for each in summary["processes"]),
        damages=damages_of(values["damages"]),
        damage_count=values["damages"]["count"],
        values={
            **summary,
            "lost_events": trace.lost,
            # A kernel that numbers what it drops shows the same losses in both.
            "missing_events": max(trace.lost, summary["missing_events"]),
            "cpus_without_file": trace.cpus_without_file,
            "damages": values["damages"],
        },
    )
