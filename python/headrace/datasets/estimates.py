"""Estimates of a data set's size and generation time, for `headrace plan`.

Bytes per event were measured on one cluster of each kind at the default levels; a test compares
them with files written. Events per second are those of one core of an AMD EPYC of 2023: an order of
magnitude for other machines.
"""

from __future__ import annotations

import os

from headrace.datasets.own_files import OwnFiles
from headrace.datasets.spec import Codec, DatasetSpec, Format, Shape
from headrace.errors import HeadraceError

BYTES_AN_EVENT: dict[Shape, dict[Format, dict[Codec | None, float]]] = {
    "bench": {
        "ttree": {"zlib": 437, "lz4": 608, "zstd": 416, "lzma": 282, None: 1145},
        "rntuple": {"zlib": 280, "lz4": 339, "zstd": 255, "lzma": 247, None: 1358},
    },
    "nano": {
        "ttree": {"zlib": 2094, "lz4": 2886, "zstd": 1991, "lzma": 1349, None: 6518},
        "rntuple": {"zlib": 1338, "lz4": 1625, "zstd": 1219, "lzma": 1170, None: 7164},
    },
    "aod": {
        "ttree": {"zlib": 15_433, "lz4": 21_562, "zstd": 14_767, "lzma": 10_571, None: 84_828},
        "rntuple": {"zlib": 10_062, "lz4": 12_012, "zstd": 8_954, "lzma": 8_956, None: 93_641},
    },
}
"""Bytes per event by shape, format and codec; codec None means level 0."""

EVENTS_PER_S: dict[Shape, dict[Codec, float]] = {
    "bench": {"zlib": 28_000, "lz4": 27_000, "zstd": 36_000, "lzma": 3_200},
    "nano": {"zlib": 7_600, "lz4": 7_800, "zstd": 8_800, "lzma": 860},
    "aod": {"zlib": 1_050, "lz4": 1_100, "zstd": 1_250, "lzma": 110},
}
"""Events per second on one core."""

_START_S = 1.5
"""Time of a writer's imports."""


def data_bytes(data: DatasetSpec | OwnFiles) -> int:
    """Return the size of a data set: estimated for generated ones, 0 for missing files."""
    if isinstance(data, DatasetSpec):
        return estimated_bytes(data)
    try:
        return sum(file.bytes for file in data.find())
    except HeadraceError:
        return 0


def data_files(data: DatasetSpec | OwnFiles) -> int:
    """Return the number of files that a workload reads, at least one."""
    if isinstance(data, DatasetSpec):
        return data.files
    try:
        return len(data.find())
    except HeadraceError:
        return 1


def estimated_bytes(spec: DatasetSpec) -> int:
    """Return the estimated size, within about 10 % at the default cluster and basket sizes."""
    codec = None if spec.level == 0 else spec.codec
    return int(spec.events * BYTES_AN_EVENT[spec.shape][spec.format][codec])


def estimated_seconds(spec: DatasetSpec) -> float:
    """Return the estimated generation time on this machine's cores."""
    cores = min(spec.files, len(os.sched_getaffinity(0)))
    return _START_S + spec.events / EVENTS_PER_S[spec.shape][spec.codec] / cores
