"""Sample all probes of a trial on one kernel: from one thread, at one interval, while jobs run."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import describe
from headrace.probes import Probe, Totals, Watch, kinds

_THREAD_PATIENCE_S = 60.0
"""Time limit for a sample in progress; counters of a dead server's mount can block."""

SampleRows = list[dict[str, Any]]


@dataclass(frozen=True)
class Sampling:
    """What is sampled on one kernel, and how often. Plain data, for an agent."""

    kinds: tuple[str, ...]
    interval_s: float
    watch: Watch

    def sampler(self) -> Sampler:
        """Return a sampler of new probes."""
        known = kinds()
        return Sampler({kind: known[kind]() for kind in self.kinds}, self.interval_s)


@dataclass
class Samples:
    """Results of the probes of a trial. Plain data, of an agent."""

    series: dict[str, SampleRows] = field(default_factory=dict[str, SampleRows])
    totals: dict[str, Totals] = field(default_factory=dict[str, Totals])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    """Probes that failed, with the error; their series end early and they have no totals."""
    started_s: float = 0.0
    """When they were started, on the node's monotonic clock: `time_s` of a row counts from here."""


class Sampler:
    """Samples probes: start right before the release, finish after the last job.

    A probe that raises is not sampled again and is listed in `Samples.failed`; the others continue.
    """

    def __init__(self, probes: dict[str, Probe], interval_s: float) -> None:
        self._probes = probes
        self._interval_s = interval_s
        self._samples = Samples({kind: [] for kind in probes})
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._started: list[str] = []
        self._finished = False

    def start(self, watch: Watch) -> None:
        """Start every probe and the thread. Raises the error of a probe that cannot start."""
        for kind, probe in self._probes.items():
            self._started.append(kind)
            probe.start(watch)
        self._samples.started_s = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="headrace-sampler", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._loop()
        except Exception as error:
            for kind in self._probes:
                self._samples.failed.setdefault(
                    kind, f"with the thread that samples: {describe(error)}"
                )

    def _loop(self) -> None:
        due = self._samples.started_s + self._interval_s
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            now = time.monotonic()
            self._take(now)
            due = max(due + self._interval_s, now + 0.1 * self._interval_s)

    def _take(self, now: float) -> None:
        time_s = now - self._samples.started_s
        for kind, probe in self._probes.items():
            if kind in self._samples.failed:
                continue
            try:
                rows = probe.sample()
                for row in rows:
                    self._samples.series[kind].append({"time_s": time_s, **row})
            except Exception as error:
                self._samples.failed[kind] = f"after {time_s:.1f} s: {describe(error)}"

    def finish(self) -> Samples:
        """Take the last sample and stop every probe.

        Never raises; a second call returns the same result.
        """
        if self._finished:
            return self._samples
        self._finished = True
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_THREAD_PATIENCE_S)
            if self._thread.is_alive():
                for kind in self._probes:
                    self._samples.failed.setdefault(kind, "a sample was not done within a minute")
            else:
                self._take(time.monotonic())
        for kind in self._started:
            try:
                totals = self._probes[kind].finish()
            except Exception as error:
                self._samples.failed.setdefault(kind, f"at its end: {describe(error)}")
            else:
                if kind not in self._samples.failed:
                    self._samples.totals[kind] = totals
        return self._samples
