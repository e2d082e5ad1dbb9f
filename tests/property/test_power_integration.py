"""Energy from readings: right within 1 % for known loads, and unusable where nothing is known."""

from __future__ import annotations

import bisect
import itertools
import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.meters import MeterChannel, Reading
from headrace.meters.integration import integrate

POWER = MeterChannel("wall", "node", 1.0, 0.0, "exact", resolution_w=0.1)
COUNTER = MeterChannel(
    "package", "socket", 1.0, 0.0, "exact", counter=True, resolution_j=1e-4, power_max_w=2000.0
)


@dataclass(frozen=True)
class Load:
    """Power that is linear between some times, and its integral."""

    times_s: tuple[float, ...]
    powers_w: tuple[float, ...]

    def power_w(self, time_s: float) -> float:
        index = min(max(bisect.bisect(self.times_s, time_s) - 1, 0), len(self.times_s) - 2)
        (a, b), (low, high) = self.times_s[index : index + 2], self.powers_w[index : index + 2]
        return low + (high - low) * (time_s - a) / (b - a)

    def energy_j(self, begin_s: float, end_s: float) -> float:
        points = [begin_s, *(each for each in self.times_s if begin_s < each < end_s), end_s]
        return math.fsum(
            (b - a) * (self.power_w(a) + self.power_w(b)) / 2 for a, b in itertools.pairwise(points)
        )


@st.composite
def loads(draw: st.DrawFn) -> Load:
    """An hour at most; power changes over ten seconds or more, as when jobs start and end."""
    steps = draw(st.lists(st.floats(10, 60), min_size=12, max_size=30))
    times = [0.0]
    for step in steps:
        times.append(times[-1] + step)
    powers = draw(st.lists(st.floats(20, 400), min_size=len(times), max_size=len(times)))
    return Load(tuple(times), tuple(powers))


def readings(
    load: Load, channel: MeterChannel, jitter: list[float], noise: bool = True, start_j: float = 0.0
) -> list[Reading]:
    """What a meter with this channel reads: late by some of the jitter, in whole steps.

    With noise of more than half a step each way, no two readings in turn are equal.
    """
    found: list[Reading] = []
    for number in range(int(load.times_s[-1])):
        time_s = number + jitter[number % len(jitter)]
        if channel.counter:
            energy_j = start_j + load.energy_j(0.0, time_s)
            whole_j = round(energy_j / channel.resolution_j) * channel.resolution_j
            found.append(
                Reading(channel.name, time_s, energy_j=whole_j % (channel.wraps_at_j or 1e12))
            )
        else:
            power_w = load.power_w(time_s) + (0.06 * (-1) ** number if noise else 0.0)
            found.append(Reading(channel.name, time_s, power_w=round(power_w, 1)))
    return found


JITTERS = st.lists(st.floats(0, 0.4), min_size=1, max_size=7)


LEVEL = Load((*(10.0 * each for each in range(14)), 147.0), (*[20.0] * 13, 100.0, 100.0))


@settings(deadline=None, max_examples=50)
@given(load=loads(), jitter=JITTERS, edges=st.tuples(st.floats(0.1, 9), st.floats(0.1, 9)))
@example(load=LEVEL, jitter=[0.0], edges=(1.0, 9.0))
def test_power_is_right_within_a_percent(
    load: Load, jitter: list[float], edges: tuple[float, float]
) -> None:
    begin_s, end_s = 1 + edges[0], load.times_s[-1] - 2 - edges[1]
    made = integrate(POWER, readings(load, POWER, jitter), begin_s, end_s)
    assert made.usable, made.reasons
    assert made.energy_j == pytest.approx(load.energy_j(begin_s, end_s), rel=0.01)
    assert made.gaps == made.negatives == made.clock_jumps == 0


@settings(deadline=None, max_examples=50)
@given(load=loads(), jitter=JITTERS, start_j=st.floats(0, 5000))
def test_a_counter_that_wraps_is_right_within_a_percent(
    load: Load, jitter: list[float], start_j: float
) -> None:
    channel = replace(COUNTER, wraps_at_j=5000.0)
    begin_s, end_s = 3.3, load.times_s[-1] - 4.7
    given_readings = readings(load, channel, jitter, start_j=start_j)
    made = integrate(channel, given_readings, begin_s, end_s)
    assert made.usable, made.reasons
    assert made.energy_j == pytest.approx(load.energy_j(begin_s, end_s), rel=0.01)

    def wraps(begin_s: float, end_s: float) -> float:
        before_j = start_j + load.energy_j(0.0, begin_s)
        return (before_j + load.energy_j(begin_s, end_s)) // 5000 - before_j // 5000

    # Those of the time before and after the jobs are none of theirs.
    assert wraps(begin_s + 3, end_s - 3) <= made.wraps <= wraps(begin_s - 3, end_s + 3)


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(load=loads(), jitter=JITTERS, data=st.data())
def test_what_is_lost_is_counted_and_the_rest_still_right(
    load: Load, jitter: list[float], data: st.DataObject
) -> None:
    """A reading is lost here and there, another negative: the energy stays right."""
    taken = readings(load, POWER, jitter)
    begin_s, end_s = 2.0, load.times_s[-1] - 3
    odd = data.draw(st.integers(5, len(taken) - 8))
    taken[odd] = replace(taken[odd], power_w=-5.0)
    del taken[odd + 3]
    made = integrate(POWER, taken, begin_s, end_s, lost=1)
    assert made.usable, made.reasons
    assert (made.negatives, made.lost) == (1, 1)
    assert made.energy_j == pytest.approx(load.energy_j(begin_s, end_s), rel=0.02)


