"""Writes a TTree: baskets of chosen size and place, then the tree's metadata, as ROOT does.

On-disk formats: ROOT's `io/doc/TFile/ttree.md`, `tbasket.md` and, for the baskets of a branch with a counter, the
offsets that TBasket::Streamer appends. Within a cluster a branch's basket is cut when it is full.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import uproot
import uproot.compression
import uproot.models.TBranch
import uproot.models.TLeaf
import uproot.models.TTree
import uproot.serialization
from uproot.writing import _cascadetree as cascade_tree

from headrace.datasets.table import Array, Table
from headrace.datasets.writing.placement import Placement
from headrace.datasets.writing.rootfile import FIXED_DATIME, RootFile

_KEY = struct.Struct(">ihiIhhqq")
"""TKey with 64-bit places: fNbytes, fVersion, fObjlen, fDatime, fKeylen, fCycle, fSeekKey, fSeekPdir."""
_BASKET = struct.Struct(">Hiiii")
"""TBasket: version, fBufferSize, fNevBufSize, fNevBuf, fLast; a flag byte follows."""
_COUNT = struct.Struct(">I")

_MODELS = [
    *(getattr(uproot.models.TLeaf, f"Model_TLeaf{letter}_v1") for letter in "BSILFDO"),
    uproot.models.TBranch.Model_TBranch_v13,
    uproot.models.TTree.Model_TTree_v20,
]


@dataclass
class _Branch:
    """A branch as it grows: what TBranch keeps of its baskets, in the order of events."""

    index: int
    name: str
    jagged: bool
    strings: bytes
    """Class name, name and title as every basket's key has them."""
    first_entries: list[int]
    """First event of each basket."""
    places: list[int]
    stored: list[int]
    """Bytes a basket in the file, with its key."""
    memory_bytes: int = 0
    largest_count: int = 0

    @property
    def key_bytes(self) -> int:
        return _KEY.size + len(self.strings) + _BASKET.size + 1


@dataclass(frozen=True)
class _Basket:
    branch: _Branch
    number: int
    """Of this branch."""
    first_entry: int
    entries: int
    tail: bytes
    """Everything behind the key's fixed part."""
    object_bytes: int

    @property
    def reading_order(self) -> tuple[int, int]:
        return (self.first_entry, self.branch.index)

    @property
    def size(self) -> int:
        return _KEY.size + len(self.tail)


def cut_entries(sizes: npt.NDArray[np.int64], most: int) -> list[tuple[int, int]]:
    """Cuts entries of these sizes in bytes into runs of at most `most` bytes, at least one entry each: (start, stop)."""
    ends = np.cumsum(sizes)
    runs: list[tuple[int, int]] = []
    start, used = 0, 0
    while start < len(sizes):
        stop = max(start + 1, int(np.searchsorted(ends, used + most, side="right")))
        runs.append((start, stop))
        start, used = stop, int(ends[stop - 1])
    return runs


def _counter_of(column: str) -> str:
    return "n" + column.split("_")[0]


def _subfield(outer: str, inner: str) -> str:
    return f"{outer}_{inner}"


