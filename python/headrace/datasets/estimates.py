"""How large a data set will be and how long it takes to make, for `headrace plan`, without making it.

Bytes an event were measured on one cluster of each kind at the usual levels; a test holds them against what is written.
Events a second are those of one core of an AMD EPYC of 2023: an order of magnitude for other machines.
"""

from __future__ import annotations

import os

from headrace.datasets.spec import Codec, DatasetSpec, Format, Shape

BYTES_AN_EVENT: dict[Shape, dict[Format, dict[Codec | None, float]]] = {
    "bench": {
        "ttree": {"zlib": 437, "lz4": 608, "zstd": 416, "lzma": 282, None: 1145},
        "rntuple": {"zlib": 280, "lz4": 339, "zstd": 255, "lzma": 247, None: 1358},
    },
    "nano": {
        "ttree": {"zlib": 1576, "lz4": 2193, "zstd": 1512, "lzma": 989, None: 4476},
        "rntuple": {"zlib": 989, "lz4": 1207, "zstd": 899, "lzma": 860, None: 5275},
    },
    "aod": {
        "ttree": {"zlib": 25_422, "lz4": 34_675, "zstd": 23_808, "lzma": 16_250, None: 71_257},
        "rntuple": {"zlib": 16_529, "lz4": 20_536, "zstd": 14_955, "lzma": 14_531, None: 82_409},
    },
}
"""By shape, format and codec; None for level 0."""

EVENTS_PER_S: dict[Shape, dict[Codec, float]] = {
    "bench": {"zlib": 28_000, "lz4": 27_000, "zstd": 36_000, "lzma": 3_200},
    "nano": {"zlib": 8_500, "lz4": 7_600, "zstd": 8_900, "lzma": 830},
    "aod": {"zlib": 510, "lz4": 450, "zstd": 600, "lzma": 50},
}
"""On one core."""

_START_S = 1.5
"""A writer's imports."""


def estimated_bytes(spec: DatasetSpec) -> int:
    """Bytes of all files of a data set, within some ten per cent at the usual clusters and basket sizes."""
    codec = None if spec.level == 0 else spec.codec
    return int(spec.events * BYTES_AN_EVENT[spec.shape][spec.format][codec])


def estimated_seconds(spec: DatasetSpec) -> float:
    """Seconds that generating it takes with this machine's cores."""
    cores = min(spec.files, len(os.sched_getaffinity(0)))
    return _START_S + spec.events / EVENTS_PER_S[spec.shape][spec.codec] / cores
