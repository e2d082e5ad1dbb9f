"""Write an RNTuple as ROOT does: pages of chosen size and position, then the metadata.

Format: ROOT's `tree/ntuple/doc/BinaryFormatSpecification.md`, version 1.0. Columns are encoded as
ROOT does when it compresses: split into bytes of equal significance, offsets as differences, signed
integers zigzag. Every page has its checksum.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import awkward as ak
import numpy as np
import uproot
import uproot.compression
import uproot.const
import xxhash
from uproot.writing import _cascadentuple as cascade_ntuple

from headrace.datasets.table import Array, Table, columns_of
from headrace.datasets.writing.placement import Placement
from headrace.datasets.writing.rootfile import RootFile

_BLOB_BYTES = 1 << 28
"""Maximum size of the pages behind one key; a key's length is a signed 32-bit number."""
_CHECKSUM = struct.Struct("<Q")
_PAGE = struct.Struct("<iiQ")
"""A page in a page list: minus the number of elements (minus: a checksum follows), position."""

_PLAIN = {"int8": "int8", "uint8": "uint8", "bool": "bit"}
_SPLIT = {
    "int16": "splitint16",
    "uint16": "splituint16",
    "int64": "splitint64",
    "int32": "splitint32",
    "uint32": "splituint32",
    "uint64": "splituint64",
    "float32": "splitreal32",
    "float64": "splitreal64",
}


@dataclass
class _Column:
    """A column while it is written."""

    index: int
    encoding: str
    elements: int = 0
    """Number of elements in all clusters so far."""


@dataclass
class _Page:
    column: _Column
    first_element: int
    """Number of its first element within the cluster."""
    elements: int
    data: bytes
    """Encoded page; emptied after writing."""
    size: int
    place: int = 0

    @property
    def reading_order(self) -> tuple[int, int]:
        return (self.column.index, self.first_element)


@dataclass
class _Cluster:
    first_entry: int
    entries: int
    first_elements: list[int]
    pages: list[list[_Page]] = field(default_factory=list[list[_Page]])


class _PageRecord:
    """A page in a page list, in the form that uproot's serialiser accepts."""

    def __init__(self, page: _Page) -> None:
        self._bytes = _PAGE.pack(-page.elements, page.size - _CHECKSUM.size, page.place)

    def serialize(self) -> bytes:
        return self._bytes


class _Header(cascade_ntuple.NTuple_Header):  # pyright: ignore[reportUntypedBaseClass]
    """uproot's header with the column types that ROOT uses for compressed data."""

    def generate_field_col_records(self) -> None:
        super().generate_field_col_records()
        codes = uproot.const.rntuple_col_type_to_num_dict
        sizes = uproot.const.rntuple_col_num_to_size_dict
        names = {code: name for name, code in codes.items()}
        for column in self._column_records:
            split = {
                "index64": "splitindex64",
                "real32": "splitreal32",
                "real64": "splitreal64",
            }.get(names[column.type_num], f"split{names[column.type_num]}")
            if split in codes:
                column.type_num = codes[split]
                column.bits_on_disk = sizes[codes[split]]


def encode(values: Array, encoding: str) -> bytes:
    """Return a page's uncompressed elements, encoded as in `_PLAIN`, `_SPLIT` or `splitindex64`."""
    if encoding == "bit":
        return np.packbits(values.astype(np.uint8), bitorder="little").tobytes()
    if encoding in _PLAIN.values():
        return values.tobytes()
    if encoding == "splitindex64":
        values = np.diff(values.astype(np.int64), prepend=np.int64(0))
    elif encoding.startswith("splitint"):
        values = (values << 1) ^ (values >> (8 * values.itemsize - 1))
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return little.view(np.uint8).reshape(len(little), little.itemsize).T.tobytes()


