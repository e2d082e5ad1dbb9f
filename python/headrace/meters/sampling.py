"""Read meters in the background while jobs run: one thread each, so that none delays another.

A meter that does not answer loses readings, which are counted; it never ends a trial.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypedDict

from headrace.errors import HeadraceError
from headrace.meters import History, Meter, MeterChannel, MeterWindow, Reading
from headrace.meters.integration import Integral, integrate, powers

_FIRST_READING_S = 15.0
"""Longest wait for the first reading of all meters."""

_LAST_READING_S = 15.0
"""Longest wait for the reading after the last job."""


_LATEST = 4
"""Readings of a channel that are looked at for its present power: a counter needs two."""


@dataclass(frozen=True)
class ChannelResult:
    """Energy of one channel in a window."""

    meter: str
    kind: str
    channel: MeterChannel
    integral: Integral
    idle: Integral | None = None
    """Of the time before the jobs, if it was measured."""
    notes: tuple[str, ...] = ()


class PowerRow(TypedDict):
    """One row of the series of power."""

    time_s: float
    meter: str
    channel: str
    power_w: float


@dataclass
class MeterSampler:
    """Reads meters between `start` and `stop`; then `results` integrates over a window."""

    meters: Mapping[str, Meter]
    """By name."""
    failed: dict[str, str] = field(default_factory=dict[str, str])
    """Meters that gave no channels, or no history, with the error."""
    keep_s: float = math.inf
    """Readings older than this are dropped."""
    _threads: dict[str, _MeterThread] = field(default_factory=dict[str, "_MeterThread"])
    _idle: tuple[float, float] | None = None

    def start(self, first_reading_s: float = _FIRST_READING_S) -> None:
        """Start to read; return after the first reading of each meter, or a bounded wait."""
        live = {name: meter for name, meter in self.meters.items() if meter.live}
        self._threads = {name: _MeterThread(meter, self.keep_s) for name, meter in live.items()}
        for thread in self._threads.values():
            thread.start()
        until_s = time.monotonic() + first_reading_s
        for thread in self._threads.values():
            thread.first.wait(max(0.0, until_s - time.monotonic()))

    def baseline(self) -> None:
        """Measure idle power for the longest `idle` of the meters. Call it before the jobs."""
        idle_s = max((meter.options.idle for meter in self.meters.values()), default=0.0)
        if idle_s <= 0:
            return
        begin_s = time.monotonic()
        time.sleep(idle_s)
        self._idle = (begin_s, time.monotonic())

    def stop(self, last_reading_s: float = _LAST_READING_S) -> None:
        """Take the last reading of each meter and end its thread. Can be called twice."""
        for thread in self._threads.values():
            thread.stop.set()
        until_s = time.monotonic() + last_reading_s
        for thread in self._threads.values():
            if thread.is_alive():
                thread.join(max(0.0, until_s - time.monotonic()))

    def readings(self, name: str) -> tuple[list[MeterChannel], list[Reading]]:
        """Return what a live meter has read so far, and its channels."""
        thread = self._threads[name]
        return list(thread.channels), list(thread.readings)

    def latest(self) -> list[tuple[str, MeterChannel, float]]:
        """Return meter, channel and watts of the last good reading of each channel."""
        return [
            (name, channel, found[-1][1])
            for name, thread in self._threads.items()
            for channel in thread.channels
            if (found := powers(channel, thread.readings[-_LATEST * len(thread.channels) :]))
        ]

    def error(self, name: str) -> str | None:
        """Return the last error of a live meter; None when its last reading was good."""
        return self._threads[name].error

    def results(self, window: MeterWindow) -> tuple[list[ChannelResult], list[PowerRow]]:
        """Return the energy of every channel in a window, and the rows of the power series.

        Meters without channels are in `failed`.
        """
        found: list[ChannelResult] = []
        rows: list[PowerRow] = []
        for name, meter in self.meters.items():
            try:
                if meter.live:
                    thread = self._threads[name]
                    channels = list(thread.channels)
                    lost = thread.lost_within(window.begin_s, window.end_s)
                    history = History(
                        tuple(thread.readings), lost={each.name: lost for each in channels}
                    )
                    if not channels:
                        self.failed[name] = thread.error or "it did not answer"
                else:
                    channels, history = list(meter.channels()), meter.history(window)
            except HeadraceError as error:
                self.failed[name] = error.message
                continue
            for channel in channels:
                found.append(self._result(name, meter, channel, history, window))
                own: list[PowerRow] = [
                    {
                        "time_s": time_s - window.begin_s,
                        "meter": name,
                        "channel": channel.name,
                        "power_w": power_w,
                    }
                    for time_s, power_w in powers(channel, history.readings)
                ]
                rows += own
        return found, sorted(rows, key=lambda row: row["meter"])

    def _result(
        self,
        name: str,
        meter: Meter,
        channel: MeterChannel,
        history: History,
        window: MeterWindow,
    ) -> ChannelResult:
        lost = history.lost.get(channel.name, 0)
        made = integrate(channel, history.readings, window.begin_s, window.end_s, lost=lost)
        if history.time_error_s:
            made = _with_time_error(made, channel, history, window)
        if history.refused:
            made = refused(made, history.refused)
        idle = None if self._idle is None else integrate(channel, history.readings, *self._idle)
        return ChannelResult(name, meter.kind, channel, made, idle, history.notes)


def refused(integral: Integral, reasons: tuple[str, ...]) -> Integral:
    """Return an integral that is not usable for these reasons, and for its own if it has energy."""
    own = () if integral.energy_j is None else integral.reasons
    return replace(integral, usable=False, reasons=(*own, *reasons))


def _with_time_error(
    integral: Integral, channel: MeterChannel, history: History, window: MeterWindow
) -> Integral:
    """Return an integral whose uncertainty includes that of the readings' times."""
    if integral.energy_j is None or integral.uncertainty_j is None:
        return integral
    shifts = (-history.time_error_s, history.time_error_s)
    moved = [
        integrate(channel, history.readings, window.begin_s + each, window.end_s + each).energy_j
        for each in shifts
    ]
    error_j = max(
        (abs(each - integral.energy_j) for each in moved if each is not None), default=0.0
    )
    return replace(integral, uncertainty_j=math.hypot(integral.uncertainty_j, error_j))


