"""How large a data set will be and how long it takes to make, for `headrace plan`, without making it."""

from __future__ import annotations

import os

from headrace.datasets.spec import DatasetSpec

BYTES_AN_EVENT = {
    "bench": {"zlib": 425, "lz4": 520, "zstd": 400, "lzma": 360},
}
EVENTS_PER_S = {"bench": {"zlib": 27_000, "lz4": 25_000, "zstd": 27_000, "lzma": 8_000}}


def estimated_bytes(spec: DatasetSpec) -> int:
    """Bytes of all files of a data set."""
    return spec.events * BYTES_AN_EVENT[spec.shape][spec.codec] + spec.files * 100_000


def estimated_seconds(spec: DatasetSpec) -> float:
    """Seconds that generating it takes on this machine's cores."""
    cores = min(spec.files, len(os.sched_getaffinity(0)))
    return 2.0 + spec.events / EVENTS_PER_S[spec.shape][spec.codec] / cores
