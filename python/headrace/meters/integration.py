"""Integrate the readings of one channel to the energy between two times, with its uncertainty.

Power is integrated by the trapezoid rule and interpolated at the edges of the window; differences
of a counter are added. Every irregularity is counted. Time in which nothing is known (gaps, stuck
values, edges without a reading) is filled with what surrounds it, and beyond `UNMEASURED_MOST` of
the window the energy is not usable.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from headrace.meters import MeterChannel, Reading

GAP_INTERVALS = 2.5
"""A distance of more intervals than this between readings is a gap."""

UNMEASURED_MOST = 0.05
"""Share of the window in which nothing may be known."""

DISCARDED_MOST = 0.05
"""Share of readings that may be discarded: negative, implausible, or at a time that went back."""


@dataclass(frozen=True)
class Integral:
    """Energy of one channel in a window, and how far it can be trusted."""

    energy_j: float | None
    """None without two readings."""
    mean_power_w: float | None
    uncertainty_j: float | None
    """Standard uncertainty: from accuracy, resolution, sampling and unmeasured time."""
    samples: int
    """Good readings within the window."""
    lost: int = 0
    """Readings that failed."""
    gaps: int = 0
    wraps: int = 0
    """Times that a counter began again at 0 while the jobs ran."""
    negatives: int = 0
    """Negative powers, and counters that went back without a wrap."""
    implausible: int = 0
    """Values above the largest possible power."""
    repeats: int = 0
    """Readings in runs of equal values that are too long to be believed."""
    clock_jumps: int = 0
    """Readings whose time did not advance."""
    unmeasured_s: float = 0.0
    """Time in which nothing is known."""
    usable: bool = False
    reasons: tuple[str, ...] = ()
    """Why it is not usable."""


@dataclass
class _Counts:
    """What was discarded or looked odd."""

    clock_jumps: int = 0
    negatives: int = 0
    implausible: int = 0
    repeats: int = 0


@dataclass(frozen=True)
class _Segment:
    """The power between two readings: linear from `from_w` to `to_w`, or unknown."""

    begin_s: float
    end_s: float
    from_w: float
    to_w: float
    known: bool = True
    wrapped: bool = False
    """A counter began again at 0."""

    @property
    def length_s(self) -> float:
        return self.end_s - self.begin_s

    @property
    def energy_j(self) -> float:
        return 0.5 * (self.from_w + self.to_w) * self.length_s

    def cut(self, begin_s: float, end_s: float) -> _Segment | None:
        """Return the part within a window, None if there is none."""
        begin, end = max(begin_s, self.begin_s), min(end_s, self.end_s)
        if end <= begin:
            return None
        slope = (self.to_w - self.from_w) / self.length_s
        return replace(
            self,
            begin_s=begin,
            end_s=end,
            from_w=self.from_w + slope * (begin - self.begin_s),
            to_w=self.from_w + slope * (end - self.begin_s),
        )


class _Counted(TypedDict):
    """What was counted while the readings were read."""

    samples: int
    lost: int
    wraps: int
    negatives: int
    implausible: int
    repeats: int
    clock_jumps: int


def integrate(
    channel: MeterChannel,
    readings: Iterable[Reading],
    begin_s: float,
    end_s: float,
    *,
    lost: int = 0,
) -> Integral:
    """Return the energy of a channel between two times of the readings' clock.

    `lost` is the number of readings that failed. Readings before and after the window improve its
    edges.
    """
    counts, window_s = _Counts(), end_s - begin_s
    values = _values(channel, readings)
    taken = len(values)
    good = _advancing(values, counts)
    segments = (_of_counter if channel.counter else _of_power)(channel, good, counts)
    samples = sum(begin_s <= time_s <= end_s for time_s, value in good if channel.fits(value))
    inside = [cut for each in segments if (cut := each.cut(begin_s, end_s)) is not None]
    known = [each for each in inside if each.known]
    counted: _Counted = {
        "samples": samples,
        "lost": lost,
        "wraps": sum(each.wrapped for each in inside),
        "negatives": counts.negatives,
        "implausible": counts.implausible,
        "repeats": counts.repeats,
        "clock_jumps": counts.clock_jumps,
    }
    if window_s <= 0 or not known:
        why = f"{samples} usable readings while the jobs ran"
        reasons = (why, *_discarded(counts, taken))
        return Integral(None, None, None, **counted, unmeasured_s=max(window_s, 0), reasons=reasons)
    known_s = sum(each.length_s for each in known)
    mean_w = sum(each.energy_j for each in known) / known_s
    # A gap is bridged by what surrounds it; edges and stuck values by the mean.
    bridged = sum(each.energy_j for each in known)
    gaps, gap_s = _gaps(channel, segments, begin_s, end_s)
    missing_s = max(0.0, window_s - known_s)
    energy_j = bridged + mean_w * missing_s
    unmeasured_s = missing_s + gap_s
    uncertainty_j = _uncertainty_j(
        channel, segments, known, energy_j, (begin_s, end_s), unmeasured_s, mean_w
    )
    reasons = _reasons(channel, counts, taken, window_s, unmeasured_s)
    reasons += _wraps_unseen(channel, segments, (begin_s, end_s))
    return Integral(
        energy_j,
        energy_j / window_s,
        uncertainty_j,
        **counted,
        gaps=gaps,
        unmeasured_s=unmeasured_s if unmeasured_s > 1e-9 * window_s else 0.0,
        usable=not reasons,
        reasons=tuple(reasons),
    )


def powers(channel: MeterChannel, readings: Iterable[Reading]) -> list[tuple[float, float]]:
    """Return time and watts of each good reading; for a counter the mean since the last reading."""
    counts = _Counts()
    values = _values(channel, readings)
    good = _advancing(values, counts)
    if channel.counter:
        return [
            (each.end_s, each.to_w) for each in _of_counter(channel, good, counts) if each.known
        ]
    return [(time_s, value) for time_s, value in good if channel.fits(value)]


def _values(channel: MeterChannel, readings: Iterable[Reading]) -> list[tuple[float, float | None]]:
    """Return time and watts, or joules of a counter, of a channel's readings."""
    return [
        (reading.time_s, reading.energy_j if channel.counter else reading.power_w)
        for reading in readings
        if reading.channel == channel.name
    ]