class _MeterThread(threading.Thread):
    """Reads one meter at its interval until `stop` is set, then once more, and closes it."""

    def __init__(self, meter: Meter, keep_s: float) -> None:
        super().__init__(name=f"headrace-meter-{meter.name}", daemon=True)
        self.first = threading.Event()
        """Set after the first reading or error."""
        self.stop = threading.Event()
        self.channels: tuple[MeterChannel, ...] = ()
        self.readings: list[Reading] = []
        self.error: str | None = None
        self._lost_s: list[float] = []
        self._meter, self._keep_s = meter, keep_s

    def lost_within(self, begin_s: float, end_s: float) -> int:
        """Return how many readings failed in a window."""
        return sum(begin_s <= time_s <= end_s for time_s in self._lost_s)

    def run(self) -> None:
        """Read until stopped."""
        try:
            self._loop()
        finally:
            self.first.set()
            self._meter.close()

    def _loop(self) -> None:
        interval_s = 1.0
        due_s = time.monotonic()
        while True:
            last = self.stop.is_set()
            self._read()
            if last:
                return
            if self.channels:
                interval_s = min(channel.interval_s for channel in self.channels)
            # A reading that is late is not made up for: the grid of times moves on.
            due_s = max(due_s + interval_s, time.monotonic() + 0.05 * interval_s)
            self.stop.wait(max(0.0, due_s - time.monotonic()))

    def _read(self) -> None:
        try:
            if not self.channels:
                self.channels = self._meter.channels()
            self.readings += self._meter.read()
            oldest_s = time.monotonic() - self._keep_s
            while self.readings and self.readings[0].time_s < oldest_s:
                del self.readings[0]
            self.error = None
        except HeadraceError as error:
            self._lost(error.message)
        except Exception as error:  # an answer that nobody foresaw must not end the readings
            self._lost(f"{type(error).__name__}: {error}")
        self.first.set()

    def _lost(self, why: str) -> None:
        self._lost_s.append(time.monotonic())
        self.error = why
        self._meter.close()
