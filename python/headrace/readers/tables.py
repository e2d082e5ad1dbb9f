"""Convert awkward columns back into a table for the writers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import awkward as ak
import numpy as np

from headrace.datasets.table import Table


def table_of(columns: Mapping[str, Any], keep: Any) -> Table:
    """Return the events of a chunk for which `keep`, shape (events,), is true.

    Collections take their lengths from the counts `nX`.
    """
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


_WRITTEN = {
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "float32",
    "float64",
}


def table_of_own(columns: Mapping[str, Any], keep: Any) -> tuple[Table, list[str]]:
    """Return a user's file's events for which `keep` is true, and the columns that do not fit.

    The table holds one number, or one list of numbers, per event. Lists take their lengths from the
    counts `nX` of columns `X_…` where the file has these, otherwise from counts of their own.
    """
    table = Table(int(np.sum(keep)))
    left_out: list[str] = []
    names: set[str] = set()
    for name, array in columns.items():
        chosen = array[keep]
        values = _numbers(chosen)
        if values is None:
            left_out.append(name)
            continue
        written = plain_column(name, names)
        names.add(written)
        if chosen.ndim == 1:
            if not (name.startswith("n") and name[1:] in table.counts):
                table.scalars[written] = values
            continue
        counts = ak.to_numpy(ak.num(chosen)).astype(np.int32)
        of = name.partition("_")[0]
        counter = columns.get(f"n{of}")
        if (
            counter is None
            or counter.ndim != 1
            or not np.array_equal(ak.to_numpy(counter[keep]), counts)
        ):
            of = written if f"n{written}" not in columns else f"{written}_list"
        table.counts.setdefault(of, counts)
        table.scalars.pop(f"n{of}", None)
        table.objects[written] = (of, values)
    return table, left_out


def _numbers(array: Any) -> Any:
    """Return the values of one number, or one list of numbers, per event; None for other types."""
    try:
        values = ak.to_numpy(array if array.ndim == 1 else ak.flatten(array, axis=1))
    except (ValueError, TypeError):
        return None
    return (
        values if values.ndim == 1 and values.dtype.name in _WRITTEN and array.ndim <= 2 else None
    )


def plain_column(name: str, taken: Collection[str]) -> str:
    """Return a name like this one that is valid for a branch, and not taken."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "column"
    plain = f"column_{plain}" if plain[0].isdigit() else plain
    while plain in taken:
        plain += "_"
    return plain
