"""Serialise a TTree: its branches, their leaves, and the positions of each branch's baskets.

Class versions are TTree 20, TBranch 13 and TLeaf 2, as ROOT 6 writes them; the layout follows
ROOT's `io/doc/TFile/ttree.md` and the streamer information of these classes. uproot can write this
too, but its time grows with the square of the number of branches: four minutes for the four
thousand of an AOD.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_BYTE_COUNT = 0x40000000
_NEW_CLASS = 0xFFFFFFFF
_ON_HEAP = 0x03000000
"""TObject bits of every object that was allocated and not deleted."""
_MUST_CLEAN_UP = 1 << 3
_BRANCH_BIT = 1 << 22
"""TBranch::kDoNotUseBufferMap."""
_REFERENCE = 2
"""Offset added in object references (TBufferFile::kMapOffset).

A reference is the position of the object's byte count relative to the key's start, plus this.
"""
_KEY_BYTES = 34
"""Size of a TKey with 64-bit offsets, without its three strings."""

_IO_FEATURES = bytes.fromhex("40000007 0000 1aa12f10 00")
_EMPTY_ARRAY = bytes.fromhex("40000015 0003 0001 00000000 03000000 00 00000000 00000000")
_LINE_FILL_MARKER = bytes.fromhex(
    "40000008 0002 025a 0001 0001 40000006 0002 0000 03e9 4000000a 0002 0001 0001 3f800000"
)
_FILL = bytes.fromhex("40000006 0002 0000 03e9")

_LETTERS: dict[str, tuple[str, str]] = {
    "bool": ("O", ">??"),
    "int8": ("B", ">bb"),
    "uint8": ("b", ">bb"),
    "int16": ("S", ">hh"),
    "uint16": ("s", ">hh"),
    "int32": ("I", ">ii"),
    "uint32": ("i", ">ii"),
    "int64": ("L", ">qq"),
    "uint64": ("l", ">qq"),
    "float32": ("F", ">ff"),
    "float64": ("D", ">dd"),
}
"""ROOT's letter of a type (lower case: unsigned), and its leaf's format of minimum and maximum."""


@dataclass
class BranchFacts:
    """The tree's metadata of one branch."""

    name: str
    dtype: np.dtype[Any]
    counter: str | None
    """The branch with the number of values of each event; None for one value per event."""
    is_counter: bool
    first_entries: list[int]
    """First event of each basket."""
    places: list[int]
    stored: list[int]
    """Bytes of each basket in the file."""
    memory_bytes: int
    largest: int
    """Largest value of a counter."""


class _Buffer:
    def __init__(self) -> None:
        self.data = bytearray()

    def put(self, form: str, *values: Any) -> None:
        self.data += struct.pack(">" + form, *values)

    def text(self, value: str) -> None:
        raw = value.encode()
        self.data += bytes([len(raw)]) if len(raw) < 255 else b"\xff" + struct.pack(">I", len(raw))
        self.data += raw

    def begin(self, version: int) -> int:
        """Write a placeholder for an object's byte count, which `end` fills in, and its version."""
        self.put("IH", 0, version)
        return len(self.data) - 6

    def begin_class(self, name: str) -> int:
        """Do the same for an object behind a pointer, with the name of its class."""
        self.put("II", 0, _NEW_CLASS)
        self.data += name.encode() + b"\x00"
        return len(self.data) - 9 - len(name)

    def end(self, begun: int) -> None:
        struct.pack_into(">I", self.data, begun, (len(self.data) - begun - 4) | _BYTE_COUNT)

    def named(self, name: str, title: str, bits: int) -> None:
        begun = self.begin(1)
        self.put("HII", 1, 0, _ON_HEAP | bits)
        self.text(name)
        self.text(title)
        self.end(begun)

    def begin_array(self, count: int, bits: int = 0) -> int:
        begun = self.begin(3)
        self.put("HIIBii", 1, 0, _ON_HEAP | bits, 0, count, 0)
        return begun


