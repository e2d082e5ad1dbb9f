"""Monitoring of a running study: its state as metrics of OpenMetrics, served, written or pushed.

    with monitored(display, "My study", MonitoringOptions(openmetrics="9109"), print) as observer:
        loaded.run("results/mine", observer=observer)

`metrics.py` turns what the engine tells its observer into metrics; `outlets.py` gives these out.
Whatever fails here is told once and never ends a trial.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.engine import Observer
from headrace.engine.live import TrialLive
from headrace.errors import describe
from headrace.monitoring.metrics import StudyMetrics
from headrace.monitoring.outlets import check_file, check_push, pushed, served, written
from headrace.plan.trial import Trial


@dataclass(frozen=True)
class MonitoringOptions:
    """Where the metrics of a run go; nowhere by default."""

    openmetrics: str | None = None
    """HOST:PORT or PORT (of 127.0.0.1) to serve them at; port 0: any free one."""
    openmetrics_file: Path | None = None
    """A text file for the textfile collector of node_exporter."""
    push_gateway: str | None = None
    """URL of a Prometheus push gateway."""

    @property
    def wanted(self) -> bool:
        """Whether any is given."""
        return any((self.openmetrics, self.openmetrics_file, self.push_gateway))


@contextmanager
def monitored(
    observer: Observer, study: str, options: MonitoringOptions, tell: Callable[[str], object]
) -> Generator[Observer]:
    """Return an observer that forwards every call to `observer` and keeps metrics of the run.

    `tell` is called with one line for people, from any thread. Raises UsageError before anything
    starts, for an address, file or URL that cannot be used.
    """
    if not options.wanted:
        yield observer
        return
    if options.openmetrics_file is not None:
        check_file(options.openmetrics_file)
    if options.push_gateway is not None:
        check_push(options.push_gateway)
    metrics = StudyMetrics(study)
    with ExitStack() as stack:
        if options.openmetrics is not None:
            stack.enter_context(served(metrics, options.openmetrics, tell))
        if options.openmetrics_file is not None:
            stack.enter_context(written(metrics, options.openmetrics_file, tell))
        if options.push_gateway is not None:
            stack.enter_context(pushed(metrics, options.push_gateway, study, tell))
        stack.callback(metrics.ended)
        yield _Monitor(observer, metrics, tell)


class _Monitor:
    """Forwards every call to another observer after it has told the metrics of it."""

    def __init__(
        self, observer: Observer, metrics: StudyMetrics, tell: Callable[[str], object]
    ) -> None:
        self._observer, self._metrics, self._tell = observer, metrics, tell
        self._failed = False

    def _note(self, note: Callable[[], None]) -> None:
        try:
            note()
        except Exception as error:  # the run matters more
            if not self._failed:
                self._failed = True
                self._tell(f"monitoring: {describe(error)}; the run continues without it")

    def started(self, trials_total: int, trials_done: int) -> None:
        """The run starts."""
        self._note(lambda: self._metrics.started(trials_total, trials_done))
        self._observer.started(trials_total, trials_done)

    def phase(self, text: str) -> None:
        """A new phase starts."""
        self._observer.phase(text)

    def note(self, text: str) -> None:
        """Something that people should know."""
        self._observer.note(text)

    def trial_started(self, trial: Trial, jobs: int) -> None:
        """A trial's jobs are about to be released."""
        self._note(lambda: self._metrics.trial_started(trial))
        self._observer.trial_started(trial, jobs)

    def jobs(self, done: int, running: int, events_per_s: float) -> None:
        """Called from time to time while jobs run."""
        self._observer.jobs(done, running, events_per_s)

    def load(self, foreign_cpus: float, cpus: int) -> None:
        """Called while jobs run, with the CPU use of other programs."""
        self._note(lambda: self._metrics.load(foreign_cpus))
        self._observer.load(foreign_cpus, cpus)

    def wants_live(self, nodes: int) -> bool:
        """Return True."""
        return True

    def live(self, trial: TrialLive) -> None:
        """Called while jobs run, with their state by node."""
        self._note(lambda: self._metrics.live(trial))
        if self._observer.wants_live(len(trial.nodes)):
            self._observer.live(trial)

    def simulated(self, virtual_s: float) -> None:
        """Called from time to time in virtual time."""
        self._observer.simulated(virtual_s)

    def trial_finished(self, trial: Trial, status: str, reasons: list[str], summary: str) -> None:
        """A record was written."""
        self._note(lambda: self._metrics.trial_finished(status))
        self._observer.trial_finished(trial, status, reasons, summary)

    def time_left(self, seconds: float) -> None:
        """Forward the time left, if the other observer wants it."""
        if (show := getattr(self._observer, "time_left", None)) is not None:
            show(seconds)
