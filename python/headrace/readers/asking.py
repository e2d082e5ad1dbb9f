"""What a reader requests from the storage for given columns, computed without reading.

The requests follow from a file's layout and the reader's rules:

* uproot reads each basket or page by itself. It first reads those of all columns of a step in the
  order of the tree, then processes them (for up to eight columns, and for pages, one column after
  the other). This changes only the order of reads and CPU work within a step.
* ROOT reads a TTree through TTreeCache. At the first event of a cluster it takes the baskets of all
  columns to be read, of this cluster and of as many further clusters as fit into the cache (1.5
  mean clusters of the whole tree: TTree::GetCacheAutoSize, TTreeCache::FillBuffer). It sorts them
  by offset, joins adjacent ones up to 16 MB (TFileCacheRead::Sort), and reads neighbours in one
  request while they span less than 256 000 bytes (TFile::ReadBuffers).
* For a member of a split collection of a TTree, RDataFrame gives TTreeCache the whole collection,
  so the baskets of all its members are requested.
* ROOT reads an RNTuple cluster by cluster, one cluster ahead in a separate thread (RClusterPool).
  Pages are joined over gaps until the gaps make up a quarter of the bytes needed
  (RPageSourceFile::PrepareSingleCluster).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from headrace.datasets.layout import FileLayout, Piece
from headrace.readers.options import Reader
from headrace.readers.uproot_reader import Share, cut_steps, joined

ByteRange = tuple[int, int]
"""(offset, bytes)."""

JOINED_BYTES = 16_000_000
READ_AHEAD_BYTES = 256_000
CACHE_CLUSTERS = 1.5
GAP_SHARE = 0.25


@dataclass(frozen=True)
class Asked:
    """The reads for one run of events, before the CPU work on them."""

    first_event: int
    events: int
    ranges: tuple[ByteRange, ...]
    pieces: int
    uncompressed_bytes: int


def opening(layout: FileLayout, reader: Reader) -> tuple[ByteRange, ...]:
    """Return the reads when the file is opened: its header and the tree's metadata."""
    if layout.opening:
        return _opening_own(layout, reader)
    end = layout.file_bytes
    if layout.header_bytes:
        header = (layout.metadata_offset, layout.header_bytes)
        lists = (
            layout.metadata_offset + layout.header_bytes,
            layout.metadata_bytes - layout.header_bytes,
        )
        if reader == "uproot":
            return ((0, 403), (1316, 314), (end - 138, 78), header, lists)
        return ((0, 4096), (end - 186, 186), (header[0], 4096), (end - 268, 268), lists)
    metadata = (layout.metadata_offset, layout.metadata_bytes)
    if reader == "uproot":
        return ((0, 403), (1316, 314), metadata)
    streamers = (
        layout.metadata_offset + layout.metadata_bytes,
        end - layout.metadata_offset - layout.metadata_bytes,
    )
    head: tuple[ByteRange, ...] = ((0, 300), (100, 306), streamers)
    # A first open checks that ROOT did not have to recover the file (kernel.hpp, `opened`).
    return (
        (*head, metadata) if reader == "event-loop" else (*head, *head, metadata, *head, metadata)
    )


def _opening_own(layout: FileLayout, reader: Reader) -> tuple[ByteRange, ...]:
    """Return the reads when a file that Headrace did not write is opened (root_own.py).

    ROOT opens it once for the names of its trees, which it looks for in every folder, and once more
    to count the events of several trees. It then opens the tree: a TTree once, an RNTuple
    once for its fields and once for its events.
    """
    file, metadata = layout.opening[:2], layout.opening[2:]
    if reader == "uproot":
        return (*file, *layout.folders, *layout.counted, *metadata)
    head = (*file, *layout.classes)
    searched = (*head, *layout.folders)
    tree = (*head, *layout.above, *metadata)
    if layout.counted:
        searched = (*searched, *tree, *layout.counted)
    if not layout.header_bytes:
        return (*searched, *tree)
    # RDataFrame silently reads a recovered file; it is therefore opened once more.
    checked = head if reader == "rdataframe" else ()
    return (*searched, *checked, *tree, *tree)