class TreeWriter:
    """Writes one tree into a ROOT file, cluster after cluster, then `finish`."""

    def __init__(
        self,
        file: RootFile,
        name: str,
        table: Table,
        basket_size: int,
        cluster_events: int,
        placement: Placement[_Basket],
    ) -> None:
        """`table` shows the columns; its events are not written."""
        self._file = file
        self._name = name
        self._basket_size = basket_size
        self._cluster_events = cluster_events
        self._placement: Placement[_Basket] = placement
        self._entries = 0
        self._branches: dict[str, _Branch] = {}
        self._types: dict[str, Any] = {column: values.dtype for column, values in table.scalars.items()}
        for collection in table.counts:
            self._types[f"n{collection}"] = np.dtype(np.int32)
            for column, (of, values) in table.objects.items():
                if of == collection:
                    self._types[column] = f"var * {values.dtype.name}"
        for index, (column, kind) in enumerate(self._types.items()):
            strings = b"".join(uproot.serialization.string(text) for text in ("TBasket", column, name))
            self._branches[column] = _Branch(index, column, isinstance(kind, str), strings, [], [], [])

    def write_cluster(self, table: Table) -> None:
        """Appends the events of `table` as one cluster."""
        baskets: list[_Basket] = []
        for column, values in table.scalars.items():
            baskets += self._flat(self._branches[column], values)
        for collection, counts in table.counts.items():
            branch = self._branches[f"n{collection}"]
            branch.largest_count = max(branch.largest_count, int(counts.max(initial=0)))
            baskets += self._flat(branch, counts)
        for column, (collection, values) in table.objects.items():
            baskets += self._jagged(self._branches[column], values, table.counts[collection])
        self._entries += table.events
        self._put(self._placement.add(baskets))

    def finish(self) -> None:
        """Writes what is still to be placed, and the tree itself."""
        self._put(self._placement.rest())
        data = self._metadata()
        packed = bytes(uproot.compression.compress(data, self._file.compression))
        self._file.add_object("TTree", self._name, "", packed, len(data), big=True)
        self._file.add_streamers(_MODELS)

    def _flat(self, branch: _Branch, values: Array) -> list[_Basket]:
        data = values.astype(values.dtype.newbyteorder(">"))
        step = max(1, self._basket_size // data.itemsize)
        return [
            self._basket(branch, start, len(run), run.tobytes(), data.itemsize, None)
            for start in range(0, len(data), step)
            for run in (data[start : start + step],)
        ]

    def _jagged(self, branch: _Branch, values: Array, counts: npt.NDArray[np.int32]) -> list[_Basket]:
        data = values.astype(values.dtype.newbyteorder(">"))
        sizes = counts.astype(np.int64) * data.itemsize
        ends = np.concatenate([[0], np.cumsum(sizes)])
        baskets: list[_Basket] = []
        for start, stop in cut_entries(sizes + 4, self._basket_size):
            content = data[ends[start] // data.itemsize : ends[stop] // data.itemsize].tobytes()
            offsets = (ends[start : stop + 1] - ends[start] + branch.key_bytes).astype(">i4")
            payload = content + _COUNT.pack(len(offsets)) + offsets.tobytes()
            baskets.append(
                self._basket(branch, start, stop - start, payload, len(offsets) + 1, int(offsets[-1]))
            )
        return baskets

    def _basket(
        self, branch: _Branch, start: int, entries: int, payload: bytes, slot: int, last: int | None
    ) -> _Basket:
        packed = bytes(uproot.compression.compress(payload, self._file.compression))
        end = branch.key_bytes + len(payload) if last is None else last
        head = branch.strings + _BASKET.pack(3, self._basket_size, slot, entries, end) + b"\x00"
        branch.first_entries.append(self._entries + start)
        branch.places.append(0)
        branch.stored.append(0)
        branch.memory_bytes += branch.key_bytes + len(payload)
        return _Basket(
            branch, len(branch.places) - 1, self._entries + start, entries, head + packed, len(payload)
        )

    def _put(self, baskets: list[_Basket]) -> None:
        if not baskets:
            return
        begin = place = self._file.allocate(sum(basket.size for basket in baskets))
        parts: list[bytes] = []
        for basket in baskets:
            branch = basket.branch
            branch.places[basket.number] = place
            branch.stored[basket.number] = basket.size
            parts.append(
                _KEY.pack(
                    basket.size,
                    1004,
                    basket.object_bytes,
                    FIXED_DATIME,
                    branch.key_bytes,
                    0,
                    place,
                    self._file.directory_location,
                )
            )
            parts.append(basket.tail)
            place += basket.size
        self._file.write(begin, b"".join(parts))

    def _metadata(self) -> bytes:
        """The tree's object, uncompressed: uproot's serialisation with what differs from branch to branch put in."""
        capacity = max((len(branch.places) for branch in self._branches.values()), default=0) + 1
        tree: Any = cascade_tree.Tree(
            self._file.directory,
            self._name,
            "",
            self._types,
            self._file.free_segments,
            _counter_of,
            _subfield,
            capacity,
            10.0,
        )
        tree._num_entries = self._entries
        tree._metadata["fAutoFlush"] = self._cluster_events
        for datum in tree._branch_data:
            branch = self._branches[datum["fName"]]
            count = len(branch.places)
            datum["fBasketBytes"][:count] = branch.stored
            datum["fBasketEntry"][:count] = branch.first_entries
            datum["fBasketEntry"][count] = self._entries
            datum["fBasketSeek"][:count] = branch.places
            datum["fBasketSize"] = self._basket_size
            datum["fTotBytes"] = branch.memory_bytes
            datum["fZipBytes"] = sum(branch.stored)
            tree._metadata["fTotBytes"] += datum["fTotBytes"]
            tree._metadata["fZipBytes"] += datum["fZipBytes"]
        data = bytearray(b"".join(tree._build_out()))
        # uproot takes every branch to have as many baskets as the tree, and sets a counter's largest value later:
        # both are put in at the places that its serialisation noted.
        for datum in tree._branch_data:
            branch = self._branches[datum["fName"]]
            struct.pack_into(">i", data, datum["metadata_start"] + 12, len(branch.places))
            if datum["kind"] == "counter":
                special: struct.Struct = datum["tleaf_special_struct"]
                special.pack_into(
                    data, datum["basket_metadata_start"] - 25 - special.size, 0, branch.largest_count
                )
        return bytes(data)
