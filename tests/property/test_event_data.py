"""Properties of what makes and reads event data.

Cutting, placing, encoding, sharing and counting lose nothing.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from headrace.datasets.table import Table, concatenate
from headrace.datasets.writing.placement import Placement
from headrace.datasets.writing.rntuple import encode
from headrace.datasets.writing.ttree import cut_entries
from headrace.readers.counts import ReadCounts
from headrace.readers.uproot_reader import Share


@given(st.lists(st.integers(0, 500), min_size=1, max_size=200), st.integers(1, 2000))
def test_cutting_covers_all_entries_and_keeps_to_the_most(sizes: list[int], most: int) -> None:
    runs = cut_entries(np.array(sizes, np.int64), most)
    assert [start for start, _ in runs] == [0, *(stop for _, stop in runs[:-1])]
    assert runs[-1][1] == len(sizes)
    for start, stop in runs:
        assert stop - start == 1 or sum(sizes[start:stop]) <= most


@dataclass(frozen=True)
class Piece:
    reading_order: tuple[int, int]


@given(
    st.lists(st.integers(0, 6), max_size=30),
    st.sampled_from(["ordered", "unordered"]),
    st.integers(0, 5),
)
def test_placement_gives_every_piece_once_and_keeps_order_when_asked(
    sizes: list[int], order: str, seed: int
) -> None:
    placement: Placement[Piece] = Placement(order, np.random.default_rng(seed))  # pyright: ignore[reportArgumentType]
    pieces = [
        [Piece((cluster, index)) for index in range(size)] for cluster, size in enumerate(sizes)
    ]
    given_back = [
        piece for cluster in pieces for piece in placement.add(list(reversed(cluster)))
    ] + placement.rest()
    expected = [piece for cluster in pieces for piece in cluster]
    assert sorted(given_back, key=lambda piece: piece.reading_order) == expected
    if order == "ordered":
        assert given_back == expected


@given(arrays.arrays(np.int32, st.integers(1, 60)))
def test_zigzag_split_integers_decode(values: np.ndarray) -> None:
    raw = (
        np.frombuffer(encode(values, "splitint32"), np.uint8)
        .reshape(4, -1)
        .T.copy()
        .view(np.uint32)
        .ravel()
    )
    decoded = ((raw >> 1) ^ (0 - (raw & 1)).astype(np.uint32)).view(np.int32)
    np.testing.assert_array_equal(decoded, values)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=60))
def test_offsets_decode_as_sums_of_differences(counts: list[int]) -> None:
    offsets = np.cumsum(counts)
    raw = (
        np.frombuffer(encode(offsets, "splitindex64"), np.uint8)
        .reshape(8, -1)
        .T.copy()
        .view(np.int64)
        .ravel()
    )
    np.testing.assert_array_equal(np.cumsum(raw), offsets)


@given(
    st.lists(st.lists(st.integers(1, 400), min_size=1, max_size=8), min_size=1, max_size=10),
    st.floats(0.01, 1),
)
def test_a_share_of_the_events_is_read_in_order_and_nothing_twice(
    spans: list[list[int]], fraction: float
) -> None:
    share = Share(fraction)
    total = read = 0
    for clusters in spans:
        ends = [int(end) for end in np.cumsum(clusters)]
        runs = share.runs(0, ends)
        assert all(first < stop for first, stop in runs)
        assert all(stop <= first for (_, stop), (first, _) in itertools.pairwise(runs))
        assert not runs or runs[-1][1] <= ends[-1]
        total += ends[-1]
        read += sum(stop - first for first, stop in runs)
    assert abs(read - fraction * total) <= 0.51 * len(spans) + 400


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 60)), max_size=40))
def test_unique_bytes_are_those_of_the_union(reads: list[tuple[int, int]]) -> None:
    counts = ReadCounts()
    union: set[int] = set()
    for start, size in reads:
        counts.add("file", start, start + size, 1, 0.0)
        union |= set(range(start, start + size))
    assert counts.bytes_unique == len(union)
    assert counts.bytes_asked == sum(size for _, size in reads)


@given(st.lists(st.integers(0, 5), min_size=2, max_size=40), st.data())
def test_slices_of_a_table_join_to_the_table(counts: list[int], draw: st.DataObject) -> None:
    total = sum(counts)
    table = Table(
        len(counts),
        {"Jet": np.array(counts, np.int32)},
        {"event": np.arange(len(counts))},
        {"Jet_pt": ("Jet", np.arange(total, dtype=np.float32))},
    )
    cut = draw.draw(st.integers(0, len(counts)))
    joined = concatenate([table.slice(0, cut), table.slice(cut, len(counts))])
    np.testing.assert_array_equal(joined.counts["Jet"], table.counts["Jet"])
    np.testing.assert_array_equal(joined.objects["Jet_pt"][1], table.objects["Jet_pt"][1])
