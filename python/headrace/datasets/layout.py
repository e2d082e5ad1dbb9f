"""Positions of the baskets or pages of a ROOT file, from which a reading job's requests follow.

The layout of an existing file is read from it. The layout of a data set that does not exist yet is
computed from its first clusters.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import uproot.const

from headrace.datasets.branch_columns import branches_by_path, unique_names
from headrace.datasets.ntuple_columns import field_places
from headrace.datasets.spec import DatasetSpec
from headrace.datasets.trees import opened
from headrace.errors import HeadraceError
from headrace.system.memory_folder import memory_folder

_KEY_HEAD = struct.Struct(">ihiIh")
"""The first fields of a TKey: fNbytes, fVersion, fObjlen, fDatime, fKeylen."""


class Piece(NamedTuple):
    """A basket of a branch, or a page of a column."""

    column: str
    """Branch or field; `NAME.offsets` for the page with the number of objects of each event."""
    first_entry: int
    entries: int
    """Number of events.

    For a page of a collection's values: those of its cluster, as pages end anywhere.
    """
    offset: int
    compressed_bytes: int
    """Bytes to read at `offset`, including the key of a basket. 0 for a basket that lies in the
    tree's own metadata, as of a tree that was written without a flush."""
    uncompressed_bytes: int
    """Bytes after decompression, without a key."""


class FileLayout(NamedTuple):
    """The layout of a whole file."""

    pieces: tuple[Piece, ...]
    """Pieces by column in the order of the tree, then by event."""
    events: int
    file_bytes: int
    metadata_offset: int
    """Start of the tree's metadata (branches and baskets, or header and page lists)."""
    metadata_bytes: int
    header_bytes: int = 0
    """RNTuple: bytes of the header, which the page list and the footer follow. 0 for a TTree."""
    opening: tuple[tuple[int, int], ...] = ()
    """(offset, bytes) of the reads when a file that Headrace did not write is opened.

    Empty for a generated file, whose readers are modelled read by read.
    """
    classes: tuple[tuple[int, int], ...] = ()
    """(offset, bytes) of the class descriptions, which ROOT reads too."""
    folders: tuple[tuple[int, int], ...] = ()
    """(offset, bytes) of the heads and lists of keys of all folders: trees are looked for there."""
    above: tuple[tuple[int, int], ...] = ()
    """Those of the folders above the tree."""
    counted: tuple[tuple[int, int], ...] = ()
    """(offset, bytes) of the other trees, where the events of all were counted to choose one."""


def layout_of_file(path: Path, name: str = "Events") -> FileLayout:
    """Return the layout of the TTree or RNTuple `name` of an existing file.

    Raises HeadraceError for another type of file, and when there is no such tree.
    """
    try:
        with opened(path) as file:
            return _layout_of_tree(path, file, name)
    except HeadraceError as error:
        raise HeadraceError(
            f"{error.message} (its layout cannot be read)", hint=error.hint
        ) from error
    except Exception as error:
        # A damaged file can raise almost any exception from the decoder.
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise HeadraceError(f"{path}: its layout cannot be read: {lines[0]}") from error


def _layout_of_tree(path: Path, file: Any, name: str) -> FileLayout:
    found: Any = file[name]
    events, file_bytes = int(found.num_entries), path.stat().st_size
    if str(found.classname).endswith("RNTuple"):
        anchor = found._members
        begin, header = int(anchor["fSeekHeader"]), int(anchor["fNBytesHeader"])
        end = int(anchor["fSeekFooter"]) + int(anchor["fNBytesFooter"])
        return FileLayout(tuple(_pages(found)), events, file_bytes, begin, end - begin, header)
    key: Any = file.key(name)
    with path.open("rb") as raw:
        pieces = _baskets(found, raw.fileno())
    return FileLayout(tuple(pieces), events, file_bytes, int(key.fSeekKey), int(key.fNbytes))


@dataclass(frozen=True)
class _Planned:
    """A piece without its final offset."""

    piece: Piece
    index: int
    """Number of its column."""
    by_column: bool
    """Pages are stored column by column within a cluster, baskets by their first events."""

    @property
    def reading_order(self) -> tuple[int, int]:
        first = self.piece.first_entry
        return (self.index, first) if self.by_column else (first, self.index)


def _sample_spec(spec: DatasetSpec) -> DatasetSpec:
    from headrace.datasets.file_of_events import file_range
    from headrace.datasets.writing.events_file import cluster_events

    clusters = 1 if spec.shape == "aod" else 2
    start, stop = file_range(spec, 0)
    events = min(stop - start, clusters * cluster_events(spec))
    return spec.model_copy(update={"events": events, "files": 1, "order": "ordered"})


@contextmanager
def sample_file(spec: DatasetSpec) -> Generator[Path]:
    """Yield a small in-memory file: the first clusters of a data set's first file.

    It has every structure that a large file has.
    """
    with _written(_sample_spec(spec)) as path:
        yield path


