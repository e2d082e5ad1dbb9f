"""The script of a disk: each part measures what the parts after it need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from headrace.drives.learning.buffering import (
    LONGEST_READ_AHEAD,
    MOST_SEGMENTS,
    Hits,
    learn_hits,
    learn_read_ahead,
    learn_segment_sectors,
    learn_segments,
    segment_piece,
)
from headrace.drives.learning.device import UNIT, LearntDevice, Say
from headrace.drives.learning.disk_writes import learn_disk_writes
from headrace.drives.learning.loads import (
    LoadResult,
    ScriptLoad,
    check_of,
    modelled_loads,
    run_load,
)
from headrace.drives.learning.queueing import MODEL_REQUESTS, learn_reordering, with_queue
from headrace.drives.learning.rotation import (
    Rotation,
    Skews,
    cleaned,
    learn_all_tracks,
    learn_rotation,
    skews_of,
    zones_of,
)
from headrace.drives.learning.seeks import (
    Cylinders,
    SeekPoint,
    distances,
    learn_overhead,
    learn_seeks,
    table_curve,
    two_pieces,
)
from headrace.drives.learning.values import ROUNDING, LearntDrive, Unknown
from headrace.scenario import Table
from headrace.units import format_share

WRITES_UNKNOWN = (
    ("write_settle_ms", "nothing was written: writes seek like reads"),
    ("buffer.write_cache_bytes", "nothing was written: the default of the model holds"),
    ("destage rate", "nothing was written"),
)
DEPTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Of random reads. The model chooses among whole numbers of commands, so that depths close to each
other tell shares apart that are as fast at others."""


@dataclass(frozen=True)
class ScriptShares:
    """Parts of the time that the parts of the script have."""

    seeks: float = 0.4
    queue: float = 0.34
    writes: float = 0.4
    """Of the whole time, when writes are allowed; reads have the rest."""
    least: float = 0.35
    """Of what those three have, when parts whose reads are a fixed number took their time."""


def learn_disk(device: LearntDevice, *, seconds: float, say: Say) -> LearntDrive:
    """Learn a disk by reads, and by writes if the device may be written. Raises NotLearntError if
    it does not answer as a disk."""
    write_s = seconds * ScriptShares.writes if device.writable else 0.0
    read_s = seconds - write_s
    learnt = LearntDrive()
    begun_s = device.elapsed_s
    table = learnt.table
    table |= {"kind": "hdd", "name": "learnt", "capacity_bytes": device.capacity_bytes}
    say("rotation")
    rotation = learn_rotation(device, reads=60)
    rpm = 60 / rotation.turn_s
    table["rotation_rpm"] = rpm
    learnt.add(
        "rotation_rpm",
        rpm,
        "rpm",
        "descending reads",
        rpm * rotation.error_s / rotation.turn_s,
    )
    learnt.end_part("rotation", device.take_others("rotation"))
    say("tracks and zones")
    hits = learn_hits(device, rotation.turn_s, repeats=25)
    places = int(min(max(read_s / 5, 8), 48))
    cylinders = _geometry(device, rotation, hits, learnt, places=places)
    learnt.end_part("tracks and zones", device.take_others("tracks and zones"))
    say("overheads and buffer")
    _buffer(device, rotation, hits, cylinders, learnt)
    least_s = _overheads(device, rotation, hits, learnt, cylinders)
    learnt.end_part("overheads and buffer", device.take_others("overheads and buffer"))
    seek_s, queue_s = read_s * ScriptShares.seeks, read_s * ScriptShares.queue
    # The parts before took what they need: the others share what they left.
    left_s = seconds - (device.elapsed_s - begun_s)
    part = min(max(left_s / (seek_s + queue_s + write_s), ScriptShares.least), 1.0)
    say("seek curve")
    points = _seeks(device, rotation, cylinders, learnt, least_s, part * seek_s)
    _possible(table)
    learnt.end_part("seek curve", device.take_others("seek curve"))
    _queue(device, learnt, part * queue_s, say)
    learnt.end_part("queue", device.take_others("queue"))
    if device.writable:
        write_s *= part
        learn_disk_writes(device, learnt, rotation, cylinders, points, seconds=write_s, say=say)
        return learnt
    for name, why in WRITES_UNKNOWN:
        learnt.unknown.append(Unknown(name, why))
    return learnt


