"""Columns of `nano` and `aod` that the analysis does not read: types and distributions.

A job reads few of them, but they lie between the columns that it reads and determine the file's
access pattern. Each column has a distribution that fits its name, so that it compresses like real
data.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from headrace.datasets.table import Array, Table

Kind = Literal[
    "energy",
    "angle",
    "signed",
    "fraction",
    "score",
    "ratio",
    "exact",
    "rare",
    "unset",
    "zero",
    "flag",
    "count",
    "index",
    "running",
    "word",
    "bits",
    "key",
]
"""Types of column values.

Floats: falling spectrum; flat angle; symmetric with tails; between 0 and 1; concentrated at 0 and
1; around 1; all mantissa bits used; mostly exactly 0; mostly the same value for "none"; always 0.
Others: boolean, at a rate of the column's own; small number; -1 or a small number; position in the
collection; a few bits set; 32 bits, in most words none set; the same number for every object (the
hash that names a collection).
"""

_UNSET = np.float32(-999)


@dataclass(frozen=True)
class Filling:
    """One additional column: of the event (`collection` empty) or of a collection's objects."""

    collection: str
    name: str
    kind: Kind

    @property
    def whole_name(self) -> str:
        """Name of the column in files."""
        return f"{self.collection}_{self.name}" if self.collection else self.name


@dataclass(frozen=True)
class Further:
    """The additions of a shape to `bench`: columns, and the mean size of each new collection."""

    collections: dict[str, float]
    """Mean number of objects by collection; negative: exactly this number in every event."""
    columns: tuple[Filling, ...]


def named(collection: str, kinds: dict[Kind, str]) -> Iterator[Filling]:
    """Yield columns of a collection from their space-separated names by kind."""
    for kind, names in kinds.items():
        yield from (Filling(collection, name, kind) for name in names.split())


def reduced(values: npt.NDArray[np.float32], bits: int) -> npt.NDArray[np.float32]:
    """Round 32-bit floats to `bits` bits of mantissa (of 23), as NanoAOD does for compression.

    Same as CMSSW's MiniFloatConverter::reduceMantissaToNbitsRounding, except for infinities and
    NaN, which do not occur.
    """
    shift = 23 - bits
    words = values.view(np.uint32)
    mask = np.uint32((0xFFFFFFFF << shift) & 0xFFFFFFFF)
    return ((words + np.uint32(1 << (shift - 1))) & mask).view(np.float32)


def _identity(name: str) -> int:
    return zlib.crc32(name.encode())


def _rate(name: str) -> float:
    """Return how often a flag is set: some never, most seldom, a few often (like triggers)."""
    place = _identity(name) / 0xFFFFFFFF
    return 0.0 if place < 0.25 else 10 ** (-4.5 + 4 * (place - 0.25) / 0.75)


def _sparse(
    rng: np.random.Generator, values: Array, rate: float, draw: Callable[[int], Array]
) -> Array:
    """Write drawn values at random positions at this rate; a few positions may be the same."""
    if len(values) and rate:
        places = rng.integers(0, len(values), rng.poisson(rate * len(values)))
        values[places] = draw(len(places))
    return values


def _draw(rng: np.random.Generator, kind: Kind, name: str, size: int) -> Array:
    """Return `size` values of a kind, except for `running`, which depends on the events."""
    one = np.float32(1)

    def exponential(count: int = size) -> Array:
        return rng.standard_exponential(count, np.float32)

    match kind:
        case "energy":
            return reduced(5 + 20 * exponential(), 10)
        case "angle":
            return reduced(
                (rng.random(size, np.float32) - np.float32(0.5)) * np.float32(2 * np.pi), 10
            )
        case "signed":
            return reduced(rng.standard_normal(size, np.float32) * np.float32(0.02), 8)
        case "fraction":
            return reduced(np.square(rng.random(size, np.float32)), 6)
        case "score":
            normal = rng.standard_normal(size, np.float32)
            return reduced(one / (one + np.exp(np.float32(-3) * normal)), 8)
        case "ratio":
            return reduced(1 + np.float32(0.1) * rng.standard_normal(size, np.float32), 8)
        case "exact":
            return 1000 * exponential()
        case "rare":
            some = np.zeros(size, np.float32)
            return _sparse(rng, some, 0.15, lambda count: reduced(exponential(count), 8))
        case "unset":
            none = np.full(size, _UNSET, np.float32)
            return _sparse(rng, none, 0.02, lambda count: reduced(exponential(count), 10))
        case "zero":
            return np.zeros(size, np.float32)
        case "flag":
            return _sparse(
                rng, np.zeros(size, np.bool_), _rate(name), lambda count: np.ones(count, np.bool_)
            )
        case "count":
            return np.minimum(4 * exponential(), 60).astype(np.int32)
        case "index":
            none = np.full(size, -1, np.int32)
            return _sparse(rng, none, 0.35, lambda count: (3 * exponential(count)).astype(np.int32))
        case "word":
            words = np.zeros(size, np.int32)
            some = np.array([1, 3, 7, 62, 254, 1022], np.int32)
            return _sparse(rng, words, 0.9, lambda count: some[rng.integers(0, len(some), count)])
        case "bits":
            words = np.zeros(size, np.uint32)
            return _sparse(
                rng,
                words,
                0.03,
                lambda count: np.uint32(1) << rng.integers(0, 32, count, np.uint32),
            )
        case "key" | "running":
            return np.full(size, _identity(name), np.uint32)


def _positions(counts: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return the position of each object within its event: 0, 1, …"""
    ends = np.cumsum(counts, dtype=np.int32)
    return (np.arange(int(counts.sum()), dtype=np.int32) - np.repeat(ends - counts, counts)).astype(
        np.int32
    )


def fill(table: Table, more: Further, stream: Callable[[str], np.random.Generator]) -> None:
    """Add the columns to a table; `stream` returns the random stream of a name."""
    for name, mean in more.collections.items():
        if mean < 0:
            table.counts[name] = np.full(table.events, round(-mean), np.int32)
        else:
            rng = stream(f"filling/{name}/count")
            table.counts[name] = rng.poisson(mean, table.events).astype(np.int32)
    streams: dict[str, np.random.Generator] = {}
    positions: dict[str, npt.NDArray[np.int32]] = {}
    for column in more.columns:
        of, name = column.collection, column.whole_name
        rng = streams.setdefault(of, stream(f"filling/{of}"))
        if not of:
            table.scalars[name] = _draw(rng, column.kind, name, table.events)
        elif column.kind == "running":
            if of not in positions:
                positions[of] = _positions(table.counts[of])
            table.objects[name] = (of, positions[of])
        else:
            size = int(table.counts[of].sum())
            table.objects[name] = (of, _draw(rng, column.kind, name, size))