@settings(deadline=None, max_examples=50)
@given(load=loads(), share=st.floats(0.1, 0.6))
def test_a_long_gap_makes_power_unusable_and_a_counter_not(load: Load, share: float) -> None:
    begin_s, end_s = 2.0, load.times_s[-1] - 3
    gap = (begin_s + 5, begin_s + 5 + share * (end_s - begin_s))

    def without_gap(channel: MeterChannel) -> list[Reading]:
        return [
            each for each in readings(load, channel, [0.1]) if not gap[0] < each.time_s < gap[1]
        ]

    power = integrate(POWER, without_gap(POWER), begin_s, end_s)
    assert not power.usable and power.gaps == 1
    assert "nothing is known for" in power.reasons[0]
    counter = integrate(COUNTER, without_gap(COUNTER), begin_s, end_s)
    assert counter.usable and counter.gaps == 1
    assert counter.energy_j == pytest.approx(load.energy_j(begin_s, end_s), rel=0.01)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(allow_nan=True), max_size=30), st.lists(st.floats(), max_size=30))
def test_whatever_a_meter_says_nothing_raises(times: list[float], values: list[float]) -> None:
    pairs = list(zip(times, values, strict=False))
    power = [Reading("wall", time_s, power_w=value) for time_s, value in pairs]
    counter = [Reading("package", time_s, energy_j=value) for time_s, value in pairs]
    for channel, given_readings in ((POWER, power), (COUNTER, counter)):
        made = integrate(channel, given_readings, 0.0, 10.0)
        assert made.energy_j is None or math.isfinite(made.energy_j)
        assert not made.usable or (made.energy_j or 0) >= 0


def walls(powers: list[float], step_s: float = 1.0) -> list[Reading]:
    return [Reading("wall", step_s * number, power_w=each) for number, each in enumerate(powers)]


def test_a_value_that_repeats_is_not_believed_for_long() -> None:
    moving = [100 + 0.1 * (number % 7) for number in range(101)]
    assert integrate(POWER, walls(moving), 0, 100).usable
    stuck = integrate(POWER, walls([*moving[:40], *[104.2] * 61]), 0, 100)
    assert not stuck.usable and stuck.repeats == 61
    assert "equal values repeat" in stuck.reasons[0]
    # A meter of whole watts can show the same for a while.
    coarse = replace(POWER, resolution_w=1.0)
    assert integrate(coarse, walls([*[101.0] * 40, *[104.0] * 61]), 0, 100).usable
    # One in steps of 10 W shows the same for as long as a machine keeps its load.
    steps = replace(POWER, resolution_w=10.0, power_max_w=1e4)
    assert integrate(steps, walls([520.0] * 301), 0, 300).usable
    assert not integrate(steps, walls([520.0] * 701), 0, 700).usable
    still = [Reading("package", float(second), energy_j=7.0) for second in range(101)]
    assert not integrate(COUNTER, still, 0, 100).usable


