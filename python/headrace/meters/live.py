"""The present power of meters, with its uncertainty, and idle power measured on request."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.meters import Meter, MeterChannel
from headrace.meters.integration import GAP_INTERVALS, Integral, integrate, powers
from headrace.meters.sampling import MeterSampler
from headrace.system.waiting import wait_until

_KEPT_S = 150.0
"""Longer than any value may repeat (`MeterChannel.stuck_after_s`)."""
_LAST_READING_S = 2.0
"""Longest wait at the end: the user wants to get out."""


@dataclass
class ChannelPower:
    """The present power of one channel."""

    meter: str
    kind: str
    channel: MeterChannel
    covers: str
    """Its boundary, with the names of what it covers; "not stated" if that is unknown."""
    power_w: float
    uncertainty_w: float
    """Standard uncertainty, from accuracy and resolution."""
    time_s: float
    """Of the reading, on the monotonic clock."""
    mean_w: float
    """Since the begin of the display."""
    idle_w: float | None = None


@dataclass
class _Mean:
    """A mean over time."""

    last_s: float = -math.inf
    energy_j: float = 0.0
    length_s: float = 0.0

    def add(self, time_s: float, power_w: float) -> float:
        """Add power until a time; return the mean."""
        if self.last_s > -math.inf:
            self.energy_j += power_w * (time_s - self.last_s)
            self.length_s += time_s - self.last_s
        self.last_s = time_s
        return self.energy_j / self.length_s if self.length_s else power_w


@dataclass
class LiveMeters:
    """Reads meters in the background between `start` and `stop`."""

    meters: Mapping[str, Meter]
    """By name; each is live."""
    idle_s: float = 0.0
    """For how long `measure_idle` measures."""
    uncovered: frozenset[str] = frozenset()
    """Meters of which nobody knows what their power flows into."""
    idle: dict[tuple[str, str], Integral] = field(default_factory=dict[tuple[str, str], Integral])
    """Idle power by meter and channel, once `measure_idle` has measured it."""
    _sampler: MeterSampler = field(init=False)
    _means: dict[tuple[str, str], _Mean] = field(default_factory=dict[tuple[str, str], _Mean])
    _latest: dict[tuple[str, str], ChannelPower] = field(
        default_factory=dict[tuple[str, str], ChannelPower]
    )

    def __post_init__(self) -> None:
        self._sampler = MeterSampler(self.meters, keep_s=max(_KEPT_S, self.idle_s + 10))

    def start(self) -> None:
        """Start to read; return when every channel has power, or after a bounded wait."""
        self._sampler.start()
        longest_s = max((each.interval_s for each in self._channels()), default=0.0)
        known = sum(1 for _ in self._channels())
        wait_until(lambda: len(list(self._powers())) >= known, 3 * longest_s + 1, 0.05)

    def stop(self) -> None:
        """End the readings. Can be called twice."""
        self._sampler.stop(_LAST_READING_S)

    def measure_idle(self) -> None:
        """Measure idle power for `idle_s`; nothing else should run meanwhile."""
        begin_s = time.monotonic()
        time.sleep(self.idle_s)
        end_s = time.monotonic()
        longest_s = max((each.interval_s for each in self._channels()), default=0.0)
        # The reading after the end tells the power until the end.
        wait_until(
            lambda: all(time_s > end_s for _, _, time_s, _ in self._powers()), 2 * longest_s, 0.05
        )
        for name in self.meters:
            channels, readings = self._sampler.readings(name)
            for channel in channels:
                self.idle[name, channel.name] = integrate(channel, readings, begin_s, end_s)

    def errors(self) -> dict[str, str]:
        """Return what is wrong by meter: its last error, or a value that repeats or cannot be."""
        found: dict[str, str] = {}
        for name in self.meters:
            error = self._sampler.error(name)
            channels, readings = self._sampler.readings(name)
            for channel in channels:
                values = [each.power_w for each in readings if each.channel == channel.name]
                times_s = [each.time_s for each in readings if each.channel == channel.name]
                last = values[-1] if values else None
                if error is None and last is not None and not channel.fits(last):
                    error = f"{channel.name} says {last:g} W, which is {channel.misfit(last)}"
                elif error is None and last is not None:
                    same_s = times_s[-1] - times_s[_first_of_run(values)]
                    if same_s > channel.stuck_after_s(last):
                        error = f"{channel.name} has repeated {last:g} W for {same_s:.0f} s"
            if error is not None:
                found[name] = error
        return found

    def present(self) -> list[ChannelPower]:
        """Return the power of each channel that was read lately, in the order of the meters."""
        self.new()
        now_s = time.monotonic()
        found: list[ChannelPower] = []
        for name in self.meters:
            for channel in self._sampler.readings(name)[0]:
                latest = self._latest.get((name, channel.name))
                if latest is not None and now_s - latest.time_s <= _lately_s(latest):
                    found.append(latest)
        return found

    def new(self) -> list[ChannelPower]:
        """Return the power at each reading since the last call, in the order of time; at first,
        that of the last one."""
        found: list[ChannelPower] = []
        for name in self.meters:
            channels, readings = self._sampler.readings(name)
            for channel in channels:
                mean = self._means.setdefault((name, channel.name), _Mean())
                rows = powers(channel, readings)
                first = mean.last_s == -math.inf
                for time_s, power_w in rows[-1:] if first else rows:
                    if time_s > mean.last_s:
                        mean_w = mean.add(time_s, power_w)
                        found.append(self._power(name, channel, time_s, power_w, mean_w))
        found.sort(key=lambda each: each.time_s)
        self._latest |= {(each.meter, each.channel.name): each for each in found}
        return found

    def _power(
        self, name: str, channel: MeterChannel, time_s: float, power_w: float, mean_w: float
    ) -> ChannelPower:
        return ChannelPower(
            meter=name,
            kind=self.meters[name].kind,
            channel=channel,
            covers=self._covers(name, channel),
            power_w=power_w,
            uncertainty_w=_uncertainty_w(channel, power_w),
            time_s=time_s,
            mean_w=mean_w,
            idle_w=self._idle_w((name, channel.name)),
        )

    def _idle_w(self, key: tuple[str, str]) -> float | None:
        made = self.idle.get(key)
        return made.mean_power_w if made is not None and made.usable else None

    def _channels(self) -> Iterator[MeterChannel]:
        for name in self.meters:
            yield from self._sampler.readings(name)[0]

    def _powers(self) -> Iterator[tuple[str, MeterChannel, float, float]]:
        for name in self.meters:
            channels, readings = self._sampler.readings(name)
            for channel in channels:
                rows = powers(channel, readings)
                if rows:
                    yield name, channel, *rows[-1]

    def _covers(self, name: str, channel: MeterChannel) -> str:
        if name in self.uncovered:
            return "not stated"
        return " ".join((channel.boundary, *channel.of))


def _lately_s(power: ChannelPower) -> float:
    """Return for how long a reading tells the present power."""
    interval_s = power.channel.interval_s
    return max(GAP_INTERVALS * interval_s, 2.0) + interval_s


def _first_of_run(values: Sequence[float | None]) -> int:
    """Return the number of the first of the equal values at the end."""
    index = len(values) - 1
    while index > 0 and values[index - 1] == values[-1]:
        index -= 1
    return index


def _uncertainty_w(channel: MeterChannel, power_w: float) -> float:
    """Return the standard uncertainty of one reading: bounds of uniform distributions."""
    step_w = channel.resolution_j / channel.interval_s if channel.counter else channel.resolution_w
    return math.hypot(channel.accuracy * power_w / math.sqrt(3), step_w / math.sqrt(12))
