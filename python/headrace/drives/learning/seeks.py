"""Overhead and seek curve of a disk, from pairs of reads.

The rotational delay of a read after another one is as likely to be any part of a revolution. So
the response times of many pairs at one distance lie between what seek and overhead take, and a
revolution more.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np
import numpy.typing as npt

from headrace.drives.learning.device import UNIT, LearntDevice
from headrace.drives.learning.rotation import Rotation, Zone
from headrace.scenario import Table

LATE = 0.04
"""Share of the pairs that may be late for another reason."""
FIRST_PAIRS = 4
"""Pairs of each distance, however short the time; then one more of each, until it is over."""


@dataclass(frozen=True)
class Cylinders:
    """Which cylinder holds a sector."""

    zones: tuple[Zone, ...]
    heads: int

    @property
    def count(self) -> int:
        """Return the cylinders of all zones."""
        return sum(zone.cylinders for zone in self.zones)

    def first_sector(self, cylinder: int) -> tuple[int, int]:
        """Return the first sector of a cylinder, and how many sectors it has."""
        for zone in self.zones:
            size = zone.sectors_per_track * self.heads
            if cylinder < zone.cylinders:
                return zone.first_sector + cylinder * size, size
            cylinder -= zone.cylinders
        raise ValueError(f"no cylinder {cylinder}")


@dataclass(frozen=True)
class SeekPoint:
    """Least time of a read at one distance."""

    distance: int
    time_s: float
    error_s: float


def learn_overhead(
    device: LearntDevice, rotation: Rotation, *, per_track: int, segments: int, rounds: int
) -> tuple[float, float]:
    """Return the least time of a read that must wait for the medium, and its uncertainty.

    The unit before the last one comes by a revolution less a unit after the last one. A pause uses
    up that time; with a pause too long the read needs one revolution more. The longest pause that
    does not is found by bisection. It is tried at the end of the disk, where read-ahead cannot move
    the head to another track meanwhile.
    """
    # The last track may be short, so few places are used, and again when the buffer has lost them.
    places = 3 if segments <= 32 else max(per_track // 3 // (2 * UNIT), 3)
    low_s, high_s = 0.0, rotation.turn_s
    apart_s = rotation.turn_s
    tried = 0
    for _ in range(rounds):
        pause_s = (low_s + high_s) / 2
        taken_s: list[float] = []
        for _ in range(3):
            last = device.capacity_sectors - UNIT - tried % places * 2 * UNIT
            others = device.random_sectors(1 if tried < places else min(segments, 256) + 2)
            waits_s = [0.0] * (len(others) + 1)
            timings = device.reads([*others, last, last - UNIT], wait_s=[*waits_s, pause_s])
            taken_s.append(float(timings.end_s[-1] - timings.end_s[-2]))
            tried += 1
        if min(taken_s) > 1.5 * rotation.turn_s:
            high_s = pause_s
        else:
            low_s, apart_s = pause_s, min(taken_s)
    return apart_s - (low_s + high_s) / 2, (high_s - low_s) / 2


def distances(cylinders: int, points: int) -> list[int]:
    """Return distances in cylinders: every short one, then rising by a constant factor."""
    longest = max(int(cylinders * 0.96), 1)
    return sorted({round(each) for each in np.geomspace(1, longest, points)})


def learn_seeks(
    device: LearntDevice,
    rotation: Rotation,
    cylinders: Cylinders,
    wanted: list[int],
    *,
    limit_s: float,
    write: bool = False,
) -> list[SeekPoint]:
    """Return the least response time by distance, from as many pairs as the time allows.

    `write`: of writes that are done when they are on the medium.
    """
    found: dict[int, list[float]] = {distance: [] for distance in wanted}
    until_s = device.elapsed_s + limit_s
    count = FIRST_PAIRS
    while count == FIRST_PAIRS or device.elapsed_s < until_s:
        for distance in wanted:
            pair = [_pair(device, cylinders, distance) for _ in range(count)]
            sectors = [sector for both in pair for sector in both]
            if write:
                low, high = device.writable_region
                inside = [min(max(each, low), high - UNIT) for each in sectors]
                timings = device.writes(inside, through=True)
            else:
                timings = device.reads(sectors)
            found[distance] += [float(each) for each in timings.response_s[1::2]]
        count = 1
    return [_point(distance, np.asarray(times_s), rotation) for distance, times_s in found.items()]


def _pair(device: LearntDevice, cylinders: Cylinders, distance: int) -> tuple[int, int]:
    """Return two places that many cylinders apart. The second one is nearer to the front, where no
    read-ahead of the first one has it."""
    low = int(device.random.integers(0, cylinders.count - 1 - distance))
    places: list[int] = []
    for cylinder in (low + distance, low):
        first, size = cylinders.first_sector(cylinder)
        sector = first + int(device.random.integers(0, size // UNIT)) * UNIT
        places.append(min(sector // UNIT * UNIT, device.capacity_sectors - UNIT))
    return places[0], places[1]


def _point(distance: int, times_s: npt.NDArray[np.float64], rotation: Rotation) -> SeekPoint:
    """Return the time below which no delay is: the least and the greatest time both tell it, since
    they are a revolution apart but for the finite number of pairs."""
    ordered_s = np.sort(times_s)
    turn_s = rotation.turn_s
    # A few pairs are late for another reason, or were read ahead: both lie outside of a revolution.
    kept_s = ordered_s[int(len(ordered_s) * LATE / 4) :]
    kept_s = kept_s[kept_s <= kept_s[0] + 1.01 * turn_s]
    time_s = (float(kept_s[0]) + float(kept_s[-1]) - turn_s) / 2
    count = len(kept_s)
    return SeekPoint(distance, time_s, turn_s / (count + 1) * 0.71)


def two_pieces(
    points: list[SeekPoint], overhead_s: float
) -> tuple[dict[str, object], float] | None:
    """Return the curve of Ruemmler and Wilkes (a square root, then a line) through seek times, and
    its root mean square error in seconds; None if there are too few points."""
    distance = np.asarray([each.distance for each in points], np.float64)
    time_s = np.asarray([each.time_s for each in points]) - overhead_s
    weight = 1 / np.asarray([each.error_s for each in points])
    best: tuple[float, npt.NDArray[np.float64], float] | None = None
    for split in range(4, len(points) - 2):
        short = np.arange(len(points)) < split
        boundary = (distance[split - 1] + distance[split]) / 2
        # One curve: the line begins where the square root ends.
        columns = np.stack(
            [
                np.ones(len(points)),
                np.sqrt(np.minimum(distance, boundary)),
                np.where(short, 0.0, distance - boundary),
            ],
            axis=1,
        )
        found, *_ = np.linalg.lstsq(columns * weight[:, None], time_s * weight, rcond=None)
        left = (columns @ found - time_s) * weight
        if found[1] >= 0 and found[2] >= 0 and (best is None or left @ left < best[0]):
            best = (float(left @ left), np.asarray(found, np.float64), float(boundary))
    if best is None:
        return None
    _, (base_s, root_s, slope_s), boundary = best
    if base_s + root_s <= 0:
        return None
    line_s = base_s + root_s * np.sqrt(boundary) - slope_s * boundary
    fitted_s = np.where(
        distance < boundary, base_s + root_s * np.sqrt(distance), line_s + slope_s * distance
    )
    curve: dict[str, object] = {
        "curve": "two_piece",
        "short_base_ms": max(float(base_s), 0.0) * 1e3,
        "short_root_ms": float(root_s) * 1e3,
        "boundary_cylinders": round(boundary),
        "long_base_ms": float(line_s) * 1e3,
        "long_slope_ms": float(slope_s) * 1e3,
    }
    return curve, float(np.sqrt(np.mean((fitted_s - time_s) ** 2)))


def table_curve(points: list[SeekPoint], overhead_s: float) -> dict[str, object]:
    """Return seek times as a table that never falls."""
    times_ms = [max((each.time_s - overhead_s) * 1e3, 0.001) for each in points]
    rising = list(np.maximum.accumulate(times_ms))
    assert all(low <= high for low, high in pairwise(rising))
    return {
        "curve": "table",
        "distance_cylinders": [each.distance for each in points],
        "time_ms": [float(each) for each in rising],
    }


def seek_ms(curve: Table, distance: int) -> float:
    """Return the time of a seek on a curve that was learnt."""
    if curve["curve"] == "table":
        distances = cast("list[int]", curve["distance_cylinders"])
        return float(np.interp(distance, distances, cast("list[float]", curve["time_ms"])))
    value = {name: float(cast("float", each)) for name, each in curve.items() if name != "curve"}
    if distance < value["boundary_cylinders"]:
        return value["short_base_ms"] + value["short_root_ms"] * distance**0.5
    return value["long_base_ms"] + value["long_slope_ms"] * distance