def test_a_counter_that_is_refreshed_late_is_right() -> None:
    """Meters that count in steps of a minute stand still between."""
    late = [
        Reading("package", float(second), energy_j=50.0 * (second // 10 * 10))
        for second in range(101)
    ]
    made = integrate(COUNTER, late, 5.0, 95.0)
    assert made.usable and made.energy_j == pytest.approx(50 * 90, rel=0.01)


def test_a_clock_that_goes_back_and_a_counter_that_begins_anew() -> None:
    taken = walls([100 + 0.1 * (number % 7) for number in range(101)])
    back = [*taken[:50], replace(taken[50], time_s=20.0), *taken[51:]]
    made = integrate(POWER, back, 0, 100)
    assert made.usable and made.clock_jumps == 1
    jumped = [*taken[:50], *(replace(each, time_s=each.time_s - 50) for each in taken[50:])]
    assert not integrate(POWER, jumped, 0, 100).usable
    restarted = [
        Reading("package", float(second), energy_j=50.0 * (second if second < 50 else second - 50))
        for second in range(101)
    ]
    made = integrate(COUNTER, restarted, 0, 100)
    assert made.negatives == 1 and made.wraps == 0
    assert made.energy_j == pytest.approx(5000, rel=0.02)


def test_readings_that_cannot_be_are_no_samples_and_the_reason_names_them() -> None:
    """A current clamp the wrong way round says negative power all the time."""
    made = integrate(POWER, walls([-20.0 - number % 3 for number in range(101)]), 0, 100)
    assert (made.samples, made.negatives, made.energy_j) == (0, 101, None)
    assert made.reasons == (
        "0 usable readings while the jobs ran",
        "of 101 readings, 101 negative; at most 5 %",
    )


def test_a_counter_that_may_have_wrapped_twice_is_not_usable() -> None:
    channel = replace(COUNTER, wraps_at_j=1000.0)
    taken = [Reading("package", float(s), energy_j=100.0 * s % 1000) for s in range(101)]
    assert integrate(channel, taken, 0, 100).energy_j == pytest.approx(10_000)
    made = integrate(channel, [*taken[:30], *taken[50:]], 0, 100)
    assert not made.usable and "more than once" in " ".join(made.reasons)


@pytest.mark.parametrize("after", [3, 90])
def test_wraps_in_a_long_gap_do_not_hide_behind_the_low_mean_that_they_make(after: int) -> None:
    """262 kJ are 44 minutes at 100 W: two wraps in 6000 s look like 13 W."""
    channel = replace(COUNTER, wraps_at_j=262_143.0)
    times = [*range(after + 1), *range(6000 + after, 6000 + 2 * after)]
    taken = [Reading("package", float(s), energy_j=100.0 * s % 262_143) for s in times]
    made = integrate(channel, taken, 0, times[-1])
    assert not made.usable and "more than once" in " ".join(made.reasons)
    # Nothing else tells the power of jobs that were there between two readings only.
    assert not integrate(channel, [taken[after], taken[after + 1]], 100, 5900).usable
    # The same gap long before the jobs is not theirs; one that no power can fill is no doubt.
    assert integrate(channel, taken, 6001 + after, times[-1]).usable
    certain = [each for each in taken[: after + 1] if not 1 < each.time_s < after - 1]
    assert integrate(channel, certain, 0, after).usable


def test_wraps_are_those_while_the_jobs_ran() -> None:
    channel = replace(COUNTER, wraps_at_j=1000.0)
    taken = [Reading("package", float(s), energy_j=100.0 * s % 1000) for s in range(101)]
    assert [integrate(channel, taken, *window).wraps for window in ((41, 49), (41, 59))] == [0, 1]


def test_the_uncertainty_has_its_parts() -> None:
    level = [100.0 + 0.2 * (number % 2) for number in range(101)]
    accurate = integrate(POWER, walls(level), 0, 100)
    assert 0 < accurate.uncertainty_j < 10  # type: ignore[operator]
    stated = integrate(replace(POWER, accuracy=0.03), walls(level), 0, 100)
    assert stated.uncertainty_j == pytest.approx(0.03 / math.sqrt(3) * 10_010, rel=0.05)
    coarse = integrate(replace(POWER, resolution_w=10.0), walls(level), 0, 100)
    assert coarse.uncertainty_j == pytest.approx(1000 / math.sqrt(12), rel=0.05)
    # A step of 100 W lies somewhere within the second between two readings.
    step = integrate(POWER, walls([*level[:50], *[each + 100 for each in level[50:]]]), 0, 100)
    assert step.uncertainty_j == pytest.approx(100 / math.sqrt(12), rel=0.15)


def test_the_uncertainty_of_sampling_is_honest() -> None:
    """Steps at any time, read every ten seconds: errors are as large as stated, not larger."""
    import random

    seeded, hits, rounds = random.Random(1), 0, 300
    channel = replace(POWER, interval_s=10.0, resolution_w=0.0)
    for _ in range(rounds):
        steps = sorted(seeded.uniform(10, 490) for _ in range(8))

        def power_w(time_s: float, steps: list[float] = steps) -> float:
            return 100.0 + 100.0 * (bisect.bisect(steps, time_s) % 2) + 1e-3 * math.sin(time_s)

        edges = [0.0, *steps, 500.0]
        true_j = sum(
            (b - a) * (100.0 + 100.0 * (index % 2))
            for index, (a, b) in enumerate(itertools.pairwise(edges))
        )
        taken = [Reading("wall", 10.0 * n, power_w=power_w(10.0 * n)) for n in range(51)]
        made = integrate(channel, taken, 0, 500)
        assert made.energy_j is not None and made.uncertainty_j is not None
        hits += abs(made.energy_j - true_j) <= 2 * made.uncertainty_j
    assert hits / rounds > 0.9
