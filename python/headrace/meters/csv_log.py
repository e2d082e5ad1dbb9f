"""Meter `csv`: the log of any other meter, aligned with each trial by the CPU load.

A logger appends rows to a text file while jobs run. After a trial, the rows of its time are read.
The clock of the logger is rarely that of this machine: unless `offset` states by how much it is
ahead, the offset is found by cross-correlation of power with CPU load (`alignment.py`).
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator, model_validator

from headrace.errors import Problem
from headrace.meters import (
    History,
    Meter,
    MeterChannel,
    MeterError,
    MeterOptions,
    MeterWindow,
    Reading,
    factor_of,
)
from headrace.meters.alignment import Alignment, align
from headrace.meters.integration import powers
from headrace.meters.log_times import LogTimes
from headrace.meters.power_log import LogFormat, PowerLog, read_log
from headrace.system.waiting import wait_until
from headrace.units import Seconds

_ACCURACY = (0.05, "assumption: 5 %; state `accuracy` for the meter that was logged")


class CsvOptions(MeterOptions):
    """Fields of `[meter.NAME]` with `kind = "csv"`."""

    path_fields: ClassVar[tuple[str, ...]] = ("file",)
    file: str = Field(min_length=1, description="the log; its logger appends rows while jobs run")
    columns: dict[str, str] = Field(
        min_length=1,
        description='column -> unit: { "Power (W)" = "W" }. W, mW, uW, kW for power; J, kJ, Wh, '
        "kWh for a counter; VA needs power_factor",
    )
    power_factor: float | None = Field(None, gt=0, le=1, description="W per VA")
    time: str | tuple[str, ...] = Field(
        (), description='column of the time, or ["Date", "Time"]; the first when not given'
    )
    time_format: str | None = Field(
        None,
        description='such as "%d.%m.%Y %H:%M:%S" (strptime); ISO 8601, Unix time (s or ms) or '
        "seconds from the log's begin when not given",
    )
    zone: str | None = Field(
        None,
        description='time zone of times that have none: "Europe/Berlin", "UTC"; that of this '
        "machine when not given",
    )
    decimal: Literal[".", ","] = Field(".", description="the decimal sign of the logger")
    offset: float | None = Field(
        None,
        ge=-1e9,
        le=1e9,
        allow_inf_nan=False,
        description="seconds by which the log's clock is ahead; 0 if both follow NTP. Found by "
        "cross-correlation with the CPU load when not given",
    )
    search: Seconds = Field(
        30.0, gt=0, le=86_400, description="the largest offset that is tried, ahead or behind"
    )
    idle: Seconds = Field(
        5.0,
        ge=0,
        le=3600,
        description="time without load before the jobs of each trial; the step of the load at "
        "its end aligns the log",
    )
    wait: Seconds = Field(
        5.0, ge=0, le=600, description="how long to wait for the rows of the end of a trial"
    )

    @model_validator(mode="after")
    def _units(self) -> CsvOptions:
        for unit in self.columns.values():
            factor_of(unit, self.power_factor)
        return self

    @field_validator("zone")
    @classmethod
    def _known_zone(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                ZoneInfo(value)
            except (KeyError, ValueError, OSError):
                raise ValueError('unknown time zone; write it like "Europe/Berlin"') from None
        return value


class CsvLog(Meter):
    """One channel per column."""

    kind: ClassVar[str] = "csv"
    Options: ClassVar[type[MeterOptions]] = CsvOptions
    live: ClassVar[bool] = False
    options: CsvOptions
    _log: PowerLog | None = None

    def check(self) -> list[Problem]:
        """Return that the log cannot be read, or that nobody writes it."""
        try:
            log = self._read()
        except MeterError as error:
            return [self.problem(error.message, error.hint or "see docs/energy.md")]
        finally:
            self.close()
        silent_s = time.time() - log.modified_s
        if silent_s > 10 * log.interval_s + 60:
            return [
                replace(
                    self.problem(
                        f"nothing was written to {self.options.file} for {silent_s:.0f} s",
                        "start its logger",
                    ),
                    fatal=False,
                    without="trials have no energy from it",
                )
            ]
        return []

    def channels(self) -> tuple[MeterChannel, ...]:
        """Return the columns. Their interval is that of the log's rows."""
        log, options = self._log or self._read(), self.options
        return tuple(
            self.channel(
                name,
                "node",
                log.interval_s,
                _ACCURACY,
                counter=factor_of(unit, options.power_factor)[0],
            )
            for name, unit in options.columns.items()
        )

    def history(self, window: MeterWindow) -> History:
        """Read the log, align it with the CPU load, and return its readings."""
        log, interval_s = self._awaited(window), self.channels()[0].interval_s
        clock_s, stated_s = _clock_s(log), self.options.offset
        span_s = self.options.search if stated_s is None else abs(stated_s)
        margin_s = span_s + 10 * interval_s
        rows = self._readings(
            log, clock_s, (window.begin_s - self.options.idle - margin_s, window.end_s + margin_s)
        )
        if not rows:
            return History((), refused=(_no_rows(log, clock_s, window, span_s),))
        times = _times_of(rows)
        if refused := next(filter(None, (each.refused() for each in times)), ""):
            return History((), refused=(refused,))
        if stated_s is None:
            found = self._aligned(window, rows)
            if found.doubt:
                why = f"the log cannot be aligned with the trial: {found.doubt}"
                return History((), refused=(why,))
            offset_s, error_s = found.offset_s, found.error_s
            how = (
                f"standard uncertainty {error_s:.2g} s; by the correlation of its power with the "
                f"CPU load, {found.correlation:.2f}"
            )
        else:
            offset_s, error_s, how = stated_s, 0.0, "as stated"
        notes = [f"the clock of the log {_ahead(offset_s)} ({how})", *times[0].notes()]
        early_s = window.end_s - (log.times_s[-1] - clock_s - offset_s)
        if early_s > 2.5 * interval_s:
            notes.append(f"the log ends {early_s:.1f} s before the last job")
        late_s = log.times_s[0] - clock_s - offset_s - window.begin_s
        if late_s > 2.5 * interval_s:
            notes.append(f"the log begins {late_s:.1f} s after the jobs")
        moved = [replace(each, time_s=each.time_s - offset_s) for each in rows]
        lost = Counter(
            each.channel
            for each in moved
            if not _has_value(each) and window.begin_s <= each.time_s <= window.end_s
        )
        good = tuple(each for each in moved if _has_value(each))
        return History(good, tuple(notes), lost=lost, time_error_s=error_s)

    def close(self) -> None:
        """Forget the log: it grows."""
        self._log = None

    def _read(self) -> PowerLog:
        options = self.options
        names = (options.time,) if isinstance(options.time, str) else options.time
        self._log = read_log(
            LogFormat(
                options.file,
                options.columns,
                names,
                options.time_format,
                options.zone,
                options.decimal,
            )
        )
        return self._log

    def _awaited(self, window: MeterWindow) -> PowerLog:
        """Return the log, as soon as it has a row after the end of the jobs."""
        found: list[PowerLog] = []
        ahead_s = self.options.offset or 0.0

        def complete() -> bool:
            log = self._read()
            found[:] = [log]
            end_s = log.times_s[-1] - _clock_s(log) - ahead_s
            return end_s >= window.end_s + 2 * log.interval_s

        wait_until(complete, self.options.wait, 0.5)
        return found[0]

    def _readings(
        self, log: PowerLog, clock_s: float, within: tuple[float, float]
    ) -> list[Reading]:
        """Return the rows of some time on the monotonic clock, as if the log had no offset."""
        from_s, to_s = (each + clock_s for each in within)
        # Not by bisection: the clock of a logger may be set back.
        chosen = [index for index, each in enumerate(log.times_s) if from_s <= each <= to_s]
        found: list[Reading] = []
        for name, unit in self.options.columns.items():
            energy, factor = factor_of(unit, self.options.power_factor)
            for index in chosen:
                time_s, value = log.times_s[index], log.values[name][index]
                scaled = math.nan if value is None else factor * value
                found.append(
                    Reading(name, time_s - clock_s, energy_j=scaled)
                    if energy
                    else Reading(name, time_s - clock_s, power_w=scaled)
                )
        return found

    def _aligned(self, window: MeterWindow, rows: Sequence[Reading]) -> Alignment:
        good = [each for each in rows if _has_value(each)]
        series = [powers(channel, good) for channel in self.channels()]
        return align(window.load, series, self.options.search)


