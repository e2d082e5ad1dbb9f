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
from headrace.readers.spans import Span


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
        self._open: tuple[str, Any, Any] | None = None

    def read(self, span: Span, columns: Sequence[str] | None, share: Share | None = None) -> Iterator[Chunk]:
        """The events of a span, in order, in chunks that end where clusters end.

        `columns` None stands for all; with a `share`, clusters are left out.
        Raises HeadraceError for a file that cannot be read whole, and for a column that it does not have.
        """
        with readable(span.file):
            tree = self.tree(span.file)
            total = int(tree.num_entries)
            known = list(tree.keys(recursive=False))
            columns = known if columns is None else columns
            missing = sorted(set(columns) - set(known))
            if missing:
                raise HeadraceError(f"{span.file}: no column {', '.join(missing)} in {TREE_NAME}")
            stop = total if span.events is None else span.first_event + span.events
            if stop > total:
                raise HeadraceError(
                    f"{span.file}: has {total} events, but events up to {stop} were to be read"
                )
            clusters = [edge for edge in cluster_ends(tree, columns) if span.first_event < edge < stop]
            runs = (share or Share(1.0)).runs(span.first_event, [*clusters, stop])
            steps = _joined(runs, self._step_events)
        for begin, end in steps:
            with readable(span.file):
                found = tree.arrays(
                    list(columns), entry_start=begin, entry_stop=end, library="ak", array_cache=None
                )
                chunk = {column: found[column] for column in columns}
                for column, array in chunk.items():
                    if len(array) != end - begin:
                        raise HeadraceError(
                            f"{span.file}: {column} has {len(array)} of events {begin} to {end}"
                        )
            offset_bytes = 8 if is_rntuple(tree) else 4
            self._counts.bytes_uncompressed += sum(
                event_bytes(array, offset_bytes) for array in chunk.values()
            )
            yield Chunk(Span(span.file, begin, end - begin), end - begin, chunk)

    def tree(self, file: str) -> Any:
        """The TTree or RNTuple of a file, opened now unless it is the one opened last."""
        if self._open is None or self._open[0] != file:
            self.close()
            located: Any = {file: None}  # a mapping, so that no colon in the name is taken for a path within
            handle: Any = uproot.open(located, handler=counted_source(file, self._access, self._counts))
            self._open = (file, handle, None)
            self._open = (file, handle, handle[TREE_NAME])
        return self._open[2]

    def close(self) -> None:
        """Closes the file that is open."""
        if self._open is not None:
            self._open[1].close()
            self._open = None


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


def _joined(runs: list[tuple[int, int]], step_events: int) -> list[tuple[int, int]]:
    """Neighbouring runs joined until a step has `step_events` or more."""
    steps: list[tuple[int, int]] = []
    for begin, end in runs:
        if steps and steps[-1][1] == begin and steps[-1][1] - steps[-1][0] < step_events:
            steps[-1] = (steps[-1][0], end)
        else:
            steps.append((begin, end))
    return steps


def is_rntuple(tree: Any) -> bool:
    """True for an RNTuple, False for a TTree."""
    return str(tree.classname).endswith("RNTuple")


def cluster_ends(tree: Any, columns: Sequence[str]) -> list[int]:
    """Events at which the baskets of all these columns end together, rising; the last is the number of events."""
    if is_rntuple(tree):
        return [int(cluster.num_first_entry + cluster.num_entries) for cluster in tree.cluster_summaries]
    common: set[int] | None = None
    for column in columns:
        offsets = {int(offset) for offset in tree[column].entry_offsets}
        common = offsets if common is None else common & offsets
    return sorted((common or set()) - {0})


def event_bytes(array: Any, offset_bytes: int) -> int:
    """Bytes of the event data in an awkward array: values, and an offset an event where it is jagged."""
    if array.ndim == 1:
        return int(ak.to_numpy(array).nbytes)
    return int(ak.to_numpy(ak.flatten(array, axis=1)).nbytes) + len(array) * offset_bytes