def asked(
    layout: FileLayout,
    reader: Reader,
    columns: Sequence[str] | None,
    *,
    step_events: int,
    fraction: float = 1.0,
    cut: bool = False,
    by_cluster: bool = False,
    besides: Collection[str] = (),
) -> list[Asked]:
    """Return the reads of a job over one whole file, per run of events. `columns` None means all.

    With `cut`, uproot divides long clusters into steps, as it does in the user's own files. The
    columns `besides` are requested from storage too, but not used. With `by_cluster` each cluster
    is read for itself: a job that is fed by packets reads some clusters only.
    """
    if besides and columns is not None:
        used, columns = set(columns), [*columns, *besides]
        besides = set(besides) - used
    wanted = _wanted(layout, reader, columns)
    is_ntuple = layout.header_bytes > 0
    ends = _cluster_ends(wanted, layout.events)
    if reader != "uproot":
        # RDataFrame's skim reads the first part of the file (root_skim.py).
        stop = max(1, round(layout.events * fraction))
        ends = [*(end for end in ends if end < stop), stop]
        runs = list(zip([0, *ends[:-1]], ends, strict=True))
        chosen = [(begin, end, _within(wanted, begin, end)) for begin, end in runs]
        return (
            _by_cluster(chosen, gap_share=GAP_SHARE)
            if is_ntuple
            else _cached(chosen, 0.0 if by_cluster else _cache_bytes(layout), besides)
        )
    runs = joined(Share(fraction).runs(0, ends), 1 if by_cluster else step_events)
    if cut:
        runs = cut_steps(runs, step_events)
    if is_ntuple:
        return [_whole_clusters(begin, end, ends, wanted) for begin, end in runs]
    found: list[Asked] = []
    before = 0
    for begin, end in runs:
        pieces = _within(wanted, begin, end)
        if begin == before:  # a basket that began before is still in memory (branch_columns.py)
            pieces = [piece for piece in pieces if piece.first_entry >= begin]
        found.append(_asked(begin, end, _places(pieces), pieces))
        before = end
    return found


def _whole_clusters(begin: int, end: int, ends: Sequence[int], wanted: Sequence[Piece]) -> Asked:
    """Return uproot's pages for a run of events.

    These are the pages of every cluster that it touches, field by field, values before offsets.
    """
    first = max((edge for edge in ends if edge <= begin), default=0)
    last = min(edge for edge in ends if edge >= end)
    fields = {
        name: index for index, name in enumerate(dict.fromkeys(_field(piece) for piece in wanted))
    }
    pieces = sorted(
        _within(wanted, first, last),
        key=lambda piece: (fields[_field(piece)], piece.column.endswith(".offsets")),
    )
    found = _asked(begin, end, _places(pieces), pieces)
    share = (end - begin) / (last - first)
    return replace(found, uncompressed_bytes=round(found.uncompressed_bytes * share))


def _places(pieces: Iterable[Piece]) -> list[ByteRange]:
    """Return the ranges of the pieces that are read by themselves."""
    return [(piece.offset, piece.compressed_bytes) for piece in pieces if piece.compressed_bytes]


def _field(piece: Piece) -> str:
    """Return the top-level field of an RNTuple that a page belongs to."""
    return piece.column.partition(".")[0]


def _asked(begin: int, end: int, ranges: Sequence[ByteRange], pieces: Sequence[Piece]) -> Asked:
    return Asked(
        begin,
        end - begin,
        tuple(ranges),
        len(pieces),
        sum(piece.uncompressed_bytes for piece in pieces),
    )


def _wanted(layout: FileLayout, reader: Reader, columns: Sequence[str] | None) -> list[Piece]:
    if columns is None:
        return list(layout.pieces)
    names = set(columns)
    if reader != "uproot":
        # ROOT reads a collection's counter with its columns; uproot finds offsets in the baskets.
        names |= {f"n{column.partition('_')[0]}" for column in columns}
        names |= {column.partition(".")[0] for column in columns}
    if layout.header_bytes:
        needed = _with_offsets(names)
        return [
            piece
            for piece in layout.pieces
            if piece.column in needed or piece.column.removesuffix(".offsets") in names
        ]
    return [piece for piece in layout.pieces if piece.column in names]


