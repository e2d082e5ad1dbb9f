"""Rotation, tracks and zones of a disk, from the times at which reads of its medium end.

A read of the unit before the last one waits almost a revolution, so reads in descending order end
one revolution less the step apart (Talagala et al., "Microbenchmark-based extraction of local and
global disk characteristics", UCB/CSD-99-1063, 1999). Reads in ascending order end as the medium
passes: the time per sector, and a jump by the skew at the end of each track (Schindler and Ganger,
"Automated disk drive characterization", CMU-CS-99-176, 1999).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from headrace.drives.learning.buffering import Hits
from headrace.drives.learning.device import UNIT, LearntDevice, NotLearntError, Times
from headrace.drives.learning.values import spread, standard_error

STEPS = (1, 2, 3)
"""Steps of the descending reads, in units."""
TURN_S = (0.003, 0.025)
"""A revolution of disks with 20 000 and with 2400 revolutions per minute."""
PIECES = 24
"""Reads per track when tracks are followed."""
SLOWER = 1.3
"""How much longer the medium must take for a piece than controller and link do."""
MOST_SECTORS = 1 << 13
"""Sectors of the longest track that is followed to its end at the edge of the disk."""
RARE = 0.02
"""Least share of the ends of tracks that is a kind of its own."""
STRIDES = (64, 128, 256, 512)
"""Sectors between reads that skip what lies between; a track has more, or is not learnt by them."""
STRIDED = 24
"""Reads of a stride."""
PHASE_PIECES = 8
"""Reads per track, and tracks, when each read takes a revolution."""
PHASE_TRACKS = 12
SAME_TRACKS = 0.3
"""Relative difference that sectors per track by two methods may have: one of them counts the skew
at the end of a track as sectors."""
SAME_ZONE = 0.006
"""Relative difference of the sectors per track that two places of one zone may have."""


@dataclass(frozen=True)
class Rotation:
    """One revolution."""

    turn_s: float
    error_s: float


@dataclass(frozen=True)
class Tracks:
    """Tracks at one place of the disk."""

    sectors_per_track: float
    error: float
    jumps_s: Times
    """What each end of a track adds, in order; empty if the ends were not seen."""


@dataclass(frozen=True)
class Skews:
    """Offsets of tracks and cylinders."""

    heads: int
    heads_seen: bool
    track_s: float
    cylinder_s: float
    error_s: float


@dataclass(frozen=True)
class Zone:
    """Part of the disk with one number of sectors per track."""

    first_sector: int
    sectors_per_track: int
    cylinders: int


def learn_rotation(device: LearntDevice, *, reads: int) -> Rotation:
    """Return the time of a revolution. Raises NotLearntError if descending reads do not wait for
    one."""
    first = int(device.capacity_sectors * device.random.uniform(0.02, 0.3)) // UNIT * UNIT
    steps_s: list[float] = []
    errors_s: list[float] = []
    for step in STEPS:
        first -= step * 100 * UNIT  # below what the reads before have left in the buffer
        timings = device.reads([first - at * step * UNIT for at in range(reads)])
        first -= reads * step * UNIT
        apart_s = np.diff(timings.end_s)
        usual_s = float(np.median(apart_s))
        near_s = apart_s[np.abs(apart_s - usual_s) < max(3 * spread(apart_s), 0.002 * usual_s)]
        if spread(apart_s) > 0.05 * usual_s:
            raise NotLearntError(
                "reads in descending order end at irregular times: no revolution is seen",
                hint="a busy drive or machine, or an array; give the drive to this command alone",
            )
        steps_s.append(float(np.mean(near_s)))
        errors_s.append(max(standard_error(near_s), 1e-7))
    slope, turn_s = np.polyfit(STEPS, steps_s, 1)
    if not TURN_S[0] < turn_s < TURN_S[1] or slope > 0:
        raise NotLearntError(
            f"reads in descending order end {turn_s * 1e3:.3f} ms apart, which is not a revolution",
            hint="an SSD (--kind ssd), an array, or a disk whose cache hides its medium",
        )
    return Rotation(float(turn_s), 2.5 * max(errors_s))


def learn_tracks(
    device: LearntDevice, rotation: Rotation, hits: Hits | None, place: float, tracks: int
) -> Tracks:
    """Follow some tracks at a place (a part of the capacity) by reads in ascending order.

    Without `hits` no read is served by the buffer alone.
    """
    room = device.capacity_sectors - tracks * MOST_SECTORS
    first = max(min(int(device.capacity_sectors * place), room), 0) // UNIT * UNIT
    turn_s = rotation.turn_s
    per_track = _roughly(device, turn_s, hits, first)
    piece = max(round(per_track / PIECES / UNIT), 1) * UNIT
    if hits is not None:
        # The medium must take longer for a piece than the controller and the link.
        left_s = turn_s / per_track - SLOWER * 512 / hits.bytes_per_s
        if left_s <= 0:
            return Tracks(per_track, 0.05 * per_track, np.empty(0))
        least = SLOWER * hits.overhead_s / left_s
        piece = max(piece, -(-int(least) // UNIT) * UNIT)
    count = min(int(tracks * per_track / piece), (device.capacity_sectors - first) // piece)
    apart_s = np.diff(device.reads([first + at * piece for at in range(count)], piece).end_s)
    found = _followed(_of_medium(apart_s, hits, piece), piece, turn_s)
    return found or Tracks(per_track, 0.05 * per_track, np.empty(0))


def learn_all_tracks(
    device: LearntDevice, rotation: Rotation, hits: Hits | None, places: list[float], tracks: int
) -> list[Tracks]:
    """Follow tracks at several places. A disk that reads ahead too little, or not at all, misses
    the next piece of a stream by a revolution; then the angles of single reads are used."""
    seen = False
    for place in (0.1, 0.5, 0.9):
        found = learn_tracks(device, rotation, hits, place, PHASE_TRACKS)
        roughly = _by_stride(device, rotation.turn_s, hits, place)
        if roughly is not None and abs(found.sectors_per_track / roughly[1] - 1) > SAME_TRACKS:
            return [_by_phase(device, rotation, hits, each) for each in places]
        seen = seen or len(found.jumps_s) > 0
    # A disk that reads ahead to the end of a track only misses the next one by a revolution.
    if not seen and len(_by_phase(device, rotation, hits, 0.5).jumps_s):
        return [_by_phase(device, rotation, hits, each) for each in places]
    return [learn_tracks(device, rotation, hits, each, tracks) for each in places]


def _by_stride(
    device: LearntDevice, turn_s: float, hits: Hits | None, place: float
) -> tuple[int, float] | None:
    """Return a stride whose reads come from the medium, and the sectors per track by the angles
    between their ends; None if the buffer has them for each stride."""
    room = device.capacity_sectors - STRIDED * sum(STRIDES)
    first = max(min(int(device.capacity_sectors * place), room), 0) // UNIT * UNIT
    for stride in STRIDES:
        ends_s = device.reads([first + at * stride for at in range(STRIDED)]).end_s
        apart_s = np.diff(ends_s)
        if np.mean(_from_medium(apart_s, hits)) > 0.8:
            angle_s = float(np.median(apart_s % turn_s))
            return stride, stride * turn_s / max(angle_s, 1e-6)
        first += STRIDED * stride
    return None


def _from_medium(apart_s: Times, hits: Hits | None) -> npt.NDArray[np.bool_]:
    """Return which reads of a unit took longer than one that the buffer has."""
    if hits is None:
        return np.ones(len(apart_s), dtype=bool)
    return apart_s > 1.12 * (hits.overhead_s + UNIT * 512 / hits.bytes_per_s)


def _by_phase(device: LearntDevice, rotation: Rotation, hits: Hits | None, place: float) -> Tracks:
    """Follow tracks by the angles at which reads of units end, some to a track."""
    turn_s = rotation.turn_s
    found = _by_stride(device, turn_s, hits, place)
    if found is None:  # here the buffer has what comes next
        return learn_tracks(device, rotation, hits, place, PHASE_TRACKS)
    stride, roughly = found
    piece = max(round(roughly / PHASE_PIECES / UNIT) * UNIT, stride)
    room = device.capacity_sectors - PHASE_TRACKS * MOST_SECTORS
    first = max(min(int(device.capacity_sectors * place), room), 0) // UNIT * UNIT
    count = min(PHASE_TRACKS * PHASE_PIECES, (device.capacity_sectors - first) // piece)
    apart_s = np.diff(device.reads([first + at * piece for at in range(count)]).end_s) % turn_s
    return _followed(apart_s, piece, turn_s) or Tracks(roughly, 0.05 * roughly, np.empty(0))


def _of_medium(apart_s: Times, hits: Hits | None, piece: int) -> Times:
    """Return the times from the first one on that the medium takes, not the buffer."""
    if hits is None:
        return apart_s[2:]
    slow = np.flatnonzero(apart_s > 1.12 * (hits.overhead_s + piece * 512 / hits.bytes_per_s))
    return apart_s[int(slow[0]) + 2 :] if len(slow) else apart_s[:0]


def _roughly(device: LearntDevice, turn_s: float, hits: Hits | None, first: int) -> float:
    """Return the sectors per revolution of a stream of large reads."""
    large = 256
    apart_s = np.diff(device.reads([first + at * large for at in range(40)], large).end_s)
    medium_s = _of_medium(apart_s, hits, large)
    return max(large * turn_s / float(np.median(medium_s if len(medium_s) else apart_s)), UNIT)


def _followed(apart_s: Times, piece: int, turn_s: float) -> Tracks | None:
    """Return tracks from the times between ends of consecutive reads; None if they are not those
    of a medium."""
    if len(apart_s) < 2 * PIECES:
        return None
    base_s = float(np.quantile(apart_s, 0.3))
    per_track = piece * turn_s / base_s
    if piece < 0.2 * per_track:
        base_s = float(np.median(apart_s))
    elif piece > 0.6 * per_track:
        return Tracks(per_track, 0.02 * per_track, np.empty(0))
    # A completion may be late, never early, and a late one delays no other: the least of the next
    # few is where the medium is.
    behind_s = np.cumsum(apart_s) - base_s * np.arange(1, len(apart_s) + 1)
    behind_s = np.min([behind_s[at : len(behind_s) + at - 2] for at in range(3)], axis=0)
    steps_s = np.diff(behind_s)
    limit_s = max(6 * spread(steps_s), 0.1 * base_s, 20e-6)
    high = steps_s > limit_s
    near_s = steps_s[np.abs(steps_s) <= limit_s]
    base_s += float(np.mean(near_s))
    # Two steps in a row are one jump that a late read has divided.
    starts = np.flatnonzero(high & ~np.concatenate([[False], high[:-1]]))
    jumps_s = np.asarray([steps_s[at] + max(steps_s[at + 1 : at + 2].sum(), 0.0) for at in starts])
    jumps_s = jumps_s[jumps_s < 0.5 * turn_s]
    per_track = piece * turn_s / base_s
    expected = len(apart_s) * piece / per_track
    seen = 0.7 * expected < len(jumps_s) < 1.35 * expected
    error = per_track * standard_error(near_s) / base_s
    return Tracks(per_track, error, jumps_s if seen else np.empty(0))


def skews_of(places: list[Tracks]) -> Skews | None:
    """Return skews and heads from tracks at several places; None if no ends of tracks were seen."""
    seen = [each.jumps_s for each in places if len(each.jumps_s) >= 4]
    if not seen:
        return None
    every_s = np.sort(np.concatenate(seen))
    clusters = np.split(every_s, np.flatnonzero(np.diff(every_s) > 0.06 * every_s[:-1]) + 1)
    clusters = sorted((each for each in clusters if len(each) >= RARE * len(every_s)), key=len)
    if len(clusters) == 0:
        return None
    usual_s = clusters[-1]
    track_s = float(np.median(usual_s))
    alike = Skews(1, False, track_s, track_s, standard_error(usual_s))
    if len(clusters) == 1:
        return alike
    rare_s = clusters[-2]
    between: list[int] = []
    for jumps_s in seen:
        rare = np.flatnonzero((jumps_s >= rare_s[0]) & (jumps_s <= rare_s[-1]))
        between += [int(each) for each in np.diff(rare)]
    heads = max(set(between), key=between.count) if between else 0
    # Late reads look like jumps, too, but not in regular intervals.
    if not between or between.count(heads) < 0.5 * len(between):
        return alike
    return Skews(heads, True, track_s, float(np.median(rare_s)), standard_error(rare_s))


def cleaned(per_track: list[float]) -> list[float]:
    """Return sectors per track, from the outer edge inwards, without values that were measured
    wrongly: those whose neighbours both have fewer or more, and edges that break the order. No
    track has fewer sectors than one further in."""
    if len(per_track) < 2:
        return per_track
    tracks = [max(per_track[:2]), *per_track[1:-1], min(per_track[-2:])]
    inside = [float(np.median(tracks[at - 1 : at + 2])) for at in range(1, len(tracks) - 1)]
    return [tracks[0], *inside, tracks[-1]]


def zones_of(
    capacity_sectors: int, places: list[float], per_track: list[float], heads: int
) -> list[Zone]:
    """Return the zones: neighbouring places with the same number of sectors per track, which end
    half way to the next."""
    groups: list[list[int]] = []
    for index, sectors in enumerate(per_track):
        group = groups[-1] if groups else []
        held = float(np.mean([per_track[each] for each in group])) if group else 0.0
        if group and abs(sectors / held - 1) < SAME_ZONE:
            group.append(index)
        else:
            groups.append([index])
    zones: list[Zone] = []
    for number, group in enumerate(groups):
        first = 0 if number == 0 else zones[-1].first_sector + _size(zones[-1], heads)
        last = number + 1 == len(groups)
        middle = 1.0 if last else (places[group[-1]] + places[groups[number + 1][0]]) / 2
        sectors = round(float(np.mean([per_track[each] for each in group])))
        wanted = max(int(capacity_sectors * middle) - first, 1)
        cylinders = max(-(-wanted // (sectors * heads)), 1)
        zones.append(Zone(first, sectors, cylinders))
    # The unit rounding of the capacity must fit, too.
    return [*zones[:-1], replace(zones[-1], cylinders=zones[-1].cylinders + 1)]


def _size(zone: Zone, heads: int) -> int:
    return zone.cylinders * heads * zone.sectors_per_track