@contextmanager
def _written(few: DatasetSpec) -> Generator[Path]:
    from headrace.datasets.file_of_events import write_file

    with memory_folder("sample") as directory:
        yield directory / write_file(few, 0, directory, lambda done: None).name


_PAGE_LIST_BYTES_A_PIECE = {"ttree": 7.6, "rntuple": 6.8}
"""Compressed bytes per additional basket or page in the tree's metadata, measured on `bench` files.

The files had 2 and 6 clusters.
"""
_PAGE_CHECKSUM_BYTES = 8


def layout_of_dataset(spec: DatasetSpec) -> FileLayout:
    """Return the layout of a data set's first file without making the data set.

    Its first clusters are written to memory. Clusters like these are placed one after the other (or
    scattered) by the rules and random numbers of the writer. Basket sizes are those of the sample,
    so totals agree with the real file within about one per cent.
    """
    return _layout_of(spec.model_dump_json())


_MOST_PIECES = 5_000_000
"""Most baskets or pages of a simulated file: they take some 2.5 GB of memory."""


@cache
def _sample_layout(few_json: str) -> FileLayout:
    """Return the layout of a sample file: data sets that differ in their length share it."""
    with _written(DatasetSpec.model_validate_json(few_json)) as path:
        return layout_of_file(path)


@lru_cache(maxsize=64)  # a sweep has thousands, of a megabyte each
def _layout_of(spec_json: str) -> FileLayout:
    from headrace.datasets.collisions import stream
    from headrace.datasets.file_of_events import file_range
    from headrace.datasets.writing.events_file import cluster_events
    from headrace.datasets.writing.placement import Placement

    spec = DatasetSpec.model_validate_json(spec_json)
    sample = _sample_layout(_sample_spec(spec).model_dump_json())
    start, stop = file_range(spec, 0)
    events, size = stop - start, cluster_events(spec)
    by_cluster = _clusters(sample.pieces, size, by_column=spec.format == "rntuple")
    whole = [cluster for cluster in by_cluster if cluster.events == size] or by_cluster
    pieces = max(len(cluster.pieces) for cluster in whole) * -(-events // size)
    if pieces > _MOST_PIECES:
        raise HeadraceError(
            f"data: {events:,} events in a file have {pieces:,} baskets or pages; at most "
            f"{_MOST_PIECES:,} are simulated",
            hint="more files, or fewer events",
        )
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
    """The pieces of one cluster; event numbers count from its first event."""

    events: int
    pieces: tuple[_Planned, ...]

    def at(self, first_event: int, events: int) -> list[_Planned]:
        """Return the pieces, starting at `first_event`; a shorter cluster has smaller ones."""
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
    columns = {
        name: index for index, name in enumerate(dict.fromkeys(piece.column for piece in pieces))
    }
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
    """Return every basket or page of the TTree or RNTuple `name` of a file, by column and event.

    Raises HeadraceError for another type of file, and when there is no such tree.
    """
    return list(layout_of_file(path, name).pieces)


def _baskets(tree: Any, descriptor: int) -> list[Piece]:
    pieces: list[Piece] = []
    columns = branches_by_path(tree)
    names = unique_names(list(columns))
    for path, column in columns.items():
        if not column.first:
            continue
        branch = column.branch
        ends = [int(end) for end in branch.entry_offsets]
        embedded = len(branch.embedded_baskets)
        for index, (first, stop) in enumerate(pairwise(ends)):
            if index >= len(ends) - 1 - embedded:
                size = len(branch.basket(index).data)
                pieces.append(Piece(names[path], first, stop - first, 0, 0, size))
                continue
            offset = int(branch.member("fBasketSeek")[index])
            head = os.pread(descriptor, _KEY_HEAD.size, offset)
            _, _, object_bytes, _, _ = _KEY_HEAD.unpack(head)
            stored = int(branch.member("fBasketBytes")[index])
            pieces.append(Piece(names[path], first, stop - first, offset, stored, object_bytes))
    return pieces


def _pages(ntuple: Any) -> list[Piece]:
    pieces: list[Piece] = []
    fields = field_places(ntuple.field_records)
    for number, column in enumerate(ntuple.column_records):
        name, flat = fields[int(column.field_id)].column, fields[int(column.field_id)].once
        if column.type in uproot.const.rntuple_index_types:
            name = f"{name}.offsets"
        for summary, columns in zip(ntuple.cluster_summaries, ntuple.page_link_list, strict=True):
            cluster_first, cluster_entries = int(summary.num_first_entry), int(summary.num_entries)
            # A field that was added late has no pages for the events before.
            pages = columns[number].pages if number < len(columns) else ()
            begin = max(0, cluster_entries - sum(int(page.num_elements) for page in pages))
            for page in pages:
                elements = int(page.num_elements)
                first, entries = (
                    (cluster_first + begin, elements) if flat else (cluster_first, cluster_entries)
                )
                memory = -(-elements * int(column.nbits) // 8)
                place = page.locator
                pieces.append(
                    Piece(name, first, entries, int(place.offset), int(place.num_bytes), memory)
                )
                begin += elements
    return pieces
