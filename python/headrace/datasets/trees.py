"""The trees of a ROOT file: their names, the one that holds the events, and its columns.

A tree is a TTree or an RNTuple. The events themselves are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from headrace.datasets.branch_columns import branches_by_path, unique_names
from headrace.datasets.number_types import numbers_of
from headrace.datasets.spec import Codec, Format
from headrace.datasets.tree_choice import EVENT_TREES, choose_tree, counted_trees
from headrace.datasets.unreadable import check_head, damaged, unclosed, unreadable
from headrace.errors import HeadraceError

MARKS: dict[bytes, Codec] = {
    b"ZL": "zlib",
    b"XZ": "lzma",
    b"L4": "lz4",
    b"ZS": "zstd",
    b"CS": "zlib",
}
"""ROOT's mark of a compressed block."""


_Found = TypeVar("_Found")

_TTREES = ("TTree", "TNtuple", "TNtupleD")
"""TTree, and ROOT's classes of it for numbers alone (`TNtuple::Fill(x, y, …)`)."""


@dataclass(frozen=True)
class Column:
    """A branch of a TTree with baskets of its own, or a field of an RNTuple (ntuple_columns.py).

    Of a branch with several leaves, each leaf is a column: `branch.leaf`.
    """

    name: str
    """Unique in the tree: the branch's own name, or its path when the name is ambiguous."""
    path: str
    """Path from the tree, as uproot names it."""
    kind: Literal["numbers", "objects", "unknown"]
    """numbers: one or several of a type per event. objects: uproot may deserialise them.

    unknown: uproot cannot deserialise them.
    """
    stored_bytes: int
    """With `memory_bytes` and `pieces`: all those of a branch's leaves belong to the first leaf."""
    memory_bytes: int
    pieces: int
    """Number of baskets of a branch, or of pages of a field."""
    flat: bool
    """Whether an event has one number or one list of numbers, not lists of arrays or lists."""
    in_frames: bool
    """Whether RDataFrame reads it: `flat`, or an array that it takes for a list."""
    beyond_loops: str
    """What keeps its numbers out of reach of ROOT's event loop; empty when nothing does."""
    requested: str
    """Name of the column to which the baskets or pages belong that are read for this one."""


@dataclass(frozen=True)
class TreeFacts:
    """A tree and its file."""

    file: Path
    name: str
    format: Format
    events: int
    columns: tuple[Column, ...]
    codec: Codec
    level: int
    """Compression level; 0 means not compressed."""
    clusters: int
    """Runs of events whose baskets, or pages, end together in every column."""
    counted: tuple[str, ...] = ()
    """The trees whose events were counted to choose this one; empty when its name was enough."""

    @property
    def chosen_by_events(self) -> str:
        """How the tree was chosen by its events, as a note; empty when it was not."""
        if not self.counted:
            return ""
        which = "most" if self.counted[0].rpartition("/")[2] in EVENT_TREES else "the only one"
        return f" ({which} of {len(self.counted)} trees{'' if which == 'most' else ' with events'})"

    def column(self, name: str) -> Column | None:
        """Return the column with this name or path."""
        return next((column for column in self.columns if name in (column.name, column.path)), None)


@contextmanager
def opened(path: Path) -> Generator[Any]:
    """Open a ROOT file. Raises HeadraceError with the file's problem."""
    # Imported on first use: studies of generated events need no uproot before their jobs.
    import uproot

    from headrace.datasets.uproot_repairs import repair_uproot

    repair_uproot()
    located: Any = {
        str(path): None
    }  # a mapping: a colon in the name does not start a path within the file
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "is a directory")
        check_head(path)
        handle: Any = uproot.open(located)
    except OSError as error:
        if error.errno is None:  # uproot's own, of a file that ends too early
            raise damaged(path, error) from error
        raise HeadraceError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    except HeadraceError:
        raise
    except Exception as error:
        # A damaged file can raise almost any exception from the decoder.
        raise damaged(path, error) from error
    with handle:
        yield handle


def tree_names(handle: Any) -> dict[str, str]:
    """Return name (with directory) and class of every tree of an open file, last cycles only."""
    names: dict[str, tuple[int, str]] = {}
    for key, kind in handle.classnames(recursive=True, cycle=True).items():
        name, _, cycle = str(key).rpartition(";")
        if (kind in _TTREES or str(kind).endswith("RNTuple")) and int(cycle) > names.get(
            name, (0, "")
        )[0]:
            names[name] = (int(cycle), str(kind))
    return {name: kind for name, (_, kind) in names.items()}


