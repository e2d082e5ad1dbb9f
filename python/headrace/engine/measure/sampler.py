"""Sample all probes of a trial from one thread, at one interval, while jobs run."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.engine.measure.outcome import describe
from headrace.errors import HeadraceError
from headrace.probes import Probe, Totals, Watch
from headrace.targets import Location

_THREAD_PATIENCE_S = 60.0
"""Time limit for a sample in progress; counters of a dead server's mount can block."""

Rows = list[dict[str, Any]]


def emulator_reports(location: Location) -> list[dict[str, Any]]:
    """Return the activity and completion delays of a target's emulated drives since their reset.

    The report of a drive whose process has died contains the error.
    """
    found: list[dict[str, Any]] = []
    for device in location.emulated:
        try:
            report = device.report()
        except HeadraceError as error:
            found.append({"device": device.name, "error": error.message})
        else:
            found.append({"device": device.name, **asdict(report), "late_share": report.late_share})
    return found


def with_service(
    reports: list[dict[str, Any]], device: dict[str, Any] | None
) -> list[dict[str, Any]]:
    """Return the reports with the mean time per request, `service_ns_mean`.

    It comes from the kernel's device counters, or else from the time that the drive was busy.
    """
    found: list[dict[str, Any]] = []
    for report in reports:
        if "error" not in report:
            service_s, requests = report["busy_s"], report["reads"] + report["writes"]
            if device is not None and device["requests_read"] + device["requests_write"]:
                service_s = device["read_latency_s"] + device["write_latency_s"]
                requests = device["requests_read"] + device["requests_write"]
            report = {**report, "service_ns_mean": 1e9 * service_s / max(requests, 1)}
        found.append(report)
    return found


@dataclass
class Samples:
    """Results of the probes of a trial."""

    series: dict[str, Rows] = field(default_factory=dict[str, Rows])
    totals: dict[str, Totals] = field(default_factory=dict[str, Totals])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    """Probes that failed, with the error; their series end early and they have no totals."""


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
        self._release = 0.0
        self._started: list[str] = []
        self._finished = False
        self.lost_samples = 0
        """Samples taken more than one interval late."""

    def start(self, watch: Watch) -> None:
        """Start every probe and the thread. Raises the error of a probe that cannot start."""
        for kind, probe in self._probes.items():
            self._started.append(kind)
            probe.start(watch)
        self._release = time.monotonic()
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
        due = self._release + self._interval_s
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            now = time.monotonic()
            self._take(now)
            if now - due > self._interval_s:
                self.lost_samples += 1
            due = max(due + self._interval_s, now + 0.1 * self._interval_s)

    def _take(self, now: float) -> None:
        for kind, probe in self._probes.items():
            if kind in self._samples.failed:
                continue
            try:
                rows = probe.sample()
                for row in rows:
                    self._samples.series[kind].append({"time_s": now - self._release, **row})
            except Exception as error:
                self._samples.failed[kind] = f"after {now - self._release:.1f} s: {describe(error)}"

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
