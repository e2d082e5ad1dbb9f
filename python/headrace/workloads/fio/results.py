"""fio's JSON output (`--output-format=json+`, fio 3), parsed, and merged over the jobs of a trial.

A latency histogram is a list of [ns, requests], one per non-empty bin of fio; histograms merge by
addition.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NotRequired, TypedDict

from headrace.errors import HeadraceError
from headrace.jobs import JobResults

Histogram = list[list[int]]

_PERCENTILES = ((50.0, "p50"), (90.0, "p90"), (95.0, "p95"), (99.0, "p99"), (99.9, "p99_9"))
"""Share of requests in %, and its suffix in field names."""


@dataclass(frozen=True)
class Direction:
    """Reads or writes of one fio job."""

    bytes: int = 0
    requests: int = 0
    runtime_s: float = 0.0
    """With a precision of 1 ms; includes the final fsync of a writing job that requests it."""
    latency_ns_mean: float = 0.0
    latency_ns_max: int = 0
    histogram: tuple[tuple[int, int], ...] = ()
    """(latency in ns, requests), ascending."""


@dataclass(frozen=True)
class FioResult:
    """One fio job."""

    read: Direction
    write: Direction
    sync_ns: float
    """Time in fsync calls."""

    @property
    def runtime_s(self) -> float:
        """Time from the first request to the last."""
        return max(self.read.runtime_s, self.write.runtime_s)

    @property
    def in_requests_s(self) -> float:
        """Wall time in requests, when these are sequential."""
        whole_ns = (
            sum(way.latency_ns_mean * way.requests for way in (self.read, self.write))
            + self.sync_ns
        )
        return min(self.runtime_s, whole_ns / 1e9)

    def as_results(self) -> JobResults:
        """Return flat fields for the job's `results`, for each direction with requests."""
        fields: JobResults = {"runtime_s": self.runtime_s}
        for name, way in (("read", self.read), ("write", self.write)):
            if way.requests:
                fields |= _fields(
                    name,
                    way.bytes,
                    way.requests,
                    way.runtime_s,
                    [list(bin_) for bin_ in way.histogram],
                )
                fields[f"{name}_latency_ns_mean"] = way.latency_ns_mean
                fields[f"{name}_latency_ns_max"] = way.latency_ns_max
        return fields


