"""Measure the time of trials and set-ups, for the time left and for later plans."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from headrace.engine import Observer
from headrace.plan.expected import Expectation, Timings
from headrace.plan.trial import Trial

if TYPE_CHECKING:
    from headrace.engine.live import TrialLive

FILE = "timings.json"
"""File in the cache. Losing it only makes estimates less accurate."""
VERSION = 1
MOST_KEYS = 5_000
"""Limit of stored keys; the oldest are dropped."""


def read_timings(cache: Path) -> Timings:
    """Return the times of earlier runs on this machine; empty if the file is missing or damaged."""
    try:
        values: Any = json.loads((cache / FILE).read_text())
        if values["version"] != VERSION:
            return Timings()
        return Timings(
            {str(key): [float(each) for each in times] for key, times in values["seconds"].items()}
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Timings()


class TimedObserver:
    """An observer that times each trial and set-up and forwards every call to another observer."""

    def __init__(
        self, observer: Observer, expectation: Expectation, cache: Path, done: Collection[int]
    ):
        self._observer = observer
        self._expectation = expectation
        self._cache = cache
        self._done = set(done)
        self._timings = read_timings(cache)
        self._took: list[tuple[str, float]] = []
        self._mark = self._started = time.monotonic()
        self._plot: int | None = None

    def started(self, trials_total: int, trials_done: int) -> None:
        """The run starts."""
        self._mark = self._started = time.monotonic()
        self._observer.started(trials_total, trials_done)
        self._tell()

    def trial_started(self, trial: Trial, jobs: int) -> None:
        """A trial's jobs are about to be released."""
        self._started = time.monotonic()
        self._observer.trial_started(trial, jobs)

    def trial_finished(self, trial: Trial, status: str, reasons: list[str], summary: str) -> None:
        """A record was written: store the time of the trial and report the time left."""
        now = time.monotonic()
        if status in ("done", "invalid") and self._started > self._mark:
            # The first trial of a whole plot waited for the set-up of its target.
            began = self._mark if trial.whole_plot == self._plot else self._started
            self._note(self._expectation.trials[trial.index].key, now - began)
            if trial.whole_plot != self._plot and trial.whole_plot in self._expectation.set_ups:
                self._note(
                    self._expectation.set_ups[trial.whole_plot].key, self._started - self._mark
                )
        self._mark, self._plot = now, trial.whole_plot
        self._done.add(trial.index)
        self._tell()
        self._observer.trial_finished(trial, status, reasons, summary)

    def phase(self, text: str) -> None:
        """A new phase starts."""
        self._observer.phase(text)

    def note(self, text: str) -> None:
        """Something that people should know."""
        self._observer.note(text)

    def jobs(self, done: int, running: int, events_per_s: float) -> None:
        """Called from time to time while jobs run."""
        self._observer.jobs(done, running, events_per_s)

    def load(self, foreign_cpus: float, cpus: int) -> None:
        """Called while jobs run, with the CPU use of other programs."""
        self._observer.load(foreign_cpus, cpus)

    def wants_live(self, nodes: int) -> bool:
        """Return whether `live` is called."""
        return self._observer.wants_live(nodes)

    def live(self, trial: TrialLive) -> None:
        """Called while jobs run, with their state by node."""
        self._observer.live(trial)

    def simulated(self, virtual_s: float) -> None:
        """Called from time to time in virtual time."""
        self._observer.simulated(virtual_s)

    def _note(self, key: str, seconds: float) -> None:
        self._timings.add(key, seconds)
        self._took.append((key, seconds))

    def _tell(self) -> None:
        tell = cast("Callable[[float], None] | None", getattr(self._observer, "time_left", None))
        if tell is not None:
            tell(self._expectation.left_s(self._timings, self._done))

    def keep(self) -> None:
        """Add the times of this run to the file of this machine.

        A cache that is not writable is left unchanged.
        """
        if not self._took:
            return
        try:
            self._cache.mkdir(parents=True, exist_ok=True)
            with (self._cache / f"{FILE}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._write()
        except OSError:
            return

    def _write(self) -> None:
        known = read_timings(self._cache)
        for key, seconds in self._took:
            known.add(key, seconds)
        kept = dict(list(known.seconds.items())[-MOST_KEYS:])
        text = json.dumps({"version": VERSION, "seconds": kept})
        handle, made = tempfile.mkstemp(dir=self._cache, prefix=FILE)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(made).replace(self._cache / FILE)
