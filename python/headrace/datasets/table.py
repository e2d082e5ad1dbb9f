"""Events as columns, independent of any file format: the generator's output, the writers' input.

A table holds a run of consecutive events. A column has one value per event, or one value per object
of a collection; the collection's counts hold the number of objects of each event, like NanoAOD's
`nElectron`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Table:
    """Columns of `events` consecutive events.

    Names are unique over `scalars`, `n<collection>` and `objects`.
    """

    events: int
    counts: dict[str, npt.NDArray[np.int32]] = field(default_factory=dict[str, Any])
    """Objects per event, by collection, shape (events,). Written as a column `n<collection>`."""
    scalars: dict[str, Array] = field(default_factory=dict[str, Any])
    """One value per event, shape (events,)."""
    objects: dict[str, tuple[str, Array]] = field(default_factory=dict[str, Any])
    """(collection, values) by event; values have shape (sum of the collection's counts,)."""

    def slice(self, start: int, stop: int) -> Table:
        """Return the events `start <= event < stop` as views, without copies."""
        edges: dict[str, tuple[int, int]] = {}
        for name, counts in self.counts.items():
            first = int(counts[:start].sum())
            edges[name] = (first, first + int(counts[start:stop].sum()))
        return Table(
            stop - start,
            {name: counts[start:stop] for name, counts in self.counts.items()},
            {name: values[start:stop] for name, values in self.scalars.items()},
            {
                name: (of, values[edges[of][0] : edges[of][1]])
                for name, (of, values) in self.objects.items()
            },
        )


def concatenate(tables: list[Table]) -> Table:
    """Return one table with the events of all tables, in order. All have the same columns."""
    if len(tables) == 1:
        return tables[0]
    first = tables[0]
    return Table(
        sum(table.events for table in tables),
        {name: np.concatenate([table.counts[name] for table in tables]) for name in first.counts},
        {name: np.concatenate([table.scalars[name] for table in tables]) for name in first.scalars},
        {
            name: (of, np.concatenate([table.objects[name][1] for table in tables]))
            for name, (of, _) in first.objects.items()
        },
    )


def columns_of(table: Table) -> list[tuple[str, np.dtype[Any], str]]:
    """Return (name, type, collection or empty) of every column, counts included, in file order."""
    found: list[tuple[str, Any, str]] = [
        (name, values.dtype, "") for name, values in table.scalars.items()
    ]
    for collection in table.counts:
        found.append((f"n{collection}", np.dtype(np.int32), ""))
        found += [
            (name, values.dtype, of)
            for name, (of, values) in table.objects.items()
            if of == collection
        ]
    return found
