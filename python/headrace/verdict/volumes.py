"""The present storage of a program as a model, and storage of the catalog instead of it."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, cast

from headrace.catalog import entry
from headrace.errors import HeadraceError
from headrace.scenario import DriveSpec, VolumeSpec
from headrace.targets.scenario import filesystem, storage
from headrace.verdict.observation import StoragePlace
from headrace.verdict.present import ReadTimes
from headrace.verdict.writes import WriteTimes

_DISK = "sata-7200-500gb"
_DISK_LEAST_S = 2.2e-3
"""A block device that takes longer for a random read is a disk, whatever it says. A disk with the
shortest seek and half a revolution at 15 000 rpm takes no less."""
READ_AHEAD = 128 << 10
CALL_S = 1e-6
"""CPU time of a call in the simulation (`call_ns` of a host), besides the copy."""
_ANSWER_MOST = 0.8
"""Of the time of a direct read in order: the rest is the transfer."""
_ANSWER = 0.5
"""The same where reads of one size alone do not tell the two apart: assumption."""
LARGEST_REQUEST = 1 << 30
"""A call is one request: its time was measured as a whole."""


@dataclass(frozen=True)
class _Usual:
    """Times of a class of storage, where none was measured."""

    random_s: float
    rate_bytes_per_s: float


_USUAL_DISK = _Usual(12e-3, 150e6)
"""Assumption: a disk of 7200 rpm."""
_USUAL_OTHER = _Usual(150e-6, 500e6)
"""Assumption: a SATA SSD."""
_DISK_OVERHEAD_S = 150e-6
_WRITE_S = 20e-6
"""Assumption: a write into the cache of a drive."""
_WRITE_OF_SYNC = 0.1
"""Assumption: a write takes at most so much of a sync; the rest is the flush."""
_WRITES_OF_SYNC = 2
"""A sync writes data and the journal."""


def present_volume(
    place: StoragePlace,
    times: ReadTimes,
    writes: WriteTimes = WriteTimes(),  # noqa: B008 (it is frozen)
    copy_bytes_per_s: float = math.inf,
) -> VolumeSpec:
    """Return the present storage as a model with the measured times, or the usual ones of its class
    where one is missing: then it hardly matters for this program. `copy_bytes_per_s`: of the
    simulated node, out of its page cache.

    Raises HeadraceError when nothing was measured.
    """
    if (writes.most or writes.some) and writes.known:
        return _for_writes(place, times, writes, copy_bytes_per_s)
    if times.random_s is None and times.rate_bytes_per_s is None:
        done = "write" if writes.most else "read"
        raise HeadraceError(f"it waited too seldom to tell what its storage takes for a {done}")
    made: VolumeSpec = {
        "name": "data",
        "filesystem": filesystem("ext4"),
        "read_ahead_bytes": place.read_ahead_bytes or READ_AHEAD,
    }
    disk = _is_disk(place, times)
    if disk:
        made["storage"] = storage(_disk(*_access(times, _USUAL_DISK, copy_bytes_per_s)))
        return made
    ahead_bytes = place.read_ahead_bytes or READ_AHEAD
    access_s, rate = _of_reads(times, _USUAL_OTHER, copy_bytes_per_s, ahead_bytes)
    made["max_request_bytes"] = LARGEST_REQUEST
    read_ns = round(max(1e-6, access_s) * 1e9)
    made["ideal"] = {
        "capacity_bytes": 1 << 42,
        "read_ns": read_ns,
        "write_ns": read_ns,
        "read_bytes_per_s": rate,
        "write_bytes_per_s": rate,
    }
    return made


def _access(times: ReadTimes, usual: _Usual, copy_bytes_per_s: float) -> tuple[float, float]:
    """Return the time of a read elsewhere without its transfer, and the rate.

    The call and its copy take time of the simulated CPU: they are not in the time of the storage.
    """
    if times.random_s is None:
        rate = times.rate_bytes_per_s or usual.rate_bytes_per_s
        return usual.random_s - times.random_bytes / rate, rate
    read_s = times.random_s - CALL_S - times.random_copied / copy_bytes_per_s
    # What a read elsewhere moved in its time can be moved in it.
    least = times.random_bytes / max(1e-6, read_s)
    rate = max(times.rate_bytes_per_s or usual.rate_bytes_per_s, least)
    return read_s - times.random_bytes / rate, rate


def _of_reads(
    times: ReadTimes, usual: _Usual, copy_bytes_per_s: float, ahead_bytes: int
) -> tuple[float, float]:
    """Return the answer time and the rate of storage that answers each request."""
    access_s, rate = _access(times, usual, copy_bytes_per_s)
    if times.direct_s is not None:
        return _of_direct_reads(times, access_s)
    if times.rate_bytes_per_s is not None:
        return _of_read_ahead(times, access_s, rate, ahead_bytes)
    return access_s, rate


def _of_direct_reads(times: ReadTimes, access_s: float) -> tuple[float, float]:
    """Return the answer time and the rate with which direct reads in order take their own time:
    storage that is no disk answers each."""
    direct_s = max(1e-6, (times.direct_s or 0.0) - CALL_S)
    if times.random_s is not None and times.direct_bytes <= 2 * times.random_bytes:
        access_s = _ANSWER * min(direct_s, times.random_s)
    access_s = min(max(0.0, access_s), _ANSWER_MOST * direct_s)
    return access_s, times.direct_bytes / (direct_s - access_s)


def _of_read_ahead(
    times: ReadTimes, access_s: float, rate: float, ahead_bytes: int
) -> tuple[float, float]:
    """Return the answer time and the rate with which reads in order take their own time: what is
    read ahead at once has one answer, whose time is in the measured rate."""
    piece_s = ahead_bytes / (times.rate_bytes_per_s or rate)
    read_s = access_s + times.random_bytes / rate
    if 2 * times.random_bytes > ahead_bytes:
        return access_s, rate
    if read_s <= _ANSWER_MOST * piece_s:
        rate = (ahead_bytes - times.random_bytes) / (piece_s - read_s)
        return max(0.0, read_s - times.random_bytes / rate), rate
    if times.random_s is not None and not times.own_random:
        return access_s, rate  # it makes both kinds of reads
    # The storage has several requests at once, or nothing is known of its answer.
    access_s = _ANSWER_MOST * piece_s
    return access_s, ahead_bytes / (piece_s - access_s)


def _for_writes(
    place: StoragePlace, times: ReadTimes, writes: WriteTimes, copy_bytes_per_s: float
) -> VolumeSpec:
    """Return storage that takes so long for each write and flush, whatever kind of drive it is.

    Without a rate the transfer takes no time of its own: it is in the time of small calls.
    """
    usual = _USUAL_DISK if _is_disk(place, times) else _USUAL_OTHER
    ahead_bytes = place.read_ahead_bytes or READ_AHEAD
    access_s, read_rate = _of_reads(times, usual, copy_bytes_per_s, ahead_bytes)
    rate = writes.rate_bytes_per_s or math.inf
    sync_s, write_s = 0.0, _WRITE_S
    if writes.sync_s is not None:
        sync_s = max(0.0, writes.sync_s - writes.sync_bytes / rate)
        write_s = min(_WRITE_S, _WRITE_OF_SYNC * sync_s)
    if writes.direct_s is not None:
        write_s = max(0.0, writes.direct_s - CALL_S - writes.direct_bytes / rate)
    made: VolumeSpec = {
        "name": "data",
        "filesystem": filesystem("ext4"),
        "read_ahead_bytes": ahead_bytes,
        "ideal": {
            "capacity_bytes": 1 << 42,
            "read_ns": round(max(1e-6, access_s) * 1e9),
            "write_ns": round(write_s * 1e9),
            "flush_ns": round(max(0.0, sync_s - _WRITES_OF_SYNC * write_s) * 1e9),
            "read_bytes_per_s": read_rate,
            "write_bytes_per_s": writes.rate_bytes_per_s or 0.0,
        },
    }
    if not writes.most:
        made["max_request_bytes"] = LARGEST_REQUEST
    return made


def _is_disk(place: StoragePlace, times: ReadTimes) -> bool:
    if place.kind == "network":
        return False
    if times.random_s is None:
        return bool(place.rotational)
    # A large read takes long on any drive.
    rate = times.rate_bytes_per_s or _USUAL_DISK.rate_bytes_per_s
    return times.random_s - times.random_bytes / rate > _DISK_LEAST_S


def _disk(access_s: float, rate_bytes_per_s: float) -> DriveSpec:
    """Return a disk that takes so long to any other cylinder, and has one rate."""
    table = cast("dict[str, Any]", copy.deepcopy(entry("drives", _DISK).table))
    rpm = next(
        (each for least, each in ((6e-3, 7200.0), (4e-3, 10_000.0)) if access_s > least), 15_000.0
    )
    seek_ms = max(0.05, (access_s - _DISK_OVERHEAD_S - 30 / rpm) * 1e3)
    table["rotation_rpm"] = rpm
    table["rates"] = {"outer_bytes_per_s": rate_bytes_per_s}
    table["seek"] = {
        "curve": "table", "distance_cylinders": [1, 2], "time_ms": [seek_ms, seek_ms],
    }  # fmt: skip
    table.pop("seek_write", None)
    table["link_bytes_per_s"] = max(table["link_bytes_per_s"], rate_bytes_per_s)
    return cast("DriveSpec", table)


def at_once(present: VolumeSpec) -> VolumeSpec:
    """Return storage that answers at once."""
    made = cast(
        "VolumeSpec", {**present, "ideal": {"capacity_bytes": 1 << 42, "read_ns": 0, "write_ns": 0}}
    )
    made.pop("storage", None)
    return made


def catalog_volume(name: str) -> VolumeSpec:
    """Return a drive of the catalog with ext4."""
    return {
        "name": "data",
        "filesystem": filesystem("ext4"),
        "storage": storage(entry("drives", name).table),
        "read_ahead_bytes": READ_AHEAD,
    }