def _geometry(
    device: LearntDevice, rotation: Rotation, hits: Hits | None, learnt: LearntDrive, *, places: int
) -> Cylinders:
    """Learn tracks, zones and skews."""
    at = [float(each) for each in (np.arange(places) + 0.5) / places]
    found = learn_all_tracks(device, rotation, hits, at, tracks=30)
    skews = skews_of(found)
    if skews is None or not skews.heads_seen:
        why = "the ends of tracks were not seen" if skews is None else "all skews are alike"
        learnt.unknown.append(Unknown("heads", f"{why}: cylinders of one track are assumed"))
    if skews is None:
        skews = Skews(1, False, 0.0, 0.0, 0.0)
    per_track = cleaned([each.sectors_per_track for each in found])
    zones = zones_of(device.capacity_sectors, at, per_track, skews.heads)
    table = learnt.table
    table["heads"] = skews.heads
    table["zone"] = [
        {"cylinders": zone.cylinders, "sectors_per_track": zone.sectors_per_track} for zone in zones
    ]
    table["track_skew_ms"] = skews.track_s * 1e3
    table["cylinder_skew_ms"] = skews.cylinder_s * 1e3
    how = "ascending reads"
    if skews.heads_seen:
        learnt.add("heads", skews.heads, "", how)
    for name, value_s in (("track_skew_ms", skews.track_s), ("cylinder_skew_ms", skews.cylinder_s)):
        learnt.add(name, value_s * 1e3, "ms", how, skews.error_s * 1e3)
    learnt.add("zones", len(zones), "", how)
    # Of a cylinder's tracks one is followed by the skew of a cylinder.
    skew_s = skews.track_s + (skews.cylinder_s - skews.track_s) / skews.heads
    for name, index in (("outer", 0), ("inner", -1)):
        rate = per_track[index] * 512 / (rotation.turn_s + skew_s)
        error = found[index].error / found[index].sectors_per_track
        where = f"{how} at {format_share(at[index])} of it"
        learnt.add(f"rate at the {name} edge", rate / 1e6, "MB/s", where, rate / 1e6 * error)
    return Cylinders(tuple(zones), skews.heads)


