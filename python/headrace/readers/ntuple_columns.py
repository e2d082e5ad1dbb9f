"""Columns of an RNTuple as awkward arrays, straight from its pages.

uproot's own `arrays` compares every field with every other before it reads: minutes for the thousands of an AOD. The
fields of a data set are plain: one value an event, or one vector of values an event, so their columns can be read as
they are.
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
    """A top-level field: the number of its column of values, and of its column of offsets when it is a vector."""

    values: int
    offsets: int | None


def fields_of(ntuple: Any) -> dict[str, Field]:
    """Top-level fields by name, in order. Those that are neither a value nor a vector of values are left out."""
    top: dict[int, str] = {}
    parents: dict[int, int] = {}
    for number, record in enumerate(ntuple.field_records):
        if record.parent_field_id == number:
            top[number] = str(record.field_name)
        else:
            parents[number] = int(record.parent_field_id)
    columns: dict[str, dict[str, list[int]]] = {name: {"values": [], "offsets": []} for name in top.values()}
    for number, column in enumerate(ntuple.column_records):
        of = int(column.field_id)
        name = top.get(of) or top.get(parents.get(of, -1))
        if name is not None:
            columns[name]["offsets" if column.type in uproot.const.rntuple_index_types else "values"].append(
                number
            )
    return {
        name: Field(found["values"][0], found["offsets"][0] if found["offsets"] else None)
        for name, found in columns.items()
        if len(found["values"]) == 1 and len(found["offsets"]) <= 1
    }


def read_field(ntuple: Any, field: Field, start: int, stop: int) -> Any:
    """The events `start <= event < stop` of a field; reads the whole of each cluster in which they lie."""
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
        raise HeadraceError(f"a collection has {len(values)} values where its offsets say {offsets[-1]}")
    content = ak.contents.NumpyArray(values)
    return ak.Array(ak.contents.ListOffsetArray(ak.index.Index64(offsets.astype(np.int64)), content))[
        start - begin : stop - begin
    ]
