"""Write a TTree as ROOT does: baskets of chosen size and position, then the tree's metadata.

On-disk formats: ROOT's `io/doc/TFile/ttree.md`, `tbasket.md` and, for the baskets of a branch with
a counter, the offsets that TBasket::Streamer appends. Within a cluster, a branch starts a new
basket when the current one is full.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import uproot
import uproot.compression
import uproot.models.TBranch
import uproot.models.TLeaf
import uproot.models.TTree
import uproot.serialization

from headrace.datasets.table import Array, Table, columns_of
from headrace.datasets.writing.placement import Placement
from headrace.datasets.writing.rootfile import FIXED_DATIME, RootFile
from headrace.datasets.writing.tree_metadata import BranchFacts, streamed_tree

_KEY = struct.Struct(">ihiIhhqq")
"""TKey with 64-bit offsets.

Fields: fNbytes, fVersion, fObjlen, fDatime, fKeylen, fCycle, fSeekKey, fSeekPdir.
"""
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
    """A branch while it is written."""

    index: int
    strings: bytes
    """Class name, name and title, as in every basket's key."""
    facts: BranchFacts

    @property
    def key_bytes(self) -> int:
        return _KEY.size + len(self.strings) + _BASKET.size + 1


@dataclass(frozen=True)
class _Basket:
    branch: _Branch
    number: int
    """Number of the basket within its branch."""
    first_entry: int
    entries: int
    tail: bytes
    """Everything after the key's fixed part."""
    object_bytes: int

    @property
    def reading_order(self) -> tuple[int, int]:
        return (self.first_entry, self.branch.index)

    @property
    def size(self) -> int:
        return _KEY.size + len(self.tail)


def cut_entries(sizes: npt.NDArray[np.int64], most: int) -> list[tuple[int, int]]:
    """Divide entries of these sizes into runs (start, stop) of at most `most` bytes.

    Each run has at least one entry.
    """
    ends = np.cumsum(sizes)
    runs: list[tuple[int, int]] = []
    start, used = 0, 0
    while start < len(sizes):
        stop = max(start + 1, int(np.searchsorted(ends, used + most, side="right")))
        runs.append((start, stop))
        start, used = stop, int(ends[stop - 1])
    return runs


class TreeWriter:
    """Writes one tree to a ROOT file, cluster by cluster, then `finish`."""

    def __init__(
        self,
        file: RootFile,
        name: str,
        table: Table,
        basket_size: int,
        cluster_events: int,
        placement: Placement[_Basket],
    ) -> None:
        """Take the columns from `table`; its events are not written."""
        self._file = file
        self._name = name
        self._basket_size = basket_size
        self._cluster_events = cluster_events
        self._placement: Placement[_Basket] = placement
        self._entries = 0
        self._branches: dict[str, _Branch] = {}
        for index, (column, dtype, collection) in enumerate(columns_of(table)):
            strings = b"".join(
                uproot.serialization.string(text) for text in ("TBasket", column, name)
            )
            counter = f"n{collection}" if collection else None
            is_counter = column.startswith("n") and column[1:] in table.counts
            facts = BranchFacts(column, dtype, counter, is_counter, [], [], [], 0, 0)
            self._branches[column] = _Branch(index, strings, facts)

    def write_cluster(self, table: Table) -> None:
        """Append the events of `table` as one cluster."""
        baskets: list[_Basket] = []
        for column, values in table.scalars.items():
            baskets += self._flat(self._branches[column], values)
        for collection, counts in table.counts.items():
            branch = self._branches[f"n{collection}"]
            branch.facts.largest = max(branch.facts.largest, int(counts.max(initial=0)))
            baskets += self._flat(branch, counts)
        for column, (collection, values) in table.objects.items():
            baskets += self._jagged(self._branches[column], values, table.counts[collection])
        self._entries += table.events
        self._put(self._placement.add(baskets))

    def finish(self) -> None:
        """Write the delayed baskets, and the tree itself."""
        self._put(self._placement.rest())
        facts = [branch.facts for branch in self._branches.values()]
        data = streamed_tree(
            self._name, facts, self._entries, self._cluster_events, self._basket_size
        )
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

    def _jagged(
        self, branch: _Branch, values: Array, counts: npt.NDArray[np.int32]
    ) -> list[_Basket]:
        data = values.astype(values.dtype.newbyteorder(">"))
        sizes = counts.astype(np.int64) * data.itemsize
        ends = np.concatenate([[0], np.cumsum(sizes)])
        baskets: list[_Basket] = []
        for start, stop in cut_entries(sizes + 4, self._basket_size):
            content = data[ends[start] // data.itemsize : ends[stop] // data.itemsize].tobytes()
            offsets = (ends[start : stop + 1] - ends[start] + branch.key_bytes).astype(">i4")
            payload = content + _COUNT.pack(len(offsets)) + offsets.tobytes()
            baskets.append(
                self._basket(
                    branch, start, stop - start, payload, len(offsets) + 1, int(offsets[-1])
                )
            )
        return baskets

    def _basket(
        self, branch: _Branch, start: int, entries: int, payload: bytes, slot: int, last: int | None
    ) -> _Basket:
        packed = bytes(uproot.compression.compress(payload, self._file.compression))
        end = branch.key_bytes + len(payload) if last is None else last
        head = branch.strings + _BASKET.pack(3, self._basket_size, slot, entries, end) + b"\x00"
        facts = branch.facts
        facts.first_entries.append(self._entries + start)
        facts.places.append(0)
        facts.stored.append(0)
        facts.memory_bytes += branch.key_bytes + len(payload)
        number = len(facts.places) - 1
        return _Basket(branch, number, self._entries + start, entries, head + packed, len(payload))

    def _put(self, baskets: list[_Basket]) -> None:
        if not baskets:
            return
        begin = place = self._file.allocate(sum(basket.size for basket in baskets))
        parts: list[bytes] = []
        for basket in baskets:
            branch = basket.branch
            branch.facts.places[basket.number] = place
            branch.facts.stored[basket.number] = basket.size
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
