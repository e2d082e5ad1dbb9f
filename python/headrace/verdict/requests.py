"""Requests over connections, simulated as reads of a file with the mean time and size of a request.

The mean time is that of this run, so the simulation agrees by construction; what a nearer server
would save at most is known from the round trip, which the kernel measures.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np

from headrace.errors import HeadraceError
from headrace.profiles.steps import Op, RecordedFile, Recording, Steps
from headrace.scenario import VolumeSpec
from headrace.targets.scenario import filesystem
from headrace.verdict.advice import Advice
from headrace.verdict.observation import ConnectionUse, Observation
from headrace.verdict.present import ReadTimes
from headrace.verdict.simulating import simulated_advice
from headrace.verdict.variants import SATA_SSD, Variant
from headrace.verdict.volumes import LARGEST_REQUEST, READ_AHEAD, catalog_volume

_LEAST = 20
"""Fewer requests have no mean time; that of a stream is its rate."""
_REQUEST_MOST = 1000.0
"""Bytes sent for a request. With more it sends data, and segments are no requests."""
_AT_ONCE = 8
_LEAST_SAVED = 0.1
"""Of the time of a request: less is in the noise of its parts."""
_OLD_LEAST = 0.2
"""So many looks must find silence older than half a cycle to tell how long it is."""
_GAPS_MOST = 0.3
"""Of a cycle: silence that looks so short is the gaps between bursts."""
_SECTOR = 512


def advise_requests(seen: Observation, recording: Recording) -> Advice:
    """Return simulated times with other servers. Raises HeadraceError with the reason if none."""
    use = seen.connection_use
    if use is None:
        raise HeadraceError("no connection lasted long enough to count its requests")
    if use.requests < _LEAST or use.sent_bytes > _REQUEST_MOST * use.requests:
        raise HeadraceError("what it sends over its connections are not many small requests")
    if use.received_bytes < use.requests * _SECTOR:
        raise HeadraceError("its connections move hardly any data: it waits for answers, not files")
    waited_s = seen.seconds("connection")
    time = _times(seen, use, waited_s)
    kept = _as_reads(recording, use, waited_s)
    present = Variant("", _answering(time.each_s))
    others: list[Variant] = []
    if time.flow_s is not None:
        seconds = {
            f"{_AT_ONCE} requests in flight": max(time.flow_s, time.each_s / _AT_ONCE),
            "a server at no distance": time.each_s - use.round_trip_s,
            "a server that answers at once": use.round_trip_s + time.flow_s,
            "a link of 10 times the rate": time.each_s - 0.9 * time.flow_s,
        }
        most_s = (1 - _LEAST_SAVED) * time.each_s
        others = [Variant(name, _answering(s)) for name, s in seconds.items() if s < most_s]
    others.append(Variant("a local copy on a SATA SSD", catalog_volume(SATA_SSD)))
    return simulated_advice(kept, [0], present, others, recording, ReadTimes())


class _RequestTime(NamedTuple):
    """The mean time of a request."""

    each_s: float
    flow_s: float | None
    """Part of it in which data comes; None where that cannot be told."""


def _times(seen: Observation, use: ConnectionUse, waited_s: float) -> _RequestTime:
    """Divide the mean time of a request.

    After data has come nothing comes for a time S: while the program computes, until the server
    answers, and on the way. At a random moment of a cycle, S of it is silent, and this silence is
    evenly 0 to S old: so its mean age is S^2 / (2 cycle), and if S is most of the cycle, it is
    often older than half of it. A link that is full brings data in bursts with gaps, too: where
    silence is never so old, only short gaps tell that data comes all the time.
    """
    each_s, cycle_s = waited_s / use.requests, seen.wall_s / use.requests
    ages_s = use.since_data_s
    old = sum(age_s > cycle_s / 2 for age_s in ages_s) / max(1, len(ages_s))
    silent_s = math.sqrt(2 * cycle_s * sum(ages_s) / max(1, len(ages_s)))
    if old >= _OLD_LEAST:
        return _RequestTime(each_s, min(each_s, max(0.0, cycle_s - silent_s)))
    return _RequestTime(each_s, each_s if silent_s <= _GAPS_MOST * cycle_s else None)


def _answering(each_s: float) -> VolumeSpec:
    """Return storage that answers each request after this time."""
    read_ns = round(each_s * 1e9)
    made = {
        "name": "data",
        "filesystem": filesystem("ext4"),
        "read_ahead_bytes": READ_AHEAD,
        "max_request_bytes": LARGEST_REQUEST,
        "ideal": {"capacity_bytes": 1 << 44, "read_ns": read_ns, "write_ns": read_ns},
    }
    return cast("VolumeSpec", made)


def _as_reads(recording: Recording, use: ConnectionUse, waited_s: float) -> Recording:
    """Return the recording with reads, evenly in time, instead of all its steps.

    Each is elsewhere in the file (assumption: a local copy would be read at random).
    """
    number = use.requests
    length = max(_SECTOR, use.received_bytes // number)
    span_ns = max(0, recording.duration_ns - round(waited_s * 1e9))
    start = np.linspace(0, span_ns, number + 2).astype(np.int64)[1:-1]
    places = np.random.default_rng(1).permutation(number)
    made = Steps(
        start_ns=start,
        end_ns=start,
        thread=np.zeros(number, np.int64),
        op=np.full(number, int(Op.READ)),
        file=np.zeros(number, np.int64),
        # Twice the size apart, so that none is the next.
        offset=places * 2 * -(-length // 4096) * 4096,
        length=np.full(number, length),
        cpu_ns=np.full(number, min(span_ns, recording.cpu_ns) // (number + 1)),
    )
    size = 2 * number * -(-length // 4096) * 4096
    file = RecordedFile("connection", size, direct=True)
    return replace(recording, files=(file,), steps=made, duration_ns=span_ns, cpu_wait_ns=0)
