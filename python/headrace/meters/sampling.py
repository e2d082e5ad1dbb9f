"""Read meters in the background while jobs run: one thread each, so that none delays another.

A meter that does not answer loses readings, which are counted; it never ends a trial.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NotRequired, TypedDict

from headrace.errors import HeadraceError
from headrace.meters import History, Meter, MeterChannel, MeterWindow, Reading
from headrace.meters.integration import Integral, integrate, powers

FIRST_READING_S = 15.0
"""Longest wait for the first reading of all meters."""

LAST_READING_S = 15.0
"""Longest wait for the reading after the last job."""

NO_ANSWER = "it did not answer"

_NOTHING = "it read 0 W all the time: it does not measure, or nothing is behind it"

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
    node: str = ""
    """Node whose agent read it; empty for this machine."""


@dataclass(frozen=True)
class MeterLog:
    """What a live meter has read. Plain data, for an agent."""

    meter: str
    channels: tuple[MeterChannel, ...] = ()
    readings: tuple[Reading, ...] = ()
    lost_s: tuple[float, ...] = ()
    """When a reading failed, on the monotonic clock of the machine that read it."""
    error: str | None = None
    """The last error; None when the last reading was good."""

    def converted(self, time_s: Callable[[float], float]) -> MeterLog:
        """Return the same on another clock; `time_s` returns its time for one of this log."""
        return replace(
            self,
            readings=tuple(replace(each, time_s=time_s(each.time_s)) for each in self.readings),
            lost_s=tuple(map(time_s, self.lost_s)),
        )

    def lost_within(self, begin_s: float, end_s: float) -> int:
        """Return how many readings failed in a window."""
        return sum(begin_s <= time_s <= end_s for time_s in self.lost_s)


class PowerRow(TypedDict):
    """One row of the series of power."""

    time_s: float
    meter: str
    channel: str
    power_w: float
    node: NotRequired[str]
    """Node whose agent read it; missing where no meter is read on a node."""


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

    def start(self, first_reading_s: float = FIRST_READING_S) -> None:
        """Start to read; return after the first reading of each meter, or a bounded wait."""
        self.begin()
        self.wait(first_reading_s)

    def begin(self) -> None:
        """Start to read; return at once."""
        live = {name: meter for name, meter in self.meters.items() if meter.live}
        self._threads = {name: _MeterThread(meter, self.keep_s) for name, meter in live.items()}
        for thread in self._threads.values():
            thread.start()

    def wait(self, first_reading_s: float = FIRST_READING_S) -> None:
        """Wait for the first reading of each meter, for a bounded time."""
        until_s = time.monotonic() + first_reading_s
        for thread in self._threads.values():
            thread.first.wait(max(0.0, until_s - time.monotonic()))

    def end(self) -> None:
        """Let each meter take its last reading; return at once."""
        for thread in self._threads.values():
            thread.stop.set()

    def stop(self, last_reading_s: float = LAST_READING_S) -> None:
        """Take the last reading of each meter and end its thread. Can be called twice."""
        self.end()
        until_s = time.monotonic() + last_reading_s
        for thread in self._threads.values():
            if thread.is_alive():
                thread.join(max(0.0, until_s - time.monotonic()))

    def readings(self, name: str) -> tuple[list[MeterChannel], list[Reading]]:
        """Return what a live meter has read so far, and its channels."""
        thread = self._threads[name]
        return list(thread.channels), list(thread.readings)

    def logs(self) -> list[MeterLog]:
        """Return what each live meter has read so far."""
        return [self._log(name) for name in self._threads]

    def _log(self, name: str) -> MeterLog:
        thread = self._threads[name]
        readings, lost_s = tuple(thread.readings), tuple(thread.lost_s)
        return MeterLog(name, thread.channels, readings, lost_s, thread.error)

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

    def results(
        self, window: MeterWindow, idle: tuple[float, float] | None = None
    ) -> tuple[list[ChannelResult], list[PowerRow]]:
        """Return the energy of every channel in a window, and the rows of the power series.

        `idle`: a time without jobs before it. Meters without channels are in `failed`.
        """
        found: list[ChannelResult] = []
        rows: list[PowerRow] = []
        for name, meter in self.meters.items():
            try:
                if meter.live:
                    log = self._log(name)
                    if not log.channels:
                        self.failed[name] = log.error or NO_ANSWER
                    made = results_of(log, meter.kind, window, idle)
                else:
                    channels, history = meter.channels(), meter.history(window)
                    made = _results(name, meter.kind, channels, history, window, idle)
            except HeadraceError as error:
                self.failed[name] = error.message
                continue
            found += made[0]
            rows += made[1]
        return found, sorted(rows, key=lambda row: row["meter"])


def results_of(
    log: MeterLog, kind: str, window: MeterWindow, idle: tuple[float, float] | None
) -> tuple[list[ChannelResult], list[PowerRow]]:
    """Return the energy of each channel of a live meter in a window, and the rows of its power."""
    lost = log.lost_within(window.begin_s, window.end_s)
    history = History(log.readings, lost={each.name: lost for each in log.channels})
    return _results(log.meter, kind, log.channels, history, window, idle)


def _results(
    name: str,
    kind: str,
    channels: Sequence[MeterChannel],
    history: History,
    window: MeterWindow,
    idle: tuple[float, float] | None,
) -> tuple[list[ChannelResult], list[PowerRow]]:
    found: list[ChannelResult] = []
    rows: list[PowerRow] = []
    for channel in channels:
        made = _integral(channel, history, window)
        before = None if idle is None else integrate(channel, history.readings, *idle)
        found.append(ChannelResult(name, kind, channel, made, before, history.notes))
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
    if _drew_nothing(found):
        found = [replace(each, integral=refused(each.integral, (_NOTHING,))) for each in found]
    return found, rows


def _drew_nothing(found: Sequence[ChannelResult]) -> bool:
    """Return whether a meter of machines says that they draw no power. A drive may draw none."""
    return bool(found) and all(
        each.integral.mean_power_w == 0 and each.channel.boundary != "device" for each in found
    )


def _integral(channel: MeterChannel, history: History, window: MeterWindow) -> Integral:
    lost = history.lost.get(channel.name, 0)
    made = integrate(channel, history.readings, window.begin_s, window.end_s, lost=lost)
    if history.time_error_s:
        made = _with_time_error(made, channel, history, window)
    return refused(made, history.refused) if history.refused else made


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
        self.lost_s: list[float] = []
        self._meter, self._keep_s = meter, keep_s

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
        self.lost_s.append(time.monotonic())
        self.error = why
        self._meter.close()
