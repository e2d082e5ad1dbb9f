"""Columns of an RNTuple as awkward arrays, read directly from its pages.

uproot's own `arrays` compares every field with every other before it reads, which takes minutes for
the thousands of fields of an AOD. The fields of a generated data set are simple (one value per
event, or one vector of values per event), so their columns can be read directly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import awkward as ak
import numpy as np
import uproot.const

from headrace.errors import HeadraceError


@dataclass(frozen=True)
class Field:
    """A top-level field: the numbers of its values column and (a vector) its offsets column."""

    values: int
    offsets: int | None


def top_level(ntuple: Any) -> dict[int, str]:
    """Return the name of the top-level field that each field belongs to, by the field's number."""
    records = ntuple.field_records
    found: dict[int, str] = {}
    for number in range(len(records)):
        above = number
        while int(records[above].parent_field_id) != above:
            above = int(records[above].parent_field_id)
        found[number] = str(records[above].field_name)
    return found


def fields_of(ntuple: Any) -> dict[str, Field]:
    """Return the top-level fields that are a value or a vector of values, by name, in order."""
    names = top_level(ntuple)
    depth: dict[int, int] = {}
    for number, record in enumerate(ntuple.field_records):
        parent = int(record.parent_field_id)
        depth[number] = 0 if parent == number else depth[parent] + 1
    columns: dict[str, dict[str, list[int]]] = {}
    for name in names.values():
        columns.setdefault(name, {"values": [], "offsets": []})
    deepest = dict.fromkeys(columns, 0)
    for number, column in enumerate(ntuple.column_records):
        of = int(column.field_id)
        is_index = column.type in uproot.const.rntuple_index_types
        columns[names[of]]["offsets" if is_index else "values"].append(number)
        deepest[names[of]] = max(deepest[names[of]], depth[of])
    return {
        name: Field(found["values"][0], found["offsets"][0] if found["offsets"] else None)
        for name, found in columns.items()
        if len(found["values"]) == 1 and len(found["offsets"]) <= 1 and deepest[name] <= 1
    }


def read_field(ntuple: Any, field: Field, start: int, stop: int) -> Any:
    """Return a field's events `start <= event < stop`; whole clusters are read."""
    edges = np.array([cluster.num_first_entry for cluster in ntuple.cluster_summaries], np.int64)
    first = int(np.searchsorted(edges, start, side="right")) - 1
    last = int(np.searchsorted(edges, stop, side="left"))
    begin = int(edges[first])
    values = ntuple.read_cluster_range(field.values, first, last)
    if ntuple.column_records[field.values].nbits == 1:
        values = values.astype(np.bool_)
    if field.offsets is None:
        return ak.Array(values)[start - begin : stop - begin]
    offsets = ntuple.read_cluster_range(field.offsets, first, last)
    if offsets[-1] != len(values):
        raise HeadraceError(
            f"a collection has {len(values)} values where its offsets say {offsets[-1]}"
        )
    content = ak.contents.NumpyArray(values)
    return ak.Array(
        ak.contents.ListOffsetArray(ak.index.Index64(offsets.astype(np.int64)), content)
    )[start - begin : stop - begin]