def _with_offsets(names: Collection[str]) -> set[str]:
    """Return columns of an RNTuple, and the offsets of the lists that they are members of."""
    found = set(names)
    for name in names:
        above = name
        while above := above.rpartition(".")[0]:
            found.add(f"{above}.offsets")
    return found


def _cluster_ends(pieces: Iterable[Piece], events: int) -> list[int]:
    """Return the events at which the pieces of all columns end together."""
    common: set[int] | None = None
    by_column: dict[str, set[int]] = {}
    for piece in pieces:
        by_column.setdefault(piece.column, set()).add(piece.first_entry + piece.entries)
    for ends in by_column.values():
        common = ends if common is None else common & ends
    return sorted((common or set()) | {events})


def _within(pieces: Iterable[Piece], begin: int, end: int) -> list[Piece]:
    return [
        piece
        for piece in pieces
        if piece.first_entry < end and piece.first_entry + piece.entries > begin
    ]


def _cache_bytes(layout: FileLayout) -> float:
    clusters = len(_cluster_ends(layout.pieces, layout.events))
    return CACHE_CLUSTERS * sum(piece.compressed_bytes for piece in layout.pieces) / clusters


def _cached(
    runs: list[tuple[int, int, list[Piece]]], cache_bytes: float, besides: Collection[str]
) -> list[Asked]:
    """Return the reads through TTreeCache: each fill takes as many clusters as fit.

    All of a fill is read before the CPU work on its first cluster.
    """
    found: list[Asked] = []
    at = 0
    while at < len(runs):
        taken, size = 0, 0
        while at + taken < len(runs):
            size += sum(piece.compressed_bytes for piece in runs[at + taken][2])
            taken += 1
            if size * (taken + 1) / taken >= cache_bytes:
                break
        fill = runs[at : at + taken]
        pieces = [piece for _, _, cluster in fill for piece in cluster]
        places = sorted(set(_places(pieces)))
        used = [piece for piece in pieces if piece.column not in besides]
        found.append(_asked(fill[0][0], fill[-1][1], read_buffers(places), used))
        at += taken
    return found


def read_buffers(places: Sequence[ByteRange]) -> list[ByteRange]:
    """Return the reads that ROOT makes for these sorted ranges."""
    blocks: list[ByteRange] = []
    for offset, size in places:
        if blocks and sum(blocks[-1]) == offset and blocks[-1][1] + size <= JOINED_BYTES:
            blocks[-1] = (blocks[-1][0], blocks[-1][1] + size)
        else:
            blocks.append((offset, size))
    reads: list[ByteRange] = []
    begin = 0
    while begin < len(blocks):
        start, end = blocks[begin][0], begin
        while end < len(blocks) and sum(blocks[end]) - start < READ_AHEAD_BYTES:
            end += 1
        if end == begin:
            reads.append(blocks[begin])
            begin += 1
        else:
            reads.append((start, sum(blocks[end - 1]) - start))
            begin = end
    return reads


def _by_cluster(runs: list[tuple[int, int, list[Piece]]], gap_share: float) -> list[Asked]:
    """Return the reads of an RNTuple: each cluster's pages, joined over small gaps."""
    return [
        _asked(
            begin,
            end,
            join_over_gaps(sorted(set(_places(pieces))), gap_share),
            pieces,
        )
        for begin, end, pieces in runs
    ]


def join_over_gaps(places: Sequence[ByteRange], gap_share: float) -> list[ByteRange]:
    """Join ranges over the smallest gaps.

    All gaps up to the largest joined size add up to at most `gap_share` of the bytes needed.
    """
    gaps = [place[0] - sum(before) for before, place in pairwise(places)]
    most = gap_share * sum(size for _, size in places)
    cut, current, extra = 0, 0, 0
    for gap in sorted(gaps):
        if gap != current:
            cut, current = current, gap
        extra += gap
        if extra > most:
            break
    else:
        cut = current
    reads: list[ByteRange] = []
    for place, gap in zip(places, [0, *gaps], strict=True):
        if reads and gap <= cut:
            reads[-1] = (reads[-1][0], sum(place) - reads[-1][0])
        else:
            reads.append(place)
    return reads