def chosen_tree(handle: Any, wanted: str | None) -> str:
    """Return the name of the tree of an open file that jobs read (see `choose_tree`)."""
    file = str(handle.file.file_path)
    names = _names_in(handle, file)
    if not names:
        raise HeadraceError(f"{file}: has no TTree or RNTuple{unclosed(handle)}")
    return choose_tree(names, wanted, file, lambda some: [_count(handle, name) for name in some])


def _names_in(handle: Any, file: str) -> dict[str, str]:
    try:
        return tree_names(handle)
    except Exception as error:
        # A damaged folder of the file can raise almost any exception from the decoder.
        raise damaged(Path(file), error) from error


def _count(handle: Any, name: str) -> int:
    try:
        return int(handle[name].num_entries)
    except Exception as error:
        raise unreadable(handle, name, error) from error


def look_over(path: Path, tree: str | None) -> str:
    """Return the name of the tree that jobs read, without reading the tree.

    Raises HeadraceError for a file that jobs could not read.
    """
    status = path.stat()
    return _looked_over(path, status.st_size, status.st_mtime_ns, tree)


@lru_cache(maxsize=100_000)
def _looked_over(path: Path, size: int, mtime_ns: int, tree: str | None) -> str:
    with opened(path) as handle:
        return chosen_tree(handle, tree)


def names_in(path: Path) -> list[str]:
    """Return the names of a file's trees. Raises HeadraceError for a file that cannot be read."""
    with opened(path) as handle:
        return list(_names_in(handle, str(path)))


def events_of(path: Path, tree: str | None) -> int:
    """Return the number of events in the tree that jobs read.

    Raises HeadraceError for a file that cannot be read.
    """
    return _events(path, *_state(path), tree)


@lru_cache(maxsize=100_000)
def _events(path: Path, size: int, mtime_ns: int, tree: str | None) -> int:
    return _summary(path, size, mtime_ns, tree)[0]


def column_names(path: Path, tree: str | None) -> tuple[str, ...]:
    """Return the names of the columns of the tree that jobs read.

    Raises HeadraceError for a file that cannot be read.
    """
    return _summary(path, *_state(path), tree)[1]


def _state(path: Path) -> tuple[int, int]:
    """Return the size and the modification time (ns). Raises HeadraceError without such a file."""
    try:
        status = path.stat()
    except OSError as error:
        raise HeadraceError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    return status.st_size, status.st_mtime_ns


@lru_cache(maxsize=64)  # names take memory: more than the files that are looked into at once
def _summary(path: Path, size: int, mtime_ns: int, tree: str | None) -> tuple[int, tuple[str, ...]]:
    """Return the number of events, and the names of the columns."""

    def names(found: Any) -> tuple[str, ...]:
        if str(found.classname).endswith("RNTuple"):
            from headrace.datasets.ntuple_columns import column_of_field

            return tuple(dict.fromkeys(column_of_field(found).values()))
        return tuple(unique_names(list(branches_by_path(found))).values())

    return _opened_tree(path, tree, lambda found: (int(found.num_entries), names(found)))


def first_cluster_events(path: Path, tree: str | None) -> int:
    """Return the events of the first cluster, which jobs that share a file should not divide.

    Raises HeadraceError for a file that cannot be read.
    """

    def first(found: Any) -> int:
        if str(found.classname).endswith("RNTuple"):
            return int(found.cluster_summaries[0].num_entries) if found.num_entries else 1
        ends = [int(end) for end in found.common_entry_offsets()]
        return max(1, ends[1]) if len(ends) > 1 else max(1, int(found.num_entries))

    return _opened_tree(path, tree, first)


def _opened_tree(path: Path, tree: str | None, asked: Callable[[Any], _Found]) -> _Found:
    with opened(path) as handle:
        name = chosen_tree(handle, tree)
        try:
            return asked(handle[name])
        except Exception as error:
            raise unreadable(handle, name, error) from error


def tree_facts(path: Path, tree: str | None) -> TreeFacts:
    """Return the facts of a file's event tree. Raises HeadraceError for an unreadable file."""
    return _facts(path, *_state(path), tree)


