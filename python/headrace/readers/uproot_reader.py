"""Read columns of ROOT files with uproot, a few clusters at a time, in one thread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import awkward as ak
import uproot

from headrace.datasets.ntuple_columns import fields_of, read_field
from headrace.datasets.writing.events_file import TREE_NAME
from headrace.errors import HeadraceError
from headrace.readers.counted_source import AccessMethod, counted_source
from headrace.readers.counts import ReadCounts
from headrace.readers.spans import Span

FEW_COLUMNS = 8
"""Up to this many columns are read one by one: each `TTree.arrays` call searches all branches."""


@dataclass(frozen=True)
class Chunk:
    """Some consecutive events of one file."""

    span: Span
    events: int
    columns: dict[str, Any]
    """Awkward arrays by column name, each with `events` entries."""


@contextmanager
def readable(file: str) -> Generator[None]:
    """Turn any failure while a ROOT file is read into one HeadraceError that names the file."""
    try:
        yield
    except HeadraceError:
        raise
    except FileNotFoundError as error:
        raise HeadraceError(f"{file}: no such file") from error
    except PermissionError as error:
        raise HeadraceError(f"{file}: no permission to read it") from error
    except MemoryError as error:
        raise HeadraceError(f"{file}: not enough memory to read it, or damaged") from error
    except OSError as error:
        if error.errno is None:  # of uproot: a part that the file does not have
            raise HeadraceError(f"{file}: {_damaged(error)}") from error
        cause = error.strerror or str(error)
        raise HeadraceError(f"{file}: cannot be read: {cause}") from error
    except Exception as error:
        # A damaged file can raise almost any exception from the decoder.
        raise HeadraceError(f"{file}: {_damaged(error)}") from error


def _damaged(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    cause = lines[0][:200] if lines else type(error).__name__
    return f"damaged, or no ROOT file with events: {cause}"


class UprootReader:
    """Reads spans of events. One reader per job; it closes each file before it opens the next."""

    def __init__(
        self,
        access: AccessMethod,
        step_events: int,
        counts: ReadCounts,
        opener: Callable[[str, AccessMethod, ReadCounts], OpenFile] | None = None,
    ) -> None:
        """`opener` opens a file; by default one of a generated data set."""
        self._access: AccessMethod = access
        self._step_events = step_events
        self._counts = counts
        self._opener = opener or OpenEventsFile
        self._open: OpenFile | None = None

    def read(
        self, span: Span, columns: Sequence[str] | None, share: Share | None = None
    ) -> Iterator[Chunk]:
        """Yield the events of a span, in order, in chunks that end where clusters end.

        `columns` holds names, or patterns for the user's own files; None means all. With a `share`,
        clusters are left out. Raises HeadraceError for a file that cannot be read completely and
        for a missing column.
        """
        with readable(span.file):
            opened = self._opened(span.file)
            total = opened.events
            columns = opened.chosen(columns)
            stop = total if span.events is None else span.first_event + span.events
            if stop > total:
                raise HeadraceError(
                    f"{span.file}: has {total} events, but events up to {stop} were to be read"
                )
            clusters = [
                edge for edge in opened.cluster_ends(columns) if span.first_event < edge < stop
            ]
            runs = (share or Share(1.0)).runs(span.first_event, [*clusters, stop])
            steps = opened.steps(joined(runs, self._step_events), self._step_events)
        for begin, end in steps:
            with readable(span.file):
                chunk = opened.arrays(columns, begin, end)
                for column, array in chunk.items():
                    if len(array) != end - begin:
                        raise HeadraceError(
                            f"{span.file}: {column} has {len(array)} of events {begin} to {end}"
                        )
            sizes = (event_bytes(array, opened.offset_bytes) for array in chunk.values())
            self._counts.bytes_uncompressed += sum(sizes) + opened.bytes_besides()
            yield Chunk(Span(span.file, begin, end - begin), end - begin, chunk)

    def close(self) -> None:
        """Close the open file."""
        if self._open is not None:
            self._open.handle.close()
            self._open = None

    def _opened(self, file: str) -> OpenFile:
        """Return the open file, opening it unless it was the last one opened."""
        if self._open is None or self._open.file != file:
            self.close()
            self._open = self._opener(file, self._access, self._counts)
        return self._open


class OpenFile(ABC):
    """An open ROOT file and its tree of events."""

    offset_bytes: int
    """Bytes of one offset of a collection's column, in the file's format."""

    def __init__(self, file: str, access: AccessMethod, counts: ReadCounts) -> None:
        """Open the file. Raises HeadraceError for a truncated file, and any exception of uproot."""
        self.file = file
        located: Any = {
            file: None
        }  # a mapping: a colon in the name does not start a path within the file
        self.handle: Any = uproot.open(located, handler=counted_source(file, access, counts))
        try:
            end, size = int(self.handle.file.fEND), int(self.handle.file.source.num_bytes)
            if size < end:
                raise HeadraceError(
                    f"{file}: truncated: {size} bytes long, but its header says {end}"
                )
            self._tree: Any = self.handle[self.tree_name()]
            self._ntuple = str(self._tree.classname).endswith("RNTuple")
            self._fields = fields_of(self._tree) if self._ntuple else {}
            self.offset_bytes = 8 if self._ntuple else 4
            self.events = int(self._tree.num_entries)
            self._look()
        except BaseException:
            self.handle.close()
            raise

    def tree_name(self) -> str:
        """Return the name of the tree to read."""
        return TREE_NAME

    @abstractmethod
    def _look(self) -> None:
        """Find the columns of the tree."""

    @abstractmethod
    def chosen(self, columns: Sequence[str] | None) -> Sequence[str]:
        """Return the columns to read. Raises HeadraceError for one that the tree does not have."""

    @abstractmethod
    def arrays(self, columns: Sequence[str], start: int, stop: int) -> dict[str, Any]:
        """Return these columns of the events `start <= event < stop`, if available as arrays."""

    @abstractmethod
    def cluster_ends(self, columns: Sequence[str]) -> list[int]:
        """Return the events at which the baskets of all these columns end together, ascending.

        The last one is the number of events.
        """

    def steps(self, steps: list[tuple[int, int]], step_events: int) -> list[tuple[int, int]]:
        """Return the steps in which runs of whole clusters are read."""
        return steps

    def bytes_besides(self) -> int:
        """Return the uncompressed bytes that the last step read outside its arrays."""
        return 0


class OpenEventsFile(OpenFile):
    """A file of a generated data set."""

    def _look(self) -> None:
        self.columns: list[str] = list(self._fields) if self._ntuple else list(self._tree.keys())
        self._branches: dict[str, Any] = {}

    def chosen(self, columns: Sequence[str] | None) -> Sequence[str]:
        """Return all columns, or those named."""
        if columns is None:
            return self.columns
        if missing := sorted(set(columns) - set(self.columns)):
            raise HeadraceError(f"{self.file}: no column {', '.join(missing)} in {TREE_NAME}")
        return columns

    def arrays(self, columns: Sequence[str], start: int, stop: int) -> dict[str, Any]:
        """Return these columns of the events `start <= event < stop`."""
        if self._ntuple:
            known: dict[tuple[int, int, int], Any] = {}
            return {
                column: read_field(self._tree, self._fields[column], start, stop, known)
                for column in columns
            }
        if len(columns) <= FEW_COLUMNS:
            return {column: self._array(column, start, stop) for column in columns}
        found = self._tree.arrays(
            filter_name=list(columns),
            entry_start=start,
            entry_stop=stop,
            library="ak",
            how=dict,
            array_cache=None,
        )
        return {column: found[column] for column in columns}

    def _array(self, column: str, start: int, stop: int) -> Any:
        if column not in self._branches:
            self._branches[column] = self._tree[column]
        return self._branches[column].array(
            entry_start=start, entry_stop=stop, library="ak", array_cache=None
        )

    def cluster_ends(self, columns: Sequence[str]) -> list[int]:
        """Return the events at which the baskets of all these columns end together, ascending.

        The last one is the number of events.
        """
        if self._ntuple:
            return [int(of.num_first_entry + of.num_entries) for of in self._tree.cluster_summaries]
        common: set[int] | None = None
        for column in columns:
            offsets = {int(offset) for offset in self._tree[column].entry_offsets}
            common = offsets if common is None else common & offsets
        return sorted((common or set()) - {0})


class Share:
    """Selects the clusters to read so that a fraction of all events is read.

    The remainder carries over from span to span.
    """

    def __init__(self, fraction: float) -> None:
        self._fraction = fraction
        self._owed = 0.0

    def runs(self, start: int, ends: list[int]) -> list[tuple[int, int]]:
        """Return the runs of events to read, out of the clusters that end at `ends`.

        A cluster is read when the remainder reaches a whole cluster. The remainder at the end is
        read from the start of the last cluster.
        """
        found: list[tuple[int, int]] = []
        begin = start
        for end in ends:
            size = end - begin
            self._owed += self._fraction * size
            count = (
                size if self._owed >= size - 1e-6 else (round(self._owed) if end == ends[-1] else 0)
            )
            if count:
                found.append((begin, begin + count))
                self._owed -= count
            begin = end
        return found


def joined(runs: list[tuple[int, int]], step_events: int) -> list[tuple[int, int]]:
    """Join adjacent runs until a step has at least `step_events` events."""
    steps: list[tuple[int, int]] = []
    for begin, end in runs:
        if steps and steps[-1][1] == begin and steps[-1][1] - steps[-1][0] < step_events:
            steps[-1] = (steps[-1][0], end)
        else:
            steps.append((begin, end))
    return steps


def cut_steps(steps: list[tuple[int, int]], step_events: int) -> list[tuple[int, int]]:
    """Divide steps of at least twice the requested size into steps of that size."""
    found: list[tuple[int, int]] = []
    for begin, end in steps:
        size = end - begin if end - begin < 2 * step_events else step_events
        found += [(at, min(at + size, end)) for at in range(begin, end, size)]
    return found


def event_bytes(array: Any, offset_bytes: int) -> int:
    """Return the bytes of event data in an awkward array: values, and offsets where jagged.

    For nested lists, strings and records, return their size in memory.
    """
    layout: Any = array.layout
    if layout.is_numpy:
        return int(ak.to_numpy(array).nbytes)
    if type(layout).__name__ == "ListOffsetArray" and layout.content.is_numpy:
        offsets: Any = layout.offsets.data
        return (
            int(offsets[-1] - offsets[0]) * int(layout.content.dtype.itemsize)
            + len(array) * offset_bytes
        )
    if layout.purelist_depth == 2:
        try:
            values = int(ak.to_numpy(ak.flatten(array, axis=1)).nbytes)
            return values + (0 if layout.is_regular else len(array) * offset_bytes)
        except (ValueError, TypeError):
            pass  # lists of records
    return int(ak.to_packed(array).nbytes)
