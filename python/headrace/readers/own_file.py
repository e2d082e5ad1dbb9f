"""A user's own ROOT file read with uproot: numbers and objects where possible, else bytes.

A branch whose class uproot cannot deserialise is still read and decompressed, basket by basket, so
that the storage gets the requests of the user's own program. The job's results name these branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.datasets.branch_columns import BranchColumn, branches_by_path, unique_names
from headrace.datasets.ntuple_columns import column_of_field, read_field
from headrace.datasets.trees import chosen_tree, said_compression
from headrace.datasets.unreadable import first_line
from headrace.datasets.uproot_repairs import repair_uproot
from headrace.errors import HeadraceError
from headrace.readers.counted_source import AccessMethod
from headrace.readers.counts import ReadCounts
from headrace.readers.own_columns import OwnNotes, matching
from headrace.readers.uproot_reader import OpenFile, cut_steps


class OpenOwnFile(OpenFile):
    """One of the user's own files."""

    def __init__(
        self, file: str, access: AccessMethod, counts: ReadCounts, tree: str | None, notes: OwnNotes
    ) -> None:
        self._wanted_tree = tree
        self._notes = notes
        self._besides = 0
        self._read: set[tuple[str, int]] = set()
        self._offsets: dict[tuple[int, int, int], Any] = {}
        self._held: dict[int, tuple[int, Any]] = {}
        self._given: set[str] = set()
        repair_uproot()
        super().__init__(file, access, counts)

    def tree_name(self) -> str:
        """Return the tree that the study names, or the one that holds the events."""
        return chosen_tree(self.handle, self._wanted_tree)

    def _look(self) -> None:
        if self._ntuple:
            self._columns: dict[str, list[int]] = {}
            of_field = column_of_field(self._tree)
            for number, column in enumerate(self._tree.column_records):
                self._columns.setdefault(of_field[int(column.field_id)], []).append(number)
            self.names = list(self._columns)
            return
        branches = branches_by_path(self._tree)
        names = unique_names(list(branches))
        self._branches: dict[str, BranchColumn] = {
            names[path]: branch for path, branch in branches.items()
        }
        self.names = list(self._branches)
        self._kinds: dict[str, str] = {}

    @property
    def like(self) -> dict[str, Any]:
        """Fields of a data set with this file's format and compression."""
        codec, level = said_compression(self.handle)
        return {"format": "rntuple" if self._ntuple else "ttree", "codec": codec, "level": level}

    def chosen(self, columns: Sequence[str] | None) -> Sequence[str]:
        """Return the columns that match the names or patterns; none of a file without events."""
        if not self.events:
            return []
        return matching(self.names, columns, self.file)

    def cluster_ends(self, columns: Sequence[str]) -> list[int]:
        """Return the events at which the baskets of all these columns end together."""
        if self._ntuple:
            return [int(of.num_first_entry + of.num_entries) for of in self._tree.cluster_summaries]
        common: set[int] | None = None
        for column in columns:
            ends = {int(end) for end in self._branches[column].branch.entry_offsets}
            common = ends if common is None else common & ends
        return sorted((common or set()) - {0})

    def steps(self, steps: list[tuple[int, int]], step_events: int) -> list[tuple[int, int]]:
        """Divide long runs through baskets, as uproot's users do: files may lack clusters."""
        return cut_steps(steps, step_events)

    def bytes_besides(self) -> int:
        """Return the size of the baskets that were read as bytes."""
        besides, self._besides = self._besides, 0
        return besides

    def arrays(self, columns: Sequence[str], start: int, stop: int) -> dict[str, Any]:
        """Return those of these columns that hold numbers.

        The others are read, and deserialised where uproot can.
        """
        found: dict[str, Any] = {}
        self._offsets.clear()
        for column in columns:
            array = (self._field if self._ntuple else self._branch)(column, start, stop)
            if array is not None:
                found[column] = array
        return found

    def _branch(self, column: str, start: int, stop: int) -> Any:
        kind = self._kinds.setdefault(column, self._branches[column].kind)
        if kind != "numbers":
            self._as_bytes(column, start, stop, deserialise=kind == "objects")
            return None
        try:
            found = self._branches[column].array(start, stop, self._held)
        except (HeadraceError, OSError, MemoryError):
            raise
        except Exception as error:
            # Of an undamaged branch, the baskets can still be read.
            self._as_bytes(column, start, stop, deserialise=False)
            cause = first_line(error)
            if column in self._given:
                raise HeadraceError(
                    f"{self.file}: uproot cannot read {column} from event {start} on: {cause}"
                ) from error
            self._kinds[column] = "unknown"
            self._notes.unread[column] = cause
            return None
        self._given.add(column)
        return found

    def _as_bytes(self, column: str, start: int, stop: int, *, deserialise: bool) -> None:
        """Read the baskets of these events, each once for a column."""
        branch = self._branches[column].branch
        for number in range(int(branch.num_baskets)):
            first, end = branch.basket_entry_start_stop(number)
            if first < stop and end > start and (column, number) not in self._read:
                self._read.add((column, number))
                self._basket(column, branch, number, end - first, deserialise=deserialise)

    def _basket(
        self, column: str, branch: Any, number: int, events: int, *, deserialise: bool
    ) -> None:
        """Read and decompress one basket, and deserialise it where uproot can."""
        basket: Any = branch.basket(number)
        if int(basket.num_entries) != events:
            raise HeadraceError(
                f"{self.file}: damaged: basket {number} of column {column} says that it has "
                f"{int(basket.num_entries)} events; the tree says {events}"
            )
        # uproot has already decompressed a basket that is embedded in the tree's own metadata.
        content: Any = basket.data if basket.raw_data is None else basket.raw_data
        self._besides += len(content)
        if deserialise and column not in self._notes.as_bytes:
            try:
                basket.array(branch.interpretation, "ak")
                return
            except Exception:  # Each unknown class fails with a different exception.
                pass
        self._notes.as_bytes[column] = None

    def _field(self, column: str, start: int, stop: int) -> Any:
        if column in self._fields:
            return read_field(self._tree, self._fields[column], start, stop, self._offsets)
        self._notes.as_bytes[column] = None
        for number, summary in enumerate(self._tree.cluster_summaries):
            first = int(summary.num_first_entry)
            within = first < stop and first + int(summary.num_entries) > start
            if within and (column, number) not in self._read:
                self._read.add((column, number))
                for each in self._columns[column]:
                    self._besides += int(
                        self._tree.read_cluster_range(each, number, number + 1).nbytes
                    )
        return None
