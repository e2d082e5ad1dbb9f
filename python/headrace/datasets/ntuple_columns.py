"""Columns of an RNTuple as awkward arrays, read directly from its pages.

uproot's own `arrays` compares every field with every other before it reads, which takes minutes for
the thousands of fields of an AOD. Most fields are numbers, in lists and fixed arrays at most, so
their columns can be read directly.

A column is a top-level field or, of a record (a class, a struct) and of a list of records, each
member: `tracks.pt`, as RDataFrame names it. kernel.hpp follows the same rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import awkward as ak
import numpy as np
import uproot.const

from headrace.errors import HeadraceError

_COLLECTION, _RECORD, _VARIANT = 1, 2, 3
"""Structural roles of a field in the format of RNTuple."""

_DEFERRED = 1
"""Flag of a column that was added when events had been written: it has no pages for these."""

_VECTORS = ("std::vector<", "ROOT::VecOps::RVec<")


@dataclass(frozen=True)
class Level:
    """One level of lists: the number of its offsets column, or the fixed length of its arrays."""

    offsets: int | None
    length: int = 0


@dataclass(frozen=True)
class Field:
    """A column of numbers: the number of its values column, and its lists from the outside in."""

    values: int
    levels: tuple[Level, ...]
    type_name: str
    """`float`, `std::vector<float>`; empty for another form."""
    number: str
    """The type of its numbers: `float`."""

    @property
    def is_array(self) -> bool:
        """Whether an event has one array of a fixed length."""
        return len(self.levels) == 1 and self.levels[0].offsets is None


@dataclass(frozen=True)
class FieldPlace:
    """Where a field of an RNTuple is."""

    column: str
    """Name of the column that the field is or belongs to."""
    once: bool
    """Whether an event has exactly one value of it."""
    in_variant: bool


def field_places(records: Any) -> list[FieldPlace]:
    """Return the place of each field, by the field's number."""
    found: dict[int, FieldPlace] = {}

    def place(number: int) -> FieldPlace:
        if number not in found:
            found[number] = _place(records, number, place)
        return found[number]

    return [place(number) for number in range(len(records))]


def _place(records: Any, number: int, place: Callable[[int], FieldPlace]) -> FieldPlace:
    record = records[number]
    parent = int(record.parent_field_id)
    variant = int(record.struct_role) == _VARIANT
    if parent == number:
        return FieldPlace(str(record.field_name), True, variant)
    above, role = place(parent), int(records[parent].struct_role)
    member = role == _RECORD and not above.in_variant
    name = f"{above.column}.{record.field_name}" if member else above.column
    once = above.once and role != _COLLECTION and not _repetition(records[parent])
    return FieldPlace(name, once, above.in_variant or variant)


def _repetition(record: Any) -> int:
    """Return the length of the fixed array that a field is; 0 when it is none."""
    return int(getattr(record, "repetition", 0) or 0) if int(record.flags) & 1 else 0


def column_of_field(ntuple: Any) -> dict[int, str]:
    """Return the name of the column that each field belongs to, by the field's number.

    The offsets of a list of records belong to its first member.
    """
    records = ntuple.field_records
    named = [place.column for place in field_places(records)]
    first: dict[str, str] = {}
    for number in _leaves(records):
        name = named[number]
        while name not in first:
            first[name] = named[number]
            name = name.rpartition(".")[0] or name
    return {number: first.get(name, name) for number, name in enumerate(named)}


def _leaves(records: Any) -> list[int]:
    """Return the numbers of the fields that have no fields below them."""
    parents = {
        int(record.parent_field_id)
        for number, record in enumerate(records)
        if int(record.parent_field_id) != number
    }
    return [number for number in range(len(records)) if number not in parents]


