"""Which metric "best" refers to for the trials of one workload."""

from __future__ import annotations

from collections.abc import Container

OF_METADATA = ("file_creations_per_s", "directory_creations_per_s")
# Program start-up time does not belong to the storage: a rate from first to last request comes
# before one over jobs.
BYTE_RATES = ("parent_sees_bytes_per_s", "asked_bytes_per_s", "device_bytes_per_s")
USUAL = ("events_per_s", *OF_METADATA, *BYTE_RATES, "jobs_per_s", "efficiency")
WANTED: dict[str | None, tuple[str, ...]] = {
    # A metadata test moves bytes only for its names.
    "bytes_per_s": (*OF_METADATA, "uncompressed_bytes_per_s", *BYTE_RATES),
    "throughput": ("throughput_jobs",),
    "iops": ("iops", "read_calls_per_s"),
    "efficiency": ("efficiency",),
}


def headline(wanted: str | None, having: Container[str]) -> str | None:
    """Return the metric that "best" refers to: the wanted one if the trials have it, else the
    default.

    `having` holds the metrics with a value other than 0 in any trial. The default is the first
    available of: events per second; files (directories) created per second; bytes per second from
    first to last request; bytes requested per second; bytes moved by the device per second; jobs
    per second; job efficiency.
    """
    return next((name for name in (*candidates(wanted), *USUAL) if name in having), None)


def candidates(wanted: str | None) -> tuple[str, ...]:
    """Return the metrics that `[report] metric` may mean, the preferred one first."""
    return WANTED.get(wanted, () if wanted is None else (wanted,))
