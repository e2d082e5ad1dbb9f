"""The metrics of control groups of jobs, and of the I/O of other programs (docs/watch.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric

from headrace.watching.own_groups import MovedBytes
from headrace.watching.used import JobSample


def labels(jobs: Sequence[JobSample]) -> dict[str, str]:
    """Return the label of each job by key: its name, or its key where names are not unique."""
    often = Counter(job.name for job in jobs)
    return {job.key: job.name if often[job.name] == 1 else job.key for job in jobs}


def group_metrics(names: Mapping[str, str], jobs: Iterable[JobSample]) -> list[Metric]:
    """Return what control groups of jobs counted. `names`: labels by key."""
    moved = CounterMetricFamily(
        "headrace_watch_group_bytes",
        "Bytes that devices moved for the control group of a job",
        labels=["watched", "device", "direction"],
    )
    stalled = CounterMetricFamily(
        "headrace_watch_group_stall_seconds",
        "Pressure (PSI) of the control group of a job",
        labels=["watched", "resource", "share"],
    )
    for job in jobs:
        if (use := job.group_total) is None:
            continue
        for device, each in use.io.items():
            _add(moved, [names[job.key], device], each)
        for resource, stall in use.stalls.items():
            stalled.add_metric([names[job.key], resource, "some"], stall.some_s)
            stalled.add_metric([names[job.key], resource, "full"], stall.full_s)
    return [moved, stalled]


def foreign_metric(by_disk: Mapping[str, MovedBytes]) -> Metric:
    """Return the bytes that other programs moved."""
    found = CounterMetricFamily(
        "headrace_watch_foreign_bytes",
        "Bytes that disks moved for other programs",
        labels=["device", "direction"],
    )
    for disk, moved in by_disk.items():
        _add(found, [disk], moved)
    return found


def _add(family: CounterMetricFamily, place: list[str], moved: MovedBytes) -> None:
    family.add_metric([*place, "read"], moved.read)
    family.add_metric([*place, "written"], moved.written)
