"""Columns of the user's own files: selection, and notes for the results."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.datasets.own_check import files_with_events
from headrace.datasets.own_files import OwnFiles
from headrace.datasets.spec import Format
from headrace.datasets.trees import Column, TreeFacts, column_names, tree_facts
from headrace.errors import HeadraceError
from headrace.registry import nearest

if TYPE_CHECKING:
    from headrace.readers.options import Reader


_ANY_COLUMN: tuple[Reader, ...] = ("uproot", "event-loop")
"""Readers that read columns which are no numbers; the event loop those of a TTree."""


@dataclass
class OwnNotes:
    """Notes on the columns of the user's own files."""

    as_bytes: dict[str, None] = field(default_factory=dict[str, None])
    """Columns that were read and decompressed but not deserialised."""
    left_out: dict[str, None] = field(default_factory=dict[str, None])
    """Columns that were not read or not written, because the reader cannot."""
    unread: dict[str, str] = field(default_factory=dict[str, str])
    """Columns of numbers among `as_bytes`, and why their numbers could not be had."""

    def results(self) -> dict[str, object]:
        """Return the notes for the job's results; empty when there are none."""
        notes = {"columns_as_bytes": list(self.as_bytes), "columns_left_out": list(self.left_out)}
        return {name: columns for name, columns in notes.items() if columns}


def merged_notes(outputs: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the notes of all jobs on columns."""
    found: dict[str, list[str]] = {}
    for name in ("columns_as_bytes", "columns_left_out"):
        columns = dict.fromkeys(column for output in outputs for column in output.get(name, ()))
        if columns:
            found[name] = list(columns)
    return found


def matching(names: Sequence[str], wanted: Sequence[str] | None, file: str) -> list[str]:
    """Return the names that match any of the patterns, in the file's order; all when None.

    Raises HeadraceError for a pattern without a match.
    """
    if wanted is None:
        return list(names)
    known = set(names)
    chosen: set[str] = set()
    for pattern in wanted:
        # A name may itself contain brackets, as in `covMatrix[10]`.
        fitting = (
            {pattern} if pattern in known else {n for n in names if fnmatch.fnmatchcase(n, pattern)}
        )
        # A record of an RNTuple, whose members are the columns.
        fitting = fitting or {name for name in names if name.startswith(f"{pattern}.")}
        if not fitting:
            raise HeadraceError(f"{file} has no column {pattern}{_near(pattern, names)}")
        chosen |= fitting
    return [name for name in names if name in chosen]


def _near(pattern: str, names: Sequence[str]) -> str:
    near = nearest(pattern, list(names))
    return f"; did you mean {near}?" if near else f"; it has {len(names)}: {', '.join(names[:5])} …"


def reads(reader: Reader, format_: Format, column: Column) -> bool:
    """Return whether a reader reads a column, whatever it makes of it."""
    if reader == "rdataframe":
        return column.in_frames
    return column.flat or reader == "uproot" or format_ == "ttree"


def wanted_columns(
    own: OwnFiles, variable: str | None, columns: Sequence[str] | None, reader: Reader
) -> list[str]:
    """Return the columns that a scan reads, the variable first (by default the largest).

    Of a tree without columns of numbers, return the columns alone (None: all) when the reader reads
    them without making numbers of them; `has_numbers` tells. Raises HeadraceError for columns that
    the first file does not have, or for a variable that holds no numbers.
    """
    facts = facts_of(own)
    where = f"{facts.file}: tree {facts.name}"
    names = [column.name for column in facts.columns]
    numbers = _numbers(facts, reader)
    if not numbers and variable is None and _reads_objects(reader, facts.format) and names:
        return matching(names, columns, where)
    if not numbers:
        some = any(column.kind == "numbers" for column in facts.columns)
        what = f" that reader {reader} reads" if some else ""
        others = [other for other in _ANY_COLUMN if _reads_objects(other, facts.format)]
        hint = f"without a variable, reader {' or '.join(others)} reads all that it has"
        raise HeadraceError(f"{where} has no column of numbers{what}", hint=hint if names else None)
    if variable is None:
        first = max(numbers, key=lambda column: column.stored_bytes).name
    else:
        if any(mark in variable for mark in "*?") and variable not in names:
            raise HeadraceError(f"{variable}: the variable is one column, not a pattern")
        found = facts.column(variable)
        members = [] if found is not None else matching(names, [variable], where)
        if len(members) > 1:
            some = ", ".join(members[:5]) + (" …" if len(members) > 5 else "")
            raise HeadraceError(f"{where}: {variable} has several columns: {some}; name one")
        first = members[0] if found is None else found.name
        if found is not None and found.kind != "numbers":
            raise HeadraceError(
                f"{where}: column {variable} holds no numbers, or not for every event, so that it "
                "has no histogram"
            )
        if found is not None and found not in numbers:
            raise HeadraceError(
                f"{where}: column {variable} does not hold one number, or one list of numbers, per "
                f"event, which reader {reader} needs"
                if not found.beyond_loops
                else f"{where}: column {variable} is {found.beyond_loops}: its numbers are not in "
                f"reach of reader {reader}"
            )
    further = matching(names, columns or (), where)
    return [first, *(name for name in further if name != first)]


def check_other_files(own: OwnFiles, wanted: Sequence[str] | None) -> None:
    """Raise HeadraceError when one of the first files lacks columns that a job names."""
    for file in files_with_events(own) if wanted else ():
        matching(column_names(file.path, own.tree), wanted, str(file.path))


def has_numbers(own: OwnFiles, reader: Reader) -> bool:
    """Return whether the first file has a column of which a reader makes numbers.

    Raises HeadraceError for a file that cannot be read.
    """
    return bool(_numbers(facts_of(own), reader))


def _numbers(facts: TreeFacts, reader: Reader) -> list[Column]:
    return [
        column
        for column in facts.columns
        if column.kind == "numbers"
        and reads(reader, facts.format, column)
        and (not column.beyond_loops or reader != "event-loop")
    ]


def _reads_objects(reader: Reader, format_: Format) -> bool:
    """Return whether a reader reads columns that are no numbers."""
    return reader in _ANY_COLUMN and (reader == "uproot" or format_ == "ttree")


def facts_of(own: OwnFiles) -> TreeFacts:
    """Return the tree of the first file with events.

    Raises HeadraceError for a file that cannot be read.
    """
    files = own.find()
    facts = (tree_facts(file.path, own.tree) for file in files)
    return next((each for each in facts if each.events), None) or tree_facts(
        files[0].path, own.tree
    )
