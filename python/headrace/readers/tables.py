"""Awkward columns back into a table that the writers take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import awkward as ak
import numpy as np

from headrace.datasets.table import Table


def table_of(columns: Mapping[str, Any], keep: Any) -> Table:
    """The events of a chunk for which `keep`, shape (events,), is true. Collections go by their counts `nX`."""
    chosen = {name: array[keep] for name, array in columns.items()}
    table = Table(int(ak.sum(keep)))
    jagged = {name: array for name, array in chosen.items() if array.ndim > 1}
    collections = {name.split("_")[0] for name in jagged}
    for name, array in chosen.items():
        if name in jagged:
            of = name.split("_")[0]
            table.objects[name] = (of, ak.to_numpy(ak.flatten(array)))
            if of not in table.counts:
                table.counts[of] = ak.to_numpy(ak.num(array)).astype(np.int32)
        elif not (name.startswith("n") and name[1:] in collections):
            table.scalars[name] = ak.to_numpy(array)
    return table
