"""Probes of monitoring services: values that others have collected, by host and metric.

Such a probe is named in the study (`[probe.NAME]`), belongs to the whole trial and not to a node,
and asks its service over the network: from a thread of its own, or once after the last job. It is
never essential: a service that fails leaves a trial valid.
"""

from __future__ import annotations

import re
import threading
import time
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field
from typing_extensions import override

from headrace.errors import HeadraceError, Problem, describe
from headrace.probes import Probe, Totals, Watch
from headrace.probes.options import ProbeOptions
from headrace.units import Seconds

MOST_BYTES = 32 << 20
"""Largest answer of a service."""
_END_S = 15.0
_WALL_LESS_MONOTONIC_S = time.time() - time.monotonic()


def steady_s() -> float:
    """Return the wall clock of this machine as it was set when the process began, in seconds.

    A clock that is set while jobs run would move the time of which a service is asked.
    """
    return _WALL_LESS_MONOTONIC_S + time.monotonic()


def without_password(url: str) -> str:
    """Return a URL for messages and records (`http://me:…@host`)."""
    return re.sub(r"(://[^/:@]*):[^/@]*@", r"\1@", url)


class ServiceOptions(ProbeOptions):
    """Fields of every `[probe.NAME]`."""

    address: str = Field(min_length=1)
    interval: Seconds = Field(5.0, ge=0.5, description="time between samples")
    timeout: Seconds = Field(5.0, gt=0, le=60, description="longest wait for an answer")


@dataclass(frozen=True)
class Sample:
    """One value of one metric of one host."""

    time_s: float
    """On this machine's monotonic clock."""
    host: str
    metric: str
    value: float
    unit: str


class ServiceProbe(Probe):
    """A probe with options that asks a service. `sample` returns rows with a `time_s` of their own:
    on the monotonic clock of this machine."""

    default: ClassVar[bool] = False
    essential: ClassVar[bool] = False
    options: Any
    """`ServiceOptions` of its kind."""

    def __init__(self, options: Any) -> None:
        self.options = options
        self.samples: list[Sample] = []
        self.lost = 0
        """Requests without an answer."""
        self.error = ""
        self._returned = 0
        self._begun_s = 0.0
        self._stop = threading.Event()
        self._ask_last = True
        self._thread: threading.Thread | None = None

    @abstractmethod
    def ask(self) -> Iterable[Sample]:
        """Return new samples. Raises HeadraceError when the service gives none."""

    def clock(self) -> tuple[float, float] | None:
        """Return the seconds by which the service's clock is ahead, and how far that may be wrong.

        None when the times of samples are this machine's.
        """
        return None

    @override
    def check(self) -> list[Problem]:
        try:
            found = list(self.ask())
        except HeadraceError as error:
            hint = error.hint or "start the service, or correct [probe]"
            return [Problem(error.message, f"probe {self.kind}", hint)]
        if not found:
            what = f"{without_password(self.options.address)} has no value of the metrics wanted"
            return [Problem(what, f"probe {self.kind}", "compare their names with the service's")]
        return []

    def reset(self) -> None:
        """Forget the samples of an earlier trial."""
        self.samples, self.lost, self._returned, self.error = [], 0, 0, ""
        self._begun_s = time.monotonic()
        self._ask_last = True
        self._stop.clear()

    @override
    def start(self, watch: Watch) -> None:
        self.reset()
        self._thread = threading.Thread(target=self._run, name=f"probe-{self.kind}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            last = self._stop.is_set()
            if last and not self._ask_last:
                return
            try:
                self.samples += self.ask()
            except Exception as error:  # an answer that nobody foresaw must not end the samples
                self.lost += 1
                self.error = describe(error)
            if last:
                return
            self._stop.wait(self.options.interval)

    def stop(self, *, ask: bool = True) -> None:
        """Ask once more, unless nobody wants the answer, and end the thread. Safe to call twice."""
        self._ask_last = ask
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_END_S + self.options.timeout)
            self._thread = None

    @override
    def sample(self) -> list[dict[str, Any]]:
        new = self.samples[self._returned :]
        self._returned += len(new)
        return [
            {
                "time_s": each.time_s,
                "host": each.host,
                "metric": each.metric,
                "value": each.value,
                "unit": each.unit,
            }
            for each in new
        ]

    @override
    def finish(self) -> Totals:
        self.stop()
        if not self.samples and self.error:
            raise HeadraceError(self.error)
        of_hosts: dict[str, dict[str, list[Sample]]] = {}
        for each in self.samples:
            of_hosts.setdefault(each.host, {}).setdefault(each.metric, []).append(each)
        hosts = {
            host: {metric: self._total(found) for metric, found in metrics.items()}
            for host, metrics in of_hosts.items()
        }
        values: dict[str, Any] = {"hosts": hosts, "lost": self.lost}
        if (clock := self.clock()) is not None:
            values["clock_offset_s"], values["clock_uncertainty_s"] = clock
        return Totals(values)

    def _total(self, found: list[Sample]) -> dict[str, Any]:
        """Return the total of the values that belong to the trial, not to the time before it."""
        values = [each.value for each in found if each.time_s >= self._begun_s]
        return {
            "unit": found[0].unit,
            "samples": len(values),
            "mean": sum(values) / len(values) if values else None,
            "min": min(values, default=None),
            "max": max(values, default=None),
        }


class ClockOffset:
    """By how much a server's clock is ahead, from answers that state its time.

    Each answer gives bounds: the server read its clock between the request and the answer. The
    bounds of all answers hold together.
    """

    def __init__(self) -> None:
        self._low, self._high = float("-inf"), float("inf")

    def add(self, before_s: float, after_s: float, server_s: float, resolution_s: float) -> None:
        """Add an answer between two times of `steady_s`; the server cuts its to a resolution."""
        low, high = server_s - after_s, server_s + resolution_s - before_s
        if low > self._high or high < self._low:  # a clock was set: the past says nothing
            self._low, self._high = low, high
        self._low, self._high = max(self._low, low), min(self._high, high)

    @property
    def known(self) -> bool:
        """Whether there was an answer."""
        return self._high < float("inf")

    @property
    def offset_s(self) -> float:
        """Seconds that the server is ahead; 0 when nothing is known."""
        return (self._low + self._high) / 2 if self.known else 0.0

    @property
    def uncertainty_s(self) -> float:
        """Largest error of the offset."""
        return (self._high - self._low) / 2 if self.known else float("inf")

    def monotonic_s(self, server_s: float) -> float:
        """Return a time of the server on this machine's monotonic clock."""
        return server_s - self.offset_s - _WALL_LESS_MONOTONIC_S
