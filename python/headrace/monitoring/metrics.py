"""The metrics of a running study. Their names and meanings are in docs/monitoring.md.

The engine's thread stores what it is told; a scrape turns it into metrics. Counters count over all
trials of this run, gauges tell the trial that runs now.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from headrace.engine.live import NodeLive, TrialLive
from headrace.plan.trial import Trial

_STATUSES = ("done", "invalid", "failed", "unsupported", "skipped")

# name without `_total`, what it is, its value for a node
_COUNTERS: tuple[tuple[str, str, Callable[[NodeLive], float]], ...] = (
    ("headrace_jobs_completed", "Jobs that ended well", lambda node: node.done),
    ("headrace_jobs_failed", "Jobs that failed, or were killed", lambda node: node.failed),
    ("headrace_jobs_read_bytes", "Bytes that jobs read", lambda node: node.read_bytes),
    ("headrace_jobs_written_bytes", "Bytes that jobs wrote", lambda node: node.written_bytes),
    ("headrace_jobs_cpu_seconds", "CPU time of jobs", lambda node: node.cpu_s),
    ("headrace_jobs_wall_seconds", "Wall time of jobs", lambda node: node.wall_s),
)

_GAUGES: tuple[tuple[str, str, Callable[[NodeLive], float | None]], ...] = (
    ("headrace_slots", "Slots of the trial", lambda node: node.slots),
    ("headrace_slots_busy", "Slots whose job does not wait for work", lambda node: node.busy),
    ("headrace_jobs_running", "Jobs released and not ended", lambda node: node.running),
    ("headrace_node_up", "1, or 0 if the node is lost", lambda node: not node.lost),
    (
        "headrace_job_efficiency_ratio",
        "CPU time over wall time of the trial's jobs so far",
        lambda node: node.efficiency,
    ),
)


@dataclass
class _Rates:
    """Bytes per second of a node between the last two looks."""

    read_bytes: float = 0.0
    written_bytes: float = 0.0


class StudyMetrics(Collector):
    """The state of one run. Safe to use from several threads."""

    def __init__(self, study: str) -> None:
        self._lock = threading.Lock()
        self._study = study
        self._active = True
        self._trials = 0
        self._recorded = 0
        self._finished: dict[str, int] = dict.fromkeys(_STATUSES, 0)
        self._trial: Trial | None = None
        self._live: TrialLive | None = None
        self._rates: dict[str, _Rates] = {}
        self._before: dict[str, dict[str, float]] = {}
        """Counters by node: all trials before the present one."""
        self._events_before = 0.0
        self._foreign_cpus = 0.0

    # -- what the engine tells --

    def started(self, trials_total: int, trials_done: int) -> None:
        """The run starts."""
        with self._lock:
            self._trials, self._recorded = trials_total, trials_done

    def trial_started(self, trial: Trial) -> None:
        """A trial's jobs are about to be released."""
        with self._lock:
            self._close_trial()
            self._trial = trial

    def load(self, foreign_cpus: float) -> None:
        """Other programs use this many CPUs."""
        with self._lock:
            self._foreign_cpus = foreign_cpus

    def live(self, trial: TrialLive) -> None:
        """The present state of the trial."""
        with self._lock:
            self._rates = _rates(self._live, trial) or self._rates
            self._live = trial

    def trial_finished(self, status: str) -> None:
        """A record was written."""
        with self._lock:
            self._finished[status] = self._finished.get(status, 0) + 1
            self._recorded += status != "skipped"
            self._close_trial()

    def ended(self) -> None:
        """The run has ended."""
        with self._lock:
            self._close_trial()
            self._active = False

    def _close_trial(self) -> None:
        if self._live is not None:
            self._before = {name: self._counters(name) for name in self._names()}
            self._events_before += self._live.events
        self._trial, self._live, self._rates, self._foreign_cpus = None, None, {}, 0.0

    # -- what is read --

    def _nodes(self) -> Mapping[str, NodeLive]:
        return {} if self._live is None else {node.name: node for node in self._live.nodes}

    def _names(self) -> list[str]:
        return list(dict.fromkeys([*self._before, *self._nodes()]))

    def _counters(self, name: str) -> dict[str, float]:
        before, node = self._before.get(name, {}), self._nodes().get(name)
        return {
            metric: before.get(metric, 0.0) + (0.0 if node is None else value(node))
            for metric, _, value in _COUNTERS
        }

    @override
    def collect(self) -> Iterable[Metric]:
        """Return every metric. Called at each scrape."""
        with self._lock:
            return [*self._of_run(), *self._of_trial(), *self._of_nodes(), *self._of_power()]

    def _of_run(self) -> list[Metric]:
        finished = CounterMetricFamily(
            "headrace_trials_finished", "Trials that this run ended", labels=["status"]
        )
        for status, count in self._finished.items():
            finished.add_metric([status], count)
        build = InfoMetricFamily("headrace_build", "Version", {"version": version("headrace")})
        study = InfoMetricFamily("headrace_study", "The study", {"study": self._study})
        return [
            build,
            study,
            GaugeMetricFamily(
                "headrace_run_active", "1 while the study runs, 0 after it", self._active
            ),
            GaugeMetricFamily("headrace_trials", "Trials of the plan", self._trials),
            GaugeMetricFamily(
                "headrace_trials_recorded", "Trials that have a record", self._recorded
            ),
            finished,
        ]

    def _of_trial(self) -> list[Metric]:
        live, trial = self._live, self._trial
        found: list[Metric] = [
            CounterMetricFamily(
                "headrace_events_processed",
                "Events that jobs processed",
                self._events_before + (0 if live is None else live.events),
            ),
            GaugeMetricFamily(
                "headrace_foreign_cpus", "CPUs that other programs use", self._foreign_cpus
            ),
            GaugeMetricFamily(
                "headrace_trial_elapsed_seconds",
                "Time since the release of the trial's jobs",
                0.0 if live is None else live.elapsed_s,
            ),
        ]
        if trial is not None:
            levels = " ".join(
                f"{factor}={level}"
                for factor, level in trial.levels.items()
                if factor not in ("target", "workload") and level is not None
            )
            labels = {
                "number": str(trial.index + 1),
                "target": trial.target,
                "workload": trial.workload,
                "levels": levels,
                "repeat": str(trial.repeat + 1),
            }
            found.append(InfoMetricFamily("headrace_trial", "The trial that runs now", labels))
        return found

    def _of_nodes(self) -> list[Metric]:
        nodes, names = self._nodes(), self._names()
        counted = {name: self._counters(name) for name in names}
        found: list[Metric] = []
        for metric, text, _ in _COUNTERS:
            counter = CounterMetricFamily(metric, text, labels=["node"])
            for name in names:
                counter.add_metric([name], counted[name][metric])
            found.append(counter)
        for metric, text, value in _GAUGES:
            gauge = GaugeMetricFamily(metric, text, labels=["node"])
            for name, node in nodes.items():
                if (found_value := value(node)) is not None:
                    gauge.add_metric([name], found_value)
            found.append(gauge)
        read = GaugeMetricFamily(
            "headrace_read_bytes_per_second", "Bytes that jobs read now", labels=["node"]
        )
        written = GaugeMetricFamily(
            "headrace_written_bytes_per_second", "Bytes that jobs write now", labels=["node"]
        )
        for name, rates in self._rates.items():
            read.add_metric([name], rates.read_bytes)
            written.add_metric([name], rates.written_bytes)
        return [*found, read, written]

    def _of_power(self) -> list[Metric]:
        power = GaugeMetricFamily(
            "headrace_power_watts",
            "Power that a meter read last",
            labels=["meter", "channel", "boundary", "node"],
        )
        for each in () if self._live is None else self._live.power:
            power.add_metric(
                [each.meter, each.channel, each.boundary, " ".join(each.of)], each.power_w
            )
        return [power]


def _rates(before: TrialLive | None, now: TrialLive) -> dict[str, _Rates] | None:
    """Return the rate of each node between two looks; None if they are too close."""
    past = {} if before is None else {node.name: node for node in before.nodes}
    span_s = now.elapsed_s - (0.0 if before is None else before.elapsed_s)
    if span_s < 0.2:
        return None
    empty = NodeLive("", 0)
    return {
        node.name: _Rates(
            (node.read_bytes - past.get(node.name, empty).read_bytes) / span_s,
            (node.written_bytes - past.get(node.name, empty).written_bytes) / span_s,
        )
        for node in now.nodes
    }