@lru_cache(maxsize=1000)
def _facts(path: Path, size: int, mtime_ns: int, tree: str | None) -> TreeFacts:
    with opened(path) as handle:
        name = chosen_tree(handle, tree)
        try:
            found: Any = handle[name]
            is_ntuple = str(found.classname).endswith("RNTuple")
            columns = tuple(ntuple_columns(found) if is_ntuple else _branch_columns(found))
            codec, level = _compression(path, handle, None if is_ntuple else found)
            clusters = len(found.cluster_summaries) if is_ntuple else _clusters(found)
            events = int(found.num_entries)
            counted = tuple(counted_trees(tree_names(handle), tree))
        except Exception as error:
            raise unreadable(handle, name, error) from error
        format_: Format = "rntuple" if is_ntuple else "ttree"
        return TreeFacts(path, name, format_, events, columns, codec, level, clusters, counted)


def _clusters(tree: Any) -> int:
    common: set[int] | None = None
    for column in branches_by_path(tree).values():
        ends = {int(end) for end in column.branch.entry_offsets[1:]}
        common = ends if common is None else common & ends
    return max(1, len(common or ()))


def _branch_columns(tree: Any) -> Iterator[Column]:
    """Yield the columns of a TTree."""
    columns = branches_by_path(tree)
    names = unique_names(list(columns))
    first = ""
    for path, column in columns.items():
        branch = column.branch
        first = names[path] if column.first else first
        sizes = branch.member("fZipBytes"), branch.member("fTotBytes"), branch.num_baskets
        stored, memory, pieces = map(int, sizes) if column.first else (0, 0, 0)
        reads = column.flat, column.in_frames, column.beyond_loops
        yield Column(names[path], path, column.kind, stored, memory, pieces, *reads, first)


def ntuple_columns(ntuple: Any) -> Iterator[Column]:
    """Yield the columns of an RNTuple: top-level fields, and members of records."""
    from headrace.datasets.ntuple_columns import column_of_field, fields_of

    plain = fields_of(ntuple)
    stored: dict[str, int] = {}
    memory: dict[str, int] = {}
    pieces: dict[str, int] = {}
    of_field = column_of_field(ntuple)
    for number, record in enumerate(ntuple.column_records):
        name = of_field[int(record.field_id)]
        for columns in ntuple.page_link_list:
            for page in columns[number].pages if number < len(columns) else ():
                pieces[name] = pieces.get(name, 0) + 1
                stored[name] = stored.get(name, 0) + int(page.locator.num_bytes)
                bits = abs(int(page.num_elements)) * int(record.nbits)
                memory[name] = memory.get(name, 0) + -(-bits // 8)
    for name in dict.fromkeys(of_field.values()):
        field = plain.get(name)
        kind = "objects" if field is None else "numbers"
        flat = field is not None and numbers_of(field.type_name) is not None
        is_array = field is not None and field.is_array and numbers_of(field.number) is not None
        sizes = stored.get(name, 0), memory.get(name, 0), pieces.get(name, 0)
        yield Column(name, name, kind, *sizes, flat, flat or is_array, "", name)


def said_compression(handle: Any) -> tuple[Codec, int]:
    """Return the codec and level in the file's header; the level is at most 9."""
    return codec_of(int(handle.file.fCompress))


def codec_of(code: int) -> tuple[Codec, int]:
    """Return the codec and level of ROOT's number for both; the level is at most 9."""
    by_number: dict[int, Codec] = {1: "zlib", 2: "lzma", 4: "lz4", 5: "zstd"}
    return by_number.get(code // 100, "zlib"), min(code % 100, 9)


def _compression(path: Path, handle: Any, tree: Any | None) -> tuple[Codec, int]:
    """Return the events' compression: from the first baskets or, for RNTuple, the header."""
    said = said_compression(handle)
    if tree is None:
        return said
    with path.open("rb") as file:
        for branch in (column.branch for column in branches_by_path(tree).values()):
            written = branch.member("fBasketSeek")[: int(branch.member("fWriteBasket"))]
            for place in written[written > 0]:  # the others lie in the tree's metadata
                file.seek(int(place))
                head = file.read(16)
                file.seek(int(place) + int.from_bytes(head[14:16], "big"))
                if (codec := MARKS.get(file.read(2))) is not None:
                    return codec, said[1] or 1
    return said[0], 0
