"""The read buffer of a disk: link, read-ahead, segments; from reads that the buffer serves or not.

A read that the buffer serves needs no medium, so it takes a small part of a revolution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from headrace.drives.learning.device import UNIT, LearntDevice, Times
from headrace.drives.learning.values import standard_error

HIT_SECTORS = (8, 32, 64, 128, 256)
LONGEST_READ_AHEAD = 1 << 16
"""Sectors up to which read-ahead is looked for."""
MOST_SEGMENTS = 256
_LITTLE_AHEAD, _LONG_PIECE = 32, 1024
"""Sectors of read-ahead that are little, and of pieces then."""
_ASKED_MOST = 8
_YESES, _NOES = 2, 3
_HIT_TRIES = 3
"""Times that a buffer is looked for before there is said to be none."""
_STREAM, _AHEAD_TURNS = 3, 3
"""Reads in order before a pause, and revolutions of the pause, in which the disk reads ahead."""


@dataclass(frozen=True)
class Hits:
    """Reads that the buffer serves."""

    overhead_s: float
    overhead_error_s: float
    bytes_per_s: float
    rate_error: float
    keeps_sent: bool = True
    """Whether data stay in the buffer after they were sent. Otherwise only what was read ahead is
    there."""


@dataclass(frozen=True)
class ReadAheads:
    """How far the disk reads ahead, in sectors, by the rule that was found."""

    rule: str
    sectors: int
    spread: int


def learn_hits(device: LearntDevice, turn_s: float, *, repeats: int) -> Hits | None:
    """Read places twice, in several sizes; if the second read is no faster, time and again, read
    what follows a place after a pause. None if that is no faster, either. A busy machine delays
    reads from the buffer, but none from the medium is so quick."""

    def again(sectors: int) -> Times:
        first = [place for place in device.random_sectors(repeats, 512) for _ in range(2)]
        return device.reads(first, sectors).response_s[1::2]

    def ahead(sectors: int) -> Times:
        places = device.random_sectors(repeats, 512)
        # Some disks read ahead only of reads in order.
        stream = [place + at * UNIT for place in places for at in range(_STREAM + 1)]
        sizes = [*([UNIT] * _STREAM), sectors] * repeats
        pauses_s = (_AHEAD_TURNS + device.random.random(repeats)) * turn_s
        waits_s = [each for pause_s in pauses_s for each in (*([0.0] * _STREAM), float(pause_s))]
        return device.reads(stream, sizes, wait_s=waits_s).response_s[_STREAM :: _STREAM + 1]

    for responses, keeps_sent in ((again, True), (ahead, False)):
        for _ in range(_HIT_TRIES):
            found = _hits(responses, turn_s, repeats)
            if found is not None:
                return replace(found, keeps_sent=keeps_sent)
    return None


def _hits(responses: Callable[[int], Times], turn_s: float, repeats: int) -> Hits | None:
    """Return what the times of reads from the buffer by size tell; None if they were not."""
    sizes: list[float] = []
    times_s: list[float] = []
    errors_s: list[float] = []
    for sectors in HIT_SECTORS:
        hit_s = responses(sectors)
        hit_s = hit_s[hit_s < 0.5 * turn_s]
        if len(hit_s) > repeats / 2:
            middle_s = float(np.median(hit_s))
            near_s = hit_s[np.abs(hit_s - middle_s) < 0.1 * middle_s + 20e-6]
            sizes.append(sectors * 512.0)
            times_s.append(middle_s)
            errors_s.append(max(standard_error(near_s), 1e-7))
    if len(sizes) < 2:
        return None
    weights = 1 / np.asarray(errors_s)
    (slope, base_s), covariance = np.polyfit(sizes, times_s, 1, w=weights, cov="unscaled")
    if slope <= 0:
        return None
    rate_error = float(np.sqrt(covariance[0][0])) / float(slope)
    error_s = float(np.sqrt(covariance[1][1]))
    return Hits(max(float(base_s), 1e-6), error_s, 1 / float(slope), rate_error)


def last_true(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return the greatest number for which it holds, by bisection; it holds for `low`, and is not
    asked for `high`."""
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


def _is_hit(response_s: float, hits: Hits, turn_s: float) -> bool:
    return response_s < hits.overhead_s + 0.04 * turn_s


def _sure(held: Callable[[int], bool]) -> Callable[[int], bool]:
    """Ask until there are two yeses, or three noes. A busy machine delays a read from the buffer,
    and a few reads of the medium meet their sector at once: neither may decide alone."""

    def answer(number: int) -> bool:
        yeses = noes = 0
        while yeses < _YESES and noes < _NOES:
            if held(number):
                yeses += 1
            else:
                noes += 1
        return yeses == _YESES

    return answer