def _buffer(
    device: LearntDevice,
    rotation: Rotation,
    hits: Hits | None,
    cylinders: Cylinders,
    learnt: LearntDrive,
) -> None:
    """Learn link, read-ahead and segments."""
    if hits is None:
        learnt.table["link_bytes_per_s"] = 600e6
        learnt.table["buffer"] = {"read_ahead_bytes": 0}
        why = "a place read twice is read from the medium twice"
        learnt.unknown.append(Unknown("link_bytes_per_s, buffer", why))
        return
    learnt.table["link_bytes_per_s"] = hits.bytes_per_s
    learnt.add(
        "link_bytes_per_s",
        hits.bytes_per_s / 1e6,
        "MB/s",
        "repeated reads",
        hits.rate_error * hits.bytes_per_s / 1e6,
    )
    turn_s = rotation.turn_s
    zone = cylinders.zones[len(cylinders.zones) // 2]
    per_track = zone.sectors_per_track
    ahead = learn_read_ahead(device, turn_s, hits, per_track, cylinders.heads, places=5)
    how = "reads after pauses"
    learnt.add("buffer.read_ahead_bytes", ahead.sectors * 512, "B", how, ahead.spread * 512)
    if ahead.sectors >= LONGEST_READ_AHEAD:
        learnt.unknown.append(
            Unknown("buffer.read_ahead_bytes", "at least as long as the longest that is tried")
        )
    segments = learn_segments(device, turn_s, hits)
    learnt.add("buffer.segments", segments, "", "repeated reads")
    if segments >= MOST_SEGMENTS:
        learnt.unknown.append(Unknown("buffer.segments", f"{MOST_SEGMENTS} or more"))
    held: int | None = ahead.sectors
    if hits.keeps_sent:
        held = learn_segment_sectors(device, turn_s, hits, ahead.sectors, per_track)
    else:
        why = "data are dropped once they were sent; what is read ahead is assumed"
        learnt.unknown.append(Unknown("buffer.segment_bytes", why))
    if held is None:
        learnt.unknown.append(
            Unknown("buffer.segment_bytes", "more than what is tried; twice that is assumed")
        )
        held = 2 * LONGEST_READ_AHEAD
    elif hits.keeps_sent:
        error = 2.0 * max(segment_piece(ahead.sectors), ahead.spread) * 512
        learnt.add("buffer.segment_bytes", held * 512, "B", "repeated reads", error)
    held = max(held, ahead.sectors, UNIT)
    learnt.table["buffer"] = {
        "segments": segments,
        "segment_bytes": held * 512,
        "read_ahead_bytes": ahead.sectors * 512,
        "read_ahead": ahead.rule,
        "keep_sent": hits.keeps_sent,
    }


def _overheads(
    device: LearntDevice,
    rotation: Rotation,
    hits: Hits | None,
    learnt: LearntDrive,
    cylinders: Cylinders,
) -> float:
    """Learn the controller's times; return the least time of a read of the medium."""
    zone = cylinders.zones[-1]
    segments = cast("Table", learnt.table["buffer"]).get("segments", 1)
    least_s, error_s = learn_overhead(
        device,
        rotation,
        per_track=zone.sectors_per_track,
        segments=int(cast("int", segments)),
        rounds=9,
    )
    medium_s = rotation.turn_s * UNIT / zone.sectors_per_track
    rate = float(cast("float", learnt.table["link_bytes_per_s"]))
    sector_s = medium_s / UNIT
    # A link slower than the medium carries the sectors one after the other from the first one on.
    slower = 512 / rate > sector_s
    transfer_s = sector_s + UNIT * 512 / rate if slower else medium_s + 512 / rate
    miss_us = max((least_s - transfer_s) * 1e6, 1.0)
    skew_us = float(cast("float", learnt.table["track_skew_ms"])) * 1e3
    if hits is not None and miss_us > hits.overhead_s * 1e6 + 0.5 * skew_us > 50:
        why = "read-ahead leaves the track: what reads from the buffer take is assumed"
        learnt.unknown.append(Unknown("controller_overhead_us", why))
        least_s += hits.overhead_s - miss_us * 1e-6
        miss_us = hits.overhead_s * 1e6
    else:
        how = "reads after pauses"
        learnt.add("controller_overhead_us", miss_us, "µs", how, error_s * 1e6)
    learnt.table["controller_overhead_us"] = miss_us
    if hits is not None:
        hit_us, hit_error_us = hits.overhead_s * 1e6, hits.overhead_error_s * 1e6
        learnt.add("overhead.read_hit_after_read_us", hit_us, "µs", "repeated reads", hit_error_us)
        if abs(hit_us - miss_us) > max(3 * (error_s * 1e6 + hit_error_us), 0.1 * miss_us):
            learnt.table["overhead"] = {"read_hit_after_read_us": hit_us}
    return least_s


def _seeks(
    device: LearntDevice,
    rotation: Rotation,
    cylinders: Cylinders,
    learnt: LearntDrive,
    least_s: float,
    limit_s: float,
) -> list[SeekPoint]:
    """Learn the seek curve; return its points."""
    wanted = distances(cylinders.count, 22)
    points = learn_seeks(device, rotation, cylinders, wanted, limit_s=limit_s)
    error_s = float(np.mean([point.error_s for point in points]))
    made = two_pieces(points, least_s)
    if made is not None and made[1] < 2.5 * error_s:
        curve, left_s = made
    else:
        curve, left_s = table_curve(points, least_s), error_s
    learnt.table["seek"] = curve
    how = "pairs of reads"
    times_ms = [(point.time_s - least_s) * 1e3 for point in points]
    third = cylinders.count / 3
    middle = int(np.argmin([abs(point.distance - third) for point in points]))
    for name, at in (("one cylinder", 0), ("a third", middle), ("the whole drive", -1)):
        learnt.add(f"seek over {name}", times_ms[at], "ms", how, points[at].error_s * 1e3)
    learnt.add("error of the seek curve", left_s * 1e3, "ms", "its points")
    return points


def _possible(table: Table) -> None:
    """Make skews and seeks agree: a skew is at least the step that it hides, also after each value
    has been rounded to the digits of a drive's file."""
    seek = cast("Table", table["seek"])
    most_ms = float(cast("float", table["cylinder_skew_ms"])) * (1 - 3 * ROUNDING)
    if seek["curve"] == "two_piece":
        base_ms, root_ms = (
            float(cast("float", seek[name])) for name in ("short_base_ms", "short_root_ms")
        )
        if base_ms + root_ms > most_ms:
            root_ms = min(root_ms, most_ms)
            seek["short_root_ms"], seek["short_base_ms"] = root_ms, most_ms - root_ms
    else:
        times_ms = cast("list[float]", seek["time_ms"])
        times_ms[0] = min(times_ms[0], most_ms)
    table["head_switch_ms"] = min(float(cast("float", table["track_skew_ms"])), most_ms)


def _queue(device: LearntDevice, learnt: LearntDrive, limit_s: float, say: Say) -> None:
    """Learn how the disk reorders commands, and compare the loads with the model."""
    depths = [depth for depth in DEPTHS if depth <= device.queue_depth]
    measured: dict[ScriptLoad, LoadResult] = {}
    for depth in depths:
        load = ScriptLoad(UNIT, depth)
        say(f"random reads at depth {depth}")
        measured[load] = run_load(device, load, limit_s=limit_s / len(depths))
    learnt.table["queue"] = {"depth": device.queue_depth, "reordering": 0.0, "age_limit_ms": 1000.0}
    if len(depths) > 1:
        found = learn_reordering(learnt.table, measured, say)
        learnt.table = with_queue(
            learnt.table, found.share, found.age_limit_ms, found.window, found.commit_ms
        )
        how = "depths, and the model"
        width = (found.share_high - found.share_low) / 2
        learnt.add("queue.reordering", found.share, "", how, max(width, 0.025))
        if found.window is not None:
            alike = found.windows_alike
            width = (max(alike) - min(alike)) / 2
            learnt.add("queue.window", found.window, "", how, max(width, 0.5))
        if found.commit_ms is not None:
            around_ms = found.commits_alike_ms
            width = (max(around_ms) - min(around_ms)) / 2
            learnt.add("queue.commit_ms", found.commit_ms, "ms", how, max(width, 0.5))
        if found.age_limit_seen:
            learnt.add("queue.age_limit_ms", found.age_limit_ms, "ms", how)
        else:
            why = "no read waited so long that it shows"
            learnt.unknown.append(Unknown("queue.age_limit_ms", why))
    elif not device.writable:
        learnt.unknown.append(Unknown("queue.reordering", "the drive holds one command at a time"))
    modelled = modelled_loads(learnt.table, measured, requests=2 * MODEL_REQUESTS, seed=7)
    for (load, result), model in zip(measured.items(), modelled, strict=True):
        learnt.checks.append(check_of(load, result, model))
