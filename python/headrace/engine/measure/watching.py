"""Samples every probe of a trial from one thread, at one interval, while jobs run."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict
from typing import Any

from headrace.errors import HeadraceError
from headrace.probes import Probe, Totals, Watch
from headrace.targets import Location


def emulator_reports(location: Location) -> list[dict[str, Any]]:
    """What the emulated drives of a target did since their reports were reset, and how late; one whose process is gone says so."""
    found: list[dict[str, Any]] = []
    for device in location.emulated:
        try:
            report = device.report()
        except HeadraceError as error:
            found.append({"device": device.name, "error": error.message})
        else:
            found.append({"device": device.name, **asdict(report), "late_share": report.late_share})
    return found


def with_service(reports: list[dict[str, Any]], device: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The reports with the mean time that a request took, `service_ns_mean`: as the kernel counted it on the devices, or else the
    time that the drive was busy over its requests."""
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


class Watching:
    """Started right before the release, finished when the last job is done."""

    def __init__(self, probes: dict[str, Probe], interval_s: float) -> None:
        self._probes = probes
        self._interval_s = interval_s
        self._rows: dict[str, list[dict[str, Any]]] = {kind: [] for kind in probes}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="headrace-watching", daemon=True)
        self._release = 0.0
        self._running = False
        self.lost_samples = 0
        """Samples that came later than two intervals."""

    def start(self, watch: Watch) -> None:
        """Starts every probe and the thread."""
        for probe in self._probes.values():
            probe.start(watch)
        self._release = time.monotonic()
        self._running = True
        self._thread.start()

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
            for row in probe.sample():
                self._rows[kind].append({"time_s": now - self._release, **row})

    def finish(self) -> tuple[dict[str, list[dict[str, Any]]], dict[str, Totals]]:
        """Stops. Returns the rows and the totals of every probe. Safe after a `start` that failed half-way."""
        self._stop.set()
        if self._running:
            self._thread.join()
            self._running = False
            self._take(time.monotonic())
        return self._rows, {kind: probe.finish() for kind, probe in self._probes.items()}