def _asked_often(held: Callable[[int], bool]) -> Callable[[int], bool]:
    """Ask again after a no, and the more often the fewer reads it takes: a false no to a small
    number would end the search there."""
    return lambda number: any(held(number) for _ in range(max(2, min(_ASKED_MOST, 64 // number))))


def learn_read_ahead(
    device: LearntDevice,
    turn_s: float,
    hits: Hits,
    per_track: float,
    heads: int,
    *,
    places: int,
) -> ReadAheads:
    """Return how far the disk reads ahead of a read while it is idle."""
    for rule, before in (("always", 1), ("sequential", 3)):
        found = [_reach(device, turn_s, hits, per_track, before) for _ in range(places)]
        longest = max(found)
        if longest == 0:
            continue
        if min(found) > 0.8 * longest:  # skews that it passes take a part of its time
            return ReadAheads(rule, longest, longest - min(found))
        rule = "track" if longest <= 1.02 * per_track else "cylinder"
        if longest <= 1.02 * heads * per_track:
            return ReadAheads(rule, longest, longest - min(found))
        return ReadAheads("always", int(np.median(found)), longest - min(found))
    return ReadAheads("always", 0, 0)


def _reach(device: LearntDevice, turn_s: float, hits: Hits, per_track: float, before: int) -> int:
    """Return how many sectors beyond a read are in the buffer after a pause, to a unit."""
    base = int(device.random_sectors(1, 4 * LONGEST_READ_AHEAD)[0])
    stride = 2 * LONGEST_READ_AHEAD

    @_sure
    def held(units: int) -> bool:
        nonlocal base
        ahead = units * UNIT
        base = (base + stride) % (device.capacity_sectors - 2 * stride) // UNIT * UNIT
        # At any angle of the platter: at one and the same, a read of the medium would be quick
        # whenever it is asked again.
        pause_s = (2 + device.random.random() + 1.3 * ahead / per_track) * turn_s
        stream = [base + at * UNIT for at in range(before)]
        sectors = [*device.random_sectors(1), *stream, stream[-1] + ahead]
        waits_s = [*([0.0] * (before + 1)), pause_s]
        timings = device.reads(sectors, wait_s=waits_s)
        return _is_hit(float(timings.response_s[-1]), hits, turn_s)

    top = 1
    while top * UNIT < LONGEST_READ_AHEAD and held(top):
        top *= 2
    return last_true(top // 2, top, held) * UNIT if top > 1 else 0


def learn_segments(device: LearntDevice, turn_s: float, hits: Hits) -> int:
    """Return how many separate reads the buffer holds; `MOST_SEGMENTS` stands for more."""

    @_asked_often
    def held(count: int) -> bool:
        places = device.random_sectors(count, 4096)
        if hits.keeps_sent:
            timings = device.reads([*places, places[0]])
        else:
            stream = [place + at * UNIT for place in places for at in range(_STREAM)]
            # The first place has time to be read ahead before the next one is sought.
            waits_s = [0.0] * _STREAM + [turn_s, *([0.0] * (len(stream) - _STREAM))]
            timings = device.reads([*stream, places[0] + _STREAM * UNIT], wait_s=waits_s)
        return _is_hit(float(timings.response_s[-1]), hits, turn_s)

    top = 2
    while top < MOST_SEGMENTS and held(top):
        top *= 2
    return min(last_true(max(top // 2, 1), top, held), MOST_SEGMENTS)


def segment_piece(ahead: int) -> int:
    """Return the sectors of the reads in order that fill a segment.

    A disk that hardly reads ahead misses each of them by a revolution: a few long ones, or the
    search takes minutes.
    """
    if ahead <= _LITTLE_AHEAD:
        return _LONG_PIECE
    return min(max(ahead // 16 // UNIT, 1) * UNIT, 256)


def learn_segment_sectors(
    device: LearntDevice, turn_s: float, hits: Hits, ahead: int, per_track: float
) -> int | None:
    """Return the sectors of one segment: how much is kept of a long read in order. None if more
    than twice the longest read-ahead is kept."""
    piece = segment_piece(ahead)

    @_sure
    def held(pieces: int) -> bool:
        base = int(device.random_sectors(1, 4 * LONGEST_READ_AHEAD)[0])
        stream = [base + at * piece for at in range(pieces)]
        pause_s = (2 + device.random.random() + 1.3 * ahead / per_track) * turn_s
        waits_s = [*([0.0] * pieces), pause_s]
        timings = device.reads([*stream, base], [*([piece] * pieces), UNIT], wait_s=waits_s)
        return _is_hit(float(timings.response_s[-1]), hits, turn_s)

    top = 1
    while top * piece < 2 * LONGEST_READ_AHEAD and held(top):
        top *= 2
    if top * piece >= 2 * LONGEST_READ_AHEAD:
        return None
    return (last_true(top // 2, top, held) if top > 1 else 0) * piece + ahead
