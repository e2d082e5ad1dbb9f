"""Where the baskets or pages of a ROOT file lie: what a job that reads given columns must ask the storage for.

The layout of a file that is there is read from it; that of a data set that is not made yet follows from its first clusters.
"""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import uproot
import uproot.const

from headrace.datasets.spec import DatasetSpec
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


class FileLayout(NamedTuple):
    """A whole file."""

    pieces: tuple[Piece, ...]
    """Columns in the order of the tree, each by event."""
    events: int
    file_bytes: int
    metadata_offset: int
    """Where the tree's own metadata begins (branches and their baskets, or header and page lists): read when it is opened."""
    metadata_bytes: int
    header_bytes: int = 0
    """RNTuple: of those, the header; the page list and the footer follow. 0 for a TTree."""


def layout_of_file(path: Path, name: str = "Events") -> FileLayout:
    """The layout of a file that is there. Raises HeadraceError as `layout` does."""
    pieces = layout(path, name)
    file_bytes = path.stat().st_size
    opened: Any = {str(path): None}
    file: Any = uproot.open(opened)
    with file:
        found: Any = file[name]
        events = int(found.num_entries)
        if str(found.classname).endswith("RNTuple"):
            anchor = found._members
            begin, header = int(anchor["fSeekHeader"]), int(anchor["fNBytesHeader"])
            end = int(anchor["fSeekFooter"]) + int(anchor["fNBytesFooter"])
            return FileLayout(tuple(pieces), events, file_bytes, begin, end - begin, header)
        key: Any = file.key(name)
        place, stored = int(key.fSeekKey), int(key.fNbytes)
    return FileLayout(tuple(pieces), events, file_bytes, place, stored)


@dataclass(frozen=True)
class _Planned:
    """A piece that is still to be placed."""

    piece: Piece
    index: int
    """Number of its column."""
    by_column: bool
    """Pages lie column by column in a cluster, baskets by their first events."""

    @property
    def reading_order(self) -> tuple[int, int]:
        first = self.piece.first_entry
        return (self.index, first) if self.by_column else (first, self.index)


@contextmanager
def sample_file(spec: DatasetSpec) -> Generator[Path]:
    """The first clusters of a data set's first file, written to memory: a small file with everything that a large one has."""
    from headrace.datasets.file_of_events import file_range, write_file
    from headrace.datasets.writing.events_file import cluster_events

    clusters = 1 if spec.shape == "aod" else 2
    start, stop = file_range(spec, 0)
    events = min(stop - start, clusters * cluster_events(spec))
    few = spec.model_copy(update={"events": events, "files": 1, "order": "ordered"})
    memory = Path("/dev/shm")
    place = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="headrace-sample-", dir=place) as directory:
        yield Path(directory) / write_file(few, 0, Path(directory), lambda done: None).name


_PAGE_LIST_BYTES_A_PIECE = {"ttree": 7.6, "rntuple": 6.8}
"""Compressed bytes that each further basket or page takes in the tree's metadata: measured on `bench` files of 2 and 6 clusters."""
_PAGE_CHECKSUM_BYTES = 8


def layout_of_dataset(spec: DatasetSpec) -> FileLayout:
    """The layout that the first file of a data set has, without making the data set: its first clusters are written to memory, and
    clusters like these are placed one behind the other (or scattered) by the rules and random numbers of the writer.

    Sizes of baskets are those of the sample, so that totals agree with the real file within a per cent or so.
    """
    return _layout_of(spec.model_dump_json())


@cache
def _layout_of(spec_json: str) -> FileLayout:
    from headrace.datasets.collisions import stream
    from headrace.datasets.file_of_events import file_range
    from headrace.datasets.writing.events_file import cluster_events
    from headrace.datasets.writing.placement import Placement

    spec = DatasetSpec.model_validate_json(spec_json)
    with sample_file(spec) as path:
        sample = layout_of_file(path)
    start, stop = file_range(spec, 0)
    events, size = stop - start, cluster_events(spec)
    by_cluster = _clusters(sample.pieces, size, by_column=spec.format == "rntuple")
    whole = [cluster for cluster in by_cluster if cluster.events == size] or by_cluster
    placement: Placement[_Planned] = Placement(spec.order, stream(spec.seed, "placement", 0))
    after = _PAGE_CHECKSUM_BYTES if spec.format == "rntuple" else 0
    end = min(piece.offset for piece in sample.pieces)
    placed: list[_Planned] = []

    def put(due: list[_Planned]) -> None:
        nonlocal end
        for each in due:
            placed.append(_Planned(each.piece._replace(offset=end), each.index, each.by_column))
            end += each.piece.compressed_bytes + after

    for number, first in enumerate(range(0, events, size)):
        put(placement.add(whole[number % len(whole)].at(first, min(size, events - first))))
    put(placement.rest())
    placed.sort(key=lambda each: (each.index, each.piece.first_entry, each.piece.offset))
    growth = _PAGE_LIST_BYTES_A_PIECE[spec.format] * (len(placed) - len(sample.pieces))
    metadata = max(sample.metadata_bytes // 2, sample.metadata_bytes + round(growth))
    rest = sample.file_bytes - sample.metadata_offset - sample.metadata_bytes
    return FileLayout(
        tuple(each.piece for each in placed),
        events,
        end + metadata + rest,
        end,
        metadata,
        sample.header_bytes,
    )


@dataclass(frozen=True)
class _Cluster:
    """The pieces of one cluster, their events counted from its first."""

    events: int
    pieces: tuple[_Planned, ...]

    def at(self, first_event: int, events: int) -> list[_Planned]:
        """The same for the events from `first_event` on; a shorter cluster has shorter pieces."""
        found: list[_Planned] = []
        for planned in self.pieces:
            piece = planned.piece
            kept = min(piece.entries, events - piece.first_entry)
            if kept <= 0:
                continue
            share = kept / piece.entries
            moved = piece._replace(
                first_entry=first_event + piece.first_entry,
                entries=kept,
                compressed_bytes=max(1, round(piece.compressed_bytes * share)),
                uncompressed_bytes=max(1, round(piece.uncompressed_bytes * share)),
            )
            found.append(_Planned(moved, planned.index, planned.by_column))
        return found


def _clusters(pieces: tuple[Piece, ...], size: int, *, by_column: bool) -> list[_Cluster]:
    columns = {name: index for index, name in enumerate(dict.fromkeys(piece.column for piece in pieces))}
    grouped: dict[int, list[_Planned]] = {}
    for piece in pieces:
        number = piece.first_entry // size
        within = piece._replace(first_entry=piece.first_entry - number * size)
        grouped.setdefault(number, []).append(_Planned(within, columns[piece.column], by_column))
    return [
        _Cluster(max(each.piece.first_entry + each.piece.entries for each in group), tuple(group))
        for _, group in sorted(grouped.items())
    ]


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