def _advancing(
    values: Sequence[tuple[float, float | None]], counts: _Counts
) -> list[tuple[float, float]]:
    """Return the finite values whose time advances."""
    found: list[tuple[float, float]] = []
    for time_s, value in values:
        if value is None or not math.isfinite(value) or not math.isfinite(time_s):
            counts.implausible += 1
        elif found and time_s <= found[-1][0]:
            counts.clock_jumps += 1
        else:
            found.append((time_s, value))
    return found


# -- power --


def _of_power(
    channel: MeterChannel, values: Sequence[tuple[float, float]], counts: _Counts
) -> list[_Segment]:
    good: list[tuple[float, float]] = []
    for time_s, value in values:
        if value < 0:
            counts.negatives += 1
        elif value > channel.power_max_w:
            counts.implausible += 1
        else:
            good.append((time_s, value))
    stuck = _stuck(channel, good, counts)
    return [
        _Segment(a[0], b[0], a[1], b[1], known=index not in stuck)
        for index, (a, b) in enumerate(itertools.pairwise(good))
    ]


def _stuck(
    channel: MeterChannel, values: Sequence[tuple[float, float]], counts: _Counts
) -> set[int]:
    """Return the numbers of the segments within runs of equal values that are too long."""
    found: set[int] = set()
    first = 0
    for index in range(1, len(values) + 1):
        if index < len(values) and values[index][1] == values[first][1]:
            continue
        run_s = values[index - 1][0] - values[first][0]
        if index - first >= 3 and run_s > channel.stuck_after_s(values[first][1]):
            found.update(range(first, index - 1))
            counts.repeats += index - first
        first = index
    return found


# -- counters --


def _of_counter(
    channel: MeterChannel, values: Sequence[tuple[float, float]], counts: _Counts
) -> list[_Segment]:
    """Return the mean power between readings that differ.

    A counter that stands still for some readings and then advances was only refreshed late.
    """
    found: list[_Segment] = []
    if not values:
        return found
    from_s, last = values[0]
    still = 0
    for time_s, value in values[1:]:
        if value == last:
            still += 1
            continue
        step_j, length_s, wrapped = value - last, time_s - from_s, False
        if step_j < 0:
            wrapped_j = step_j + (channel.wraps_at_j or 0)
            if channel.wraps_at_j and 0 <= wrapped_j <= channel.power_max_w * length_s:
                step_j, wrapped = wrapped_j, True
            else:
                counts.negatives += 1
        elif step_j > channel.power_max_w * length_s:
            counts.implausible += 1
            step_j = -1.0
        power_w = step_j / length_s
        found.append(_Segment(from_s, time_s, power_w, power_w, step_j >= 0, wrapped))
        from_s, last, still = time_s, value, 0
    if still:
        end_s = values[-1][0]
        stuck = end_s - from_s > channel.stuck_after_s(1.0) or not found
        counts.repeats += still if stuck else 0
        # No machine uses nothing: a short stand at the end is a counter not yet refreshed.
        power_w = found[-1].to_w if found and not stuck else 0.0
        found.append(_Segment(from_s, end_s, power_w, power_w, known=not stuck))
    return found


# -- trust --