class NtupleWriter:
    """Writes one RNTuple to a ROOT file, cluster by cluster, then `finish`."""

    def __init__(
        self, file: RootFile, name: str, table: Table, page_bytes: int, placement: Placement[_Page]
    ) -> None:
        """Take the columns from `table`; its events are not written."""
        self._file = file
        self._name = name
        self._page_bytes = page_bytes
        self._placement: Placement[_Page] = placement
        self._entries = 0
        self._clusters: list[_Cluster] = []
        self._columns: dict[str, list[_Column]] = {}
        forms: dict[str, object] = {}
        count = 0
        for column, dtype, collection in columns_of(table):
            content = ak.forms.NumpyForm(dtype.name)
            forms[column] = ak.forms.ListOffsetForm("i64", content) if collection else content
            encodings = [
                *(["splitindex64"] if collection else []),
                _PLAIN.get(dtype.name) or _SPLIT[dtype.name],
            ]
            self._columns[column] = [
                _Column(count + index, encoding) for index, encoding in enumerate(encodings)
            ]
            count += len(encodings)
        form = ak.forms.RecordForm(list(forms.values()), list(forms))
        self._header: Any = _Header(None, name, "", form)

    def write_cluster(self, table: Table) -> None:
        """Append the events of `table` as one cluster."""
        flat = [column for columns in self._columns.values() for column in columns]
        cluster = _Cluster(self._entries, table.events, [column.elements for column in flat])
        for name, values in table.scalars.items():
            cluster.pages.append(self._pages(self._columns[name][0], values))
        for collection, counts in table.counts.items():
            cluster.pages.append(self._pages(self._columns[f"n{collection}"][0], counts))
            ends = np.cumsum(counts, dtype=np.int64)
            for name, (of, values) in table.objects.items():
                if of == collection:
                    offsets, content = self._columns[name]
                    cluster.pages += [self._pages(offsets, ends), self._pages(content, values)]
        self._clusters.append(cluster)
        self._entries += table.events
        self._put(self._placement.add([page for pages in cluster.pages for page in pages]))

    def finish(self) -> None:
        """Write the delayed pages, the page lists, the footer and the anchor."""
        self._put(self._placement.rest())
        code = (self._file.compression or uproot.compression.ZLIB(0)).code
        header_bytes: bytes = self._header.serialize()
        header = self._blob(header_bytes)
        lists = cascade_ntuple.NTuple_PageListEnvelope(
            self._header._checksum,
            [
                cascade_ntuple.NTuple_ClusterSummary(cluster.first_entry, cluster.entries)
                for cluster in self._clusters
            ],
            [
                [
                    cascade_ntuple.NTuple_ColumnPageListDescription(
                        [_PageRecord(page) for page in pages], first, code
                    )
                    for pages, first in zip(cluster.pages, cluster.first_elements, strict=True)
                ]
                for cluster in self._clusters
            ],
        ).serialize()
        place, stored = self._blob(lists)
        link = cascade_ntuple.NTuple_EnvLink(
            len(lists), cascade_ntuple.NTuple_Locator(stored, place)
        )
        footer: Any = cascade_ntuple.NTuple_Footer(None, self._header._checksum)
        footer.cluster_group_record_frames.append(
            cascade_ntuple.NTuple_ClusterGroupRecord(0, self._entries, len(self._clusters), link)
        )
        footer_bytes: bytes = footer.serialize()
        end = self._blob(footer_bytes)
        anchor: Any = cascade_ntuple.NTuple_Anchor(
            None,
            *uproot.const.rntuple_version_for_writing,
            *header,
            len(header_bytes),
            *end,
            len(footer_bytes),
            _BLOB_BYTES * 2,
        )
        data: bytes = anchor.serialize()
        self._file.add_object("ROOT::RNTuple", self._name, "", data, len(data), big=None)

    def _pages(self, column: _Column, values: Array) -> list[_Page]:
        size = 8 if column.encoding == "splitindex64" else values.itemsize
        step = max(1, self._page_bytes // size)
        pages: list[_Page] = []
        for start in range(0, len(values), step):
            run = values[start : start + step]
            data = bytes(
                uproot.compression.compress(encode(run, column.encoding), self._file.compression)
            )
            sealed = data + _CHECKSUM.pack(xxhash.xxh3_64_intdigest(data))
            pages.append(_Page(column, start, len(run), sealed, len(sealed)))
        column.elements += len(values)
        return pages

    def _put(self, pages: list[_Page]) -> None:
        """Write pages one after the other, up to `_BLOB_BYTES` behind one key."""
        start = 0
        while start < len(pages):
            stop, size = start, 0
            while stop < len(pages) and (stop == start or size + pages[stop].size <= _BLOB_BYTES):
                size += pages[stop].size
                stop += 1
            place = self._reserve(size)
            position = place
            for page in pages[start:stop]:
                page.place = position
                position += page.size
            self._file.write(place, b"".join(page.data for page in pages[start:stop]))
            for page in pages[start:stop]:
                page.data = b""
            start = stop

    def _reserve(self, size: int) -> int:
        """Reserve `size` bytes behind a new key; return their offset."""
        strings_bytes = 8  # "RBlob" and two empty strings, each with its length
        key_bytes = uproot.reading._key_format_big.size + strings_bytes  # pyright: ignore
        location = self._file.allocate(key_bytes + size)
        key: Any = cascade_ntuple.RBlob_Key(location, size, size, big=True)
        self._file.write(location, key.serialize())
        return location + key_bytes

    def _blob(self, data: bytes) -> tuple[int, int]:
        """Write a compressed envelope; return its offset and its bytes in the file."""
        packed = bytes(uproot.compression.compress(data, self._file.compression))
        place = self._reserve(len(packed))
        self._file.write(place, packed)
        return place, len(packed)