def _clock_s(log: PowerLog) -> float:
    """Return the log's time when the monotonic clock is 0, if its clock is this machine's."""
    if log.elapsed:  # its last row was written when the file was
        return log.times_s[-1] - log.modified_s + time.time() - time.monotonic()
    return time.time() - time.monotonic()


def _times_of(rows: Sequence[Reading]) -> list[LogTimes]:
    """Return how the times of each channel's values advance."""
    times_s: dict[str, list[float]] = {each.channel: [] for each in rows}
    for each in rows:
        if _has_value(each):
            times_s[each.channel].append(each.time_s)
    return [LogTimes.of(each) for each in times_s.values()]


def _no_rows(log: PowerLog, clock_s: float, window: MeterWindow, span_s: float) -> str:
    """Return what the log has instead of the trial's time."""
    before_s = window.begin_s - (log.times_s[-1] - clock_s)
    after_s = log.times_s[0] - clock_s - window.end_s
    if before_s > 0:
        return f"the log ended {before_s:.0f} s before the jobs began, by its own clock"
    if after_s > 0:
        return f"the log begins {after_s:.0f} s after the last job, by its own clock"
    return f"the log has no rows within {span_s:g} s of the jobs"


def _has_value(reading: Reading) -> bool:
    value = reading.energy_j if reading.power_w is None else reading.power_w
    return value is not None and math.isfinite(value)


def _ahead(offset_s: float) -> str:
    if abs(offset_s) < 0.005:
        return "agrees with that of this machine"
    return f"is {abs(offset_s):.2f} s {'ahead of' if offset_s > 0 else 'behind'} this machine's"