def parse_result(text: str) -> FioResult:
    """Return the one job of fio's JSON output. Raises HeadraceError for invalid output."""
    try:
        # Warnings may precede the JSON in the same file.
        (job,) = json.loads(text[text.index("{") :])["jobs"]
        if job["error"]:
            raise HeadraceError(f"fio ended with error {job['error']}")
        sync = job.get("sync", {}).get("lat_ns", {})
        return FioResult(
            _direction(job["read"]),
            _direction(job["write"]),
            sync.get("mean", 0.0) * sync.get("N", 0),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise HeadraceError(
            "fio's output cannot be understood", hint="fio 3.0 or later is needed"
        ) from error


@dataclass(frozen=True)
class _Requests:
    """Reads or writes of one job, from its `as_results`."""

    slot: int
    bytes: int
    requests: int
    runtime_s: float
    latency_ns_mean: float
    latency_ns_max: int
    histogram: Histogram

    @classmethod
    def of(cls, result: JobResults, name: str) -> _Requests:
        return cls(
            slot=int(result["slot"]),
            bytes=result[f"{name}_bytes"],
            requests=result[f"{name}_requests"],
            runtime_s=result[f"{name}_runtime_s"],
            latency_ns_mean=result[f"{name}_latency_ns_mean"],
            latency_ns_max=result[f"{name}_latency_ns_max"],
            histogram=result[f"{name}_latency_histogram"],
        )


def merge_results(results: Sequence[JobResults]) -> JobResults:
    """Return the trial's result from its jobs' `as_results` (with `slot`).

    Rates and IOPS are sums over slots; each slot counts what its jobs did over the time they took
    (IOzone's "children see"). `_min`, `_max` and `_mean` are of single slots.
    `parent_rate_bytes_per_s` is all bytes over `span_s`, the time from the first request of any job
    to the end of the last (IOzone's "parent sees"). Percentiles are of all requests together.
    """
    merged: JobResults = {}
    rates: list[tuple[float, float]] = []
    for name in ("read", "write"):
        own = [_Requests.of(each, name) for each in results if f"{name}_requests" in each]
        if own:
            fields, rate, iops = _merged_direction(name, own)
            merged |= fields
            rates.append((rate, iops))
    timed = [result for result in results if "record_start_s" in result]
    if timed and rates:
        begun = [float(result["record_start_s"]) for result in timed]
        span_s = max(float(result["record_end_s"]) for result in timed) - min(begun)
        moved = sum(
            int(result.get(f"{name}_bytes", 0)) for result in timed for name in ("read", "write")
        )
        merged["span_s"] = span_s
        merged["parent_rate_bytes_per_s"] = moved / span_s if span_s > 0 else None
        merged["started_within_s"] = max(begun) - min(begun)
    if rates:
        merged["rate_bytes_per_s"] = sum(rate for rate, _ in rates)
        merged["iops"] = sum(iops for _, iops in rates)
        merged["rates"] = {
            "parent_sees_bytes_per_s": merged.get("parent_rate_bytes_per_s"),
            "children_see_bytes_per_s": merged["rate_bytes_per_s"],
        }
    return merged


def _merged_direction(name: str, own: Sequence[_Requests]) -> tuple[JobResults, float, float]:
    """Return the fields of reads or writes of all jobs, their rate and their IOPS."""
    slots = sorted({each.slot for each in own})
    by_slot = [[each for each in own if each.slot == slot] for slot in slots]
    slot_rates = [_over_time(jobs, [each.bytes for each in jobs]) for jobs in by_slot]
    slot_iops = [_over_time(jobs, [each.requests for each in jobs]) for jobs in by_slot]
    requests = sum(each.requests for each in own)
    fields = _fields(
        name,
        sum(each.bytes for each in own),
        requests,
        max(each.runtime_s for each in own),
        merge_histograms(each.histogram for each in own),
    )
    fields[f"{name}_rate_bytes_per_s"] = sum(slot_rates)
    fields[f"{name}_rate_bytes_per_s_min"] = min(slot_rates)
    fields[f"{name}_rate_bytes_per_s_max"] = max(slot_rates)
    fields[f"{name}_iops"] = sum(slot_iops)
    fields[f"{name}_latency_ns_mean"] = (
        sum(each.latency_ns_mean * each.requests for each in own) / requests
    )
    fields[f"{name}_latency_ns_max"] = max(each.latency_ns_max for each in own)
    fields[f"{name}_rate_bytes_per_s_mean"] = sum(slot_rates) / len(slot_rates)
    return fields, sum(slot_rates), sum(slot_iops)


def merge_histograms(histograms: Iterable[Histogram]) -> Histogram:
    """Return the sum of histograms, ascending by latency."""
    total: Counter[int] = Counter()
    for histogram in histograms:
        for latency_ns, requests in histogram:
            total[latency_ns] += requests
    return [[latency_ns, total[latency_ns]] for latency_ns in sorted(total)]


def percentile_ns(histogram: Histogram, percentile: float) -> int:
    """Return the latency in ns within which `percentile` % of the requests completed.

    As in fio, it is the bin in which this count is reached. Raises ValueError for an empty
    histogram.
    """
    whole = sum(requests for _, requests in histogram)
    if not whole:
        raise ValueError("no requests in the histogram")
    reached, wanted = 0, percentile / 100 * whole
    for latency_ns, requests in histogram:
        reached += requests
        if reached >= wanted:
            return latency_ns
    return histogram[-1][0]


class _FioLatency(TypedDict):
    """`lat_ns` of fio's JSON."""

    mean: float
    max: int
    bins: NotRequired[dict[str, int]]


class _FioDirection(TypedDict):
    """`read` or `write` of a job in fio's JSON."""

    io_bytes: int
    total_ios: int
    runtime: int
    lat_ns: _FioLatency


def _direction(fields: _FioDirection) -> Direction:
    latency = fields["lat_ns"]
    bins = sorted(
        (int(latency_ns), int(requests)) for latency_ns, requests in latency.get("bins", {}).items()
    )
    return Direction(
        bytes=fields["io_bytes"],
        requests=fields["total_ios"],
        runtime_s=fields["runtime"] / 1000,
        latency_ns_mean=latency["mean"],
        latency_ns_max=latency["max"],
        histogram=tuple(bins),
    )


def _fields(
    name: str, size: int, requests: int, runtime_s: float, histogram: Histogram
) -> JobResults:
    fields: JobResults = {
        f"{name}_bytes": size,
        f"{name}_requests": requests,
        f"{name}_runtime_s": runtime_s,
        f"{name}_rate_bytes_per_s": size / runtime_s if runtime_s else None,
        f"{name}_iops": requests / runtime_s if runtime_s else None,
        f"{name}_latency_histogram": histogram,
    }
    if histogram:
        for percentile, ending in _PERCENTILES:
            fields[f"{name}_latency_ns_{ending}"] = percentile_ns(histogram, percentile)
    return fields


def _over_time(jobs: Sequence[_Requests], amounts: Sequence[int]) -> float:
    runtime_s = sum(job.runtime_s for job in jobs)
    return sum(amounts) / runtime_s if runtime_s else 0.0