def _gaps(
    channel: MeterChannel, segments: Sequence[_Segment], begin_s: float, end_s: float
) -> tuple[int, float]:
    """Return the number of gaps between readings in the window, and the time lost in them."""
    gap_s, gaps, longest_s = 0.0, 0, GAP_INTERVALS * channel.interval_s
    whole = {(each.begin_s, each.end_s): each for each in segments}
    for each in whole.values():
        if each.known and each.length_s > longest_s and each.cut(begin_s, end_s) is not None:
            cut = each.cut(begin_s, end_s)
            gaps += 1
            if not channel.counter and cut is not None:  # a counter loses nothing in a gap
                gap_s += min(cut.length_s, each.length_s - channel.interval_s)
    return gaps, gap_s


def _uncertainty_j(
    channel: MeterChannel,
    segments: Sequence[_Segment],
    known: Sequence[_Segment],
    energy_j: float,
    window: tuple[float, float],
    unmeasured_s: float,
    mean_w: float,
) -> float:
    """Return the standard uncertainty: independent parts, added in squares.

    Bounds (accuracy, resolution) are half widths of uniform distributions. A step of the power
    lies anywhere between two readings: the trapezoid is wrong by up to half the step times their
    distance. Unmeasured time may have any power that was seen.
    """
    window_s = window[1] - window[0]
    squares = _square(channel.accuracy * energy_j) / 3
    if channel.counter:
        squares += 2 * channel.resolution_j**2 / 12
        for edge_s in window:
            squares += _square(_edge_j(segments, edge_s))
    else:
        squares += _square(channel.resolution_w * window_s) / 12
        squares += sum(_square((each.to_w - each.from_w) * each.length_s) / 12 for each in known)
    powers_w = [power for each in known for power in (each.from_w, each.to_w)]
    spread_w = max(max(powers_w) - min(powers_w), 0.1 * mean_w)
    return math.sqrt(squares + _square(spread_w * unmeasured_s) / 12)


def _square(value: float) -> float:
    """Return the square, infinite where `**` would raise."""
    return value * value


def _edge_j(segments: Sequence[_Segment], edge_s: float) -> float:
    """Return the uncertainty of a counter's energy at a time between two of its readings."""
    for index, each in enumerate(segments):
        if each.begin_s < edge_s < each.end_s:
            near = segments[max(index - 1, 0) : index + 2]
            spread_w = max(part.to_w for part in near) - min(part.to_w for part in near)
            return spread_w * min(edge_s - each.begin_s, each.end_s - edge_s) / math.sqrt(12)
    return 0.0


def _reasons(
    channel: MeterChannel,
    counts: _Counts,
    taken: int,
    window_s: float,
    unmeasured_s: float,
) -> list[str]:
    found: list[str] = []
    if unmeasured_s > UNMEASURED_MOST * window_s:
        found.append(
            f"nothing is known for {unmeasured_s:.1f} of {window_s:.1f} s"
            f"{' (equal values repeat)' if counts.repeats else ''}; at most "
            f"{100 * UNMEASURED_MOST:g} %"
        )
    found += _discarded(counts, taken)
    return found


def _discarded(counts: _Counts, taken: int) -> list[str]:
    """Return why so many readings were discarded, if they were."""
    odd = {
        "negative": counts.negatives,
        "implausible": counts.implausible,
        "at a time that went back": counts.clock_jumps,
    }
    if sum(odd.values()) <= DISCARDED_MOST * taken:
        return []
    what = ", ".join(f"{count} {name}" for name, count in odd.items() if count)
    return [f"of {taken} readings, {what}; at most {100 * DISCARDED_MOST:g} %"]


_OFTEN_S = 15.0
"""Readings that are nearer are taken often."""


def _wraps_unseen(
    channel: MeterChannel, segments: Sequence[_Segment], window: tuple[float, float]
) -> list[str]:
    """Return why the energy of a counter is not certain: it may have begun again at 0 more often
    between two readings than they show.

    The power between them may have been twice the highest that is certain. It is certain between
    readings that are so near that not even the largest possible power wraps the counter, and
    between most readings that are taken every few seconds: no counter is full within its reading.
    """
    if channel.wraps_at_j is None:
        return []
    usual_s = statistics.median(each.length_s for each in segments)
    certain_s = max(channel.wraps_at_j / channel.power_max_w, min(2 * usual_s, _OFTEN_S))
    certain = [each.to_w for each in segments if each.known and each.length_s <= certain_s]
    most_w = min(2 * max(certain), channel.power_max_w) if certain else channel.power_max_w
    # A part at an edge of the window is of a longer time between two readings.
    longest_s = max(
        each.length_s for each in segments if each.known and each.cut(*window) is not None
    )
    if longest_s * most_w <= channel.wraps_at_j:
        return []
    return [
        f"its counter may have wrapped more than once within {longest_s:.0f} s without a reading"
    ]