def streamed_tree(
    name: str, branches: list[BranchFacts], entries: int, cluster_events: int, basket_size: int
) -> bytes:
    """Return the uncompressed tree object.

    Its key has 64-bit offsets, class `TTree`, this name and no title.
    """
    out = _Buffer()
    key_bytes = _KEY_BYTES + sum(1 + len(text) for text in ("TTree", name, ""))
    memory, stored = (
        sum(branch.memory_bytes for branch in branches),
        sum(sum(branch.stored) for branch in branches),
    )
    tree = out.begin(20)
    out.named(name, "", _MUST_CLEAN_UP)
    out.data += _LINE_FILL_MARKER
    out.put("qqqqqd", entries, memory, stored, 0, stored, 1.0)
    # fTimerInterval, fScanField, fUpdate, fDefaultEntryOffsetLen, fNClusterRange
    out.put("iiiiI", 0, 25, 0, 1000, 0)
    # fMaxEntries, fMaxEntryLoop, fMaxVirtualSize, fAutoSave, fAutoFlush (events per cluster),
    # fEstimate
    out.put("qqqqqq", 10**12, 10**12, 0, -300_000_000, cluster_events, 1_000_000)
    out.put("BB", 0, 0)
    out.data += _IO_FEATURES
    leaves: dict[str, int] = {}
    array = out.begin_array(len(branches), 0x4000)
    for branch in branches:
        _branch(out, branch, entries, basket_size, leaves, key_bytes)
    out.end(array)
    array = out.begin_array(len(branches))
    for place in leaves.values():
        out.put("I", place)
    out.end(array)
    # No aliases, indices, friends, user information or branch references.
    out.data += bytes(28)
    out.end(tree)
    return bytes(out.data)


def _branch(
    out: _Buffer,
    branch: BranchFacts,
    entries: int,
    basket_size: int,
    leaves: dict[str, int],
    key_bytes: int,
) -> None:
    letter, _ = _LETTERS[branch.dtype.name]
    dimension = f"[{branch.counter}]" if branch.counter else ""
    count = len(branch.places)
    pointer = out.begin_class("TBranch")
    begun = out.begin(13)
    out.named(branch.name, f"{branch.name}{dimension}/{letter}", _BRANCH_BIT)
    out.data += _FILL
    # With compression level 0, ROOT checks whether each basket is compressed, and so reads both
    # kinds.
    out.put("iiiiq", 0, basket_size, 1000 if branch.counter else 0, count, entries)
    out.data += _IO_FEATURES
    out.put("iIiqqqq", 0, count + 1, 0, entries, 0, branch.memory_bytes, sum(branch.stored))
    out.data += _EMPTY_ARRAY
    array = out.begin_array(1)
    leaves[branch.name] = key_bytes + len(out.data) + _REFERENCE
    _leaf(out, branch, dimension, leaves)
    out.end(array)
    out.data += _EMPTY_ARRAY
    for values, form in (
        ([*branch.stored, 0], ">i4"),
        ([*branch.first_entries, entries], ">i8"),
        ([*branch.places, 0], ">i8"),
    ):
        numbers: npt.NDArray[Any] = np.asarray(values, form)
        out.put("B", 1)
        out.data += numbers.tobytes()
    out.text("")
    out.end(begun)
    out.end(pointer)


def _leaf(out: _Buffer, branch: BranchFacts, dimension: str, leaves: dict[str, int]) -> None:
    letter, limits = _LETTERS[branch.dtype.name]
    pointer = out.begin_class(f"TLeaf{letter.upper()}")
    begun = out.begin(1)
    base = out.begin(2)
    out.named(branch.name, branch.name + dimension, 0)
    out.put("iii??", 1, branch.dtype.itemsize, 0, branch.is_counter, letter.islower())
    out.put("I", leaves[branch.counter] if branch.counter else 0)
    out.end(base)
    out.data += struct.pack(limits, 0, branch.largest if branch.is_counter else 0)
    out.end(begun)
    out.end(pointer)
