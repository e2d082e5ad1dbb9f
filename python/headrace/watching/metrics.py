"""The metrics of a watch, for Prometheus. Their names and meanings are in docs/watch.md."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from headrace.watching.client_metrics import client_metrics
from headrace.watching.group_metrics import foreign_metric, group_metrics, labels
from headrace.watching.ledger import JobLedger, StorageWait
from headrace.watching.own_groups import MovedBytes
from headrace.watching.watcher import NodeSample


class _Sums:
    """The ledgers of a job's intervals, added up: the parts of a counter never go back."""

    def __init__(self) -> None:
        self.parts_s: defaultdict[str, float] = defaultdict(float)
        self.waits_s: defaultdict[StorageWait, float] = defaultdict(float)

    def add(self, ledger: JobLedger) -> None:
        """Add an interval."""
        for part, share in ledger.shares.items():
            self.parts_s[part] += share * ledger.wall_s
        for wait, spent_s in ledger.waits_s.items():
            self.waits_s[wait] += spent_s


class WatchMetrics(Collector):
    """The jobs of the last look. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sample: NodeSample | None = None
        self._sums: dict[str, _Sums] = {}
        self._cost_s = 0.0
        self._foreign: dict[str, MovedBytes] = {}

    def add(self, sample: NodeSample) -> None:
        """Take a look."""
        sums: dict[str, _Sums] = {}
        with self._lock:
            for job in sample.jobs:
                mine = sums[job.key] = self._sums.get(job.key, _Sums())
                mine.add(job.last.ledger)
            self._sums, self._sample = sums, sample
            self._cost_s += sample.cost_s
            for disk, moved in sample.foreign_io.items():
                had = self._foreign.get(disk, MovedBytes())
                now = MovedBytes(had.read + moved.read, had.written + moved.written)
                self._foreign[disk] = now

    @override
    def collect(self) -> Iterable[Metric]:
        """Return every metric. Called at each scrape."""
        with self._lock:
            return self._collect()

    def _collect(self) -> list[Metric]:
        sample = self._sample
        seconds = CounterMetricFamily(
            "headrace_watch_job_seconds", "Wall time of a job, by part", labels=["watched", "part"]
        )
        waits = CounterMetricFamily(
            "headrace_watch_wait_seconds",
            "Waits of a job, by device, mount or server",
            labels=["watched", "kind", "place"],
        )
        cpu = CounterMetricFamily(
            "headrace_watch_job_cpu_seconds", "CPU time of all threads", labels=["watched"]
        )
        moved = CounterMetricFamily(
            "headrace_watch_job_bytes",
            "Bytes of a job, by boundary",
            labels=["watched", "boundary"],
        )
        processes = GaugeMetricFamily(
            "headrace_watch_processes", "Processes of a job", labels=["watched"]
        )
        names = labels(() if sample is None else sample.jobs)
        for job in () if sample is None else sample.jobs:
            name = names[job.key]
            sums, bytes_moved = self._sums[job.key], job.total.moved
            for part, spent_s in sums.parts_s.items():
                seconds.add_metric([name, part], spent_s)
            for wait, spent_s in sums.waits_s.items():
                waits.add_metric([name, *wait], spent_s)
            cpu.add_metric([name], job.total.cpu_s)
            for boundary, number in (
                ("requested", bytes_moved.read + bytes_moved.written),
                ("served", bytes_moved.served),
                ("storage_read", bytes_moved.storage_read),
                ("storage_written", bytes_moved.storage_written),
            ):
                moved.add_metric([name, boundary], number)
            processes.add_metric([name], job.processes)
        cost = CounterMetricFamily(
            "headrace_watch_cost_cpu_seconds", "CPU time of the watch itself", self._cost_s
        )
        foreign = GaugeMetricFamily(
            "headrace_watch_foreign_cpus", "CPUs that neither the jobs nor the watch use"
        )
        if sample is not None and sample.foreign_cpus is not None:
            foreign.add_metric([], sample.foreign_cpus)
        clients = client_metrics(() if sample is None else sample.clients)
        groups = group_metrics(names, () if sample is None else sample.jobs)
        others = foreign_metric(self._foreign)
        return [seconds, waits, cpu, moved, processes, *groups, *clients, foreign, others, cost]
