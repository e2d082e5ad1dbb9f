"""Reads columns of ROOT files with uproot into awkward arrays, a few clusters at a time, in one thread."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import awkward as ak
import uproot

from headrace.datasets.writing.events_file import TREE_NAME
from headrace.errors import HeadraceError
from headrace.readers.counted_source import Access, counted_source
from headrace.readers.counts import ReadCounts
from headrace.readers.ntuple_columns import fields_of, read_field
from headrace.readers.spans import Span

_FEW_COLUMNS = 8
"""Up to so many columns are read one by one: `TTree.arrays` looks through all branches of the tree at each call."""


@dataclass(frozen=True)
class Chunk:
    """Some consecutive events of one file."""

    span: Span
    events: int
    columns: dict[str, Any]
    """Awkward arrays by column name, each `events` long."""


@contextmanager
def readable(file: str) -> Generator[None]:
    """Turns whatever goes wrong while a ROOT file is read into one HeadraceError that names the file."""
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
    except Exception as error:
        # A damaged file can make any part of the decoder fail, each in its own way.
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        raise HeadraceError(f"{file}: damaged, or no ROOT file with events: {lines[0][:200]}") from error


class UprootReader:
    """Reads spans of events. One reader a job; closes each file before the next is opened."""

    def __init__(self, access: Access, step_events: int, counts: ReadCounts) -> None:
        self._access: Access = access
        self._step_events = step_events
        self._counts = counts
        self._open: _OpenFile | None = None

    def read(self, span: Span, columns: Sequence[str] | None, share: Share | None = None) -> Iterator[Chunk]:
        """The events of a span, in order, in chunks that end where clusters end.

        `columns` None stands for all; with a `share`, clusters are left out.
        Raises HeadraceError for a file that cannot be read whole, and for a column that it does not have.
        """
        with readable(span.file):
            opened = self._opened(span.file)
            total = opened.events
            known = opened.columns
            columns = known if columns is None else columns
            missing = sorted(set(columns) - set(known))
            if missing:
                raise HeadraceError(f"{span.file}: no column {', '.join(missing)} in {TREE_NAME}")
            stop = total if span.events is None else span.first_event + span.events
            if stop > total:
                raise HeadraceError(
                    f"{span.file}: has {total} events, but events up to {stop} were to be read"
                )
            clusters = [edge for edge in opened.cluster_ends(columns) if span.first_event < edge < stop]
            runs = (share or Share(1.0)).runs(span.first_event, [*clusters, stop])
            steps = joined(runs, self._step_events)
        for begin, end in steps:
            with readable(span.file):
                chunk = opened.arrays(columns, begin, end)
                for column, array in chunk.items():
                    if len(array) != end - begin:
                        raise HeadraceError(
                            f"{span.file}: {column} has {len(array)} of events {begin} to {end}"
                        )
            sizes = (event_bytes(array, opened.offset_bytes) for array in chunk.values())
            self._counts.bytes_uncompressed += sum(sizes)
            yield Chunk(Span(span.file, begin, end - begin), end - begin, chunk)

    def close(self) -> None:
        """Closes the file that is open."""
        if self._open is not None:
            self._open.handle.close()
            self._open = None

    def _opened(self, file: str) -> _OpenFile:
        """A file, opened now unless it is the one opened last."""
        if self._open is None or self._open.file != file:
            self.close()
            self._open = _OpenFile(file, self._access, self._counts)
        return self._open


class _OpenFile:
    """A file's TTree or RNTuple."""

    def __init__(self, file: str, access: Access, counts: ReadCounts) -> None:
        self.file = file
        located: Any = {file: None}  # a mapping, so that no colon in the name is taken for a path within
        self.handle: Any = uproot.open(located, handler=counted_source(file, access, counts))
        try:
            end, size = int(self.handle.file.fEND), int(self.handle.file.source.num_bytes)
            if size < end:
                raise HeadraceError(f"{file}: truncated: {size} bytes long, but its header says {end}")
            self._tree: Any = self.handle[TREE_NAME]
            self._ntuple = str(self._tree.classname).endswith("RNTuple")
            self._fields = fields_of(self._tree) if self._ntuple else {}
            self.events = int(self._tree.num_entries)
            self.columns: list[str] = list(self._fields) if self._ntuple else list(self._tree.keys())
        except BaseException:
            self.handle.close()
            raise
        self._branches: dict[str, Any] = {}
        self.offset_bytes = 8 if self._ntuple else 4
        """Of one offset of a collection's column in this format."""

    def arrays(self, columns: Sequence[str], start: int, stop: int) -> dict[str, Any]:
        """These columns of the events `start <= event < stop`."""
        if self._ntuple:
            return {column: read_field(self._tree, self._fields[column], start, stop) for column in columns}
        if len(columns) <= _FEW_COLUMNS:
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
        """Events at which the baskets of all these columns end together, rising; the last is the number of events."""
        if self._ntuple:
            return [int(of.num_first_entry + of.num_entries) for of in self._tree.cluster_summaries]
        common: set[int] | None = None
        for column in columns:
            offsets = {int(offset) for offset in self._tree[column].entry_offsets}
            common = offsets if common is None else common & offsets
        return sorted((common or set()) - {0})


class Share:
    """Which clusters are read so that a share of all events is; carries over from span to span what it still owes."""

    def __init__(self, fraction: float) -> None:
        self._fraction = fraction
        self._owed = 0.0

    def runs(self, start: int, ends: list[int]) -> list[tuple[int, int]]:
        """Of the clusters that end at `ends`, the runs of events to be read.

        A cluster is read when a whole one is owed; what is owed at the end is read from the last one's beginning.
        """
        found: list[tuple[int, int]] = []
        begin = start
        for end in ends:
            size = end - begin
            self._owed += self._fraction * size
            count = size if self._owed >= size - 1e-6 else (round(self._owed) if end == ends[-1] else 0)
            if count:
                found.append((begin, begin + count))
                self._owed -= count
            begin = end
        return found


def joined(runs: list[tuple[int, int]], step_events: int) -> list[tuple[int, int]]:
    """Neighbouring runs joined until a step has `step_events` or more."""
    steps: list[tuple[int, int]] = []
    for begin, end in runs:
        if steps and steps[-1][1] == begin and steps[-1][1] - steps[-1][0] < step_events:
            steps[-1] = (steps[-1][0], end)
        else:
            steps.append((begin, end))
    return steps


def event_bytes(array: Any, offset_bytes: int) -> int:
    """Bytes of the event data in an awkward array: values, and an offset an event where it is jagged."""
    if array.ndim == 1:
        return int(ak.to_numpy(array).nbytes)
    layout: Any = array.layout
    if type(layout).__name__ == "ListOffsetArray" and layout.content.is_numpy:
        offsets: Any = layout.offsets.data
        return int(offsets[-1] - offsets[0]) * int(layout.content.dtype.itemsize) + len(array) * offset_bytes
    return int(ak.to_numpy(ak.flatten(array, axis=1)).nbytes) + len(array) * offset_bytes
