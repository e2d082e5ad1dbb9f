"""Where the baskets or pages of a ROOT file lie: what a job that reads given columns must ask the storage for."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any, NamedTuple

import uproot
import uproot.const

from headrace.errors import HeadraceError

_KEY_HEAD = struct.Struct(">ihiIh")
"""The first fields of a TKey: fNbytes, fVersion, fObjlen, fDatime, fKeylen."""


class Piece(NamedTuple):
    """A basket of a branch, or a page of a column."""

    column: str
    """Branch or field; `NAME.offsets` for the page of a field that says how many objects each event has."""
    first_entry: int
    entries: int
    """Events that it holds. For a page of a collection's values: those of its cluster, as pages end anywhere."""
    offset: int
    compressed_bytes: int
    """Bytes to be read at `offset`, the key of a basket included."""
    uncompressed_bytes: int
    """Bytes after decompression, without a key."""


def layout(path: Path, name: str = "Events") -> list[Piece]:
    """Every basket or page of the TTree or RNTuple `name` of a file, by column and event.

    Raises HeadraceError for a file that is none, or has no such tree.
    """
    try:
        opened: Any = {str(path): None}
        file: Any = uproot.open(opened)
        with file:
            found: Any = file[name]
            if str(found.classname).endswith("RNTuple"):
                return _pages(found)
            with path.open("rb") as raw:
                return _baskets(found, raw.fileno())
    except Exception as error:
        # A damaged file can make any part of the decoder fail, each in its own way.
        raise HeadraceError(
            f"{path}: its layout cannot be read: {str(error).strip().splitlines()[0]}"
        ) from error


def _baskets(tree: Any, descriptor: int) -> list[Piece]:
    pieces: list[Piece] = []
    for branch in tree.itervalues(recursive=True):
        count = int(branch.member("fWriteBasket"))
        entries = branch.member("fBasketEntry")
        for index in range(count):
            offset = int(branch.member("fBasketSeek")[index])
            head = os.pread(descriptor, _KEY_HEAD.size, offset)
            _, _, object_bytes, _, _ = _KEY_HEAD.unpack(head)
            first, stop = int(entries[index]), int(entries[index + 1])
            stored = int(branch.member("fBasketBytes")[index])
            pieces.append(Piece(str(branch.name), first, stop - first, offset, stored, object_bytes))
    return pieces


def _pages(ntuple: Any) -> list[Piece]:
    pieces: list[Piece] = []
    fields = ntuple.field_records
    for number, column in enumerate(ntuple.column_records):
        name, flat = _field_path(fields, column.field_id)
        if column.type in uproot.const.rntuple_index_types:
            name, flat = f"{name}.offsets", True
        for summary, columns in zip(ntuple.cluster_summaries, ntuple.page_link_list, strict=True):
            cluster_first, cluster_entries = int(summary.num_first_entry), int(summary.num_entries)
            begin = 0
            for page in columns[number].pages:
                elements = int(page.num_elements)
                first, entries = (
                    (cluster_first + begin, elements) if flat else (cluster_first, cluster_entries)
                )
                memory = -(-elements * int(column.nbits) // 8)
                place = page.locator
                pieces.append(Piece(name, first, entries, int(place.offset), int(place.num_bytes), memory))
                begin += elements
    return pieces


def _field_path(fields: Any, number: int) -> tuple[str, bool]:
    """Name of a field, and whether it has one value an event. The values of a collection go by its own name."""
    names: list[str] = []
    flat = True
    while True:
        record = fields[number]
        if record.field_name == "_0":
            flat = False
        else:
            names.append(str(record.field_name))
        if record.parent_field_id == number:
            return ".".join(reversed(names)), flat
        number = record.parent_field_id