def fields_of(ntuple: Any) -> dict[str, Field]:
    """Return the columns that are numbers, or lists or arrays of them, by name, in order."""
    records = ntuple.field_records
    indices: dict[int, list[int]] = {}
    values: dict[int, list[int]] = {}
    for number, column in enumerate(ntuple.column_records):
        is_index = column.type in uproot.const.rntuple_index_types
        (indices if is_index else values).setdefault(int(column.field_id), []).append(number)
    where = field_places(records)
    found: dict[str, Field] = {}
    for leaf in _leaves(records):
        # A field with values and offsets of its own is a string, or an object in bytes.
        if where[leaf].in_variant or leaf in indices or len(values.get(leaf, ())) != 1:
            continue
        chain = _chain(records, leaf)
        if all(len(indices.get(number, ())) <= 1 for number in chain):
            levels = _levels(records, chain, indices)
            number = str(records[leaf].type_name)
            field = Field(values[leaf][0], levels, _type(records, chain), number)
            found[where[leaf].column] = field
    return found


def _chain(records: Any, number: int) -> list[int]:
    """Return the numbers of a field and of those above it, from the top."""
    chain = [number]
    while (parent := int(records[chain[-1]].parent_field_id)) != chain[-1]:
        chain.append(parent)
    return chain[::-1]


def _levels(records: Any, chain: list[int], indices: dict[int, list[int]]) -> tuple[Level, ...]:
    levels: list[Level] = []
    for number in chain:
        if number in indices:
            levels.append(Level(indices[number][0]))
        if length := _repetition(records[number]):
            levels.append(Level(None, length))
    return tuple(levels)


def _type(records: Any, chain: list[int]) -> str:
    """Return the type of a column as `number_types` knows it; empty for another form."""
    lists = 0
    for number, below in zip(chain, [*chain[1:], None], strict=True):
        record = records[number]
        name, role = str(record.type_name), int(record.struct_role)
        if role == _COLLECTION:
            # A list without the name of a type is a vector, as uproot writes it.
            lists += 1 if not name or name.startswith(_VECTORS) else 2
        elif _repetition(record) or (below is not None and role != _RECORD):
            return ""
    name = str(records[chain[-1]].type_name)
    return name if not lists else f"std::vector<{name}>" if lists == 1 else ""


def read_field(
    ntuple: Any, field: Field, start: int, stop: int, known: dict[tuple[int, int, int], Any]
) -> Any:
    """Return a field's events `start <= event < stop`; whole clusters are read.

    `known` keeps the offsets of lists, which the members of a record share.
    """
    edges = np.array([cluster.num_first_entry for cluster in ntuple.cluster_summaries], np.int64)
    first = int(np.searchsorted(edges, start, side="right")) - 1
    last = int(np.searchsorted(edges, stop, side="left"))
    begin = int(edges[first])
    end = int(ntuple.num_entries) if last == len(edges) else int(edges[last])
    values = ntuple.read_cluster_range(field.values, first, last)
    if ntuple.column_records[field.values].nbits == 1:
        values = values.astype(np.bool_)
    if not any(level.offsets is not None for level in field.levels):
        lengths = [level.length for level in field.levels]
        values = _completed(ntuple, field.values, values, (end - begin) * math.prod(lengths))
        shaped = values.reshape((-1, *lengths))
        return ak.Array(shaped)[start - begin : stop - begin]
    content: Any = ak.contents.NumpyArray(values)
    for level in reversed(field.levels):
        if level.offsets is None:
            content = ak.contents.RegularArray(content, level.length)
            continue
        key = level.offsets, first, last
        if key not in known:
            read = ntuple.read_cluster_range(*key).astype(np.int64)
            known[key] = _completed(ntuple, level.offsets, read, end - begin + 1)
        offsets = known[key]
        if offsets[-1] != len(content):
            raise HeadraceError(
                f"a collection has {len(content)} values where its offsets say {offsets[-1]}"
            )
        content = ak.contents.ListOffsetArray(ak.index.Index64(offsets), content)
    return ak.Array(content)[start - begin : stop - begin]


def _completed(ntuple: Any, column: int, values: Any, count: int) -> Any:
    """Return the values of a column with zeros for the events before it was added, as ROOT has."""
    missing = count - len(values)
    if missing <= 0 or not int(ntuple.column_records[column].flags) & _DEFERRED:
        return values
    return np.concatenate([np.zeros(missing, values.dtype), values])
