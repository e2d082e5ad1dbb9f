"""Scatter of repeats, pooled over the cells of one storage and workload. Pure.

Three repeats may lie close together by chance, above all where a run is now and then slower than
all others: the t interval of such repeats is too narrow. As in Smyth, Statistical Applications in
Genetics and Molecular Biology 3 (2004) 3, the variance of a cell is drawn towards that of all cells
of its storage. Smyth's estimate also has more degrees of freedom; these intervals keep those of the
own repeats, because the scatter of storage is not normal and differs from cell to cell.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.records.inventory import Inventory
from headrace.special_functions import stdtrit

Numbers = npt.NDArray[np.float64]

POOLED_WEIGHT = 2
"""Weight, in degrees of freedom, of the scatter of all cells of a storage in the variance of each.

docs/findings.md and docs/decide.md have the shares of intervals that contain the true value, with
and without it."""

POOLED = "mean, t interval with the scatter of its storage"
"""Method of an interval that has this scatter in it."""
ALONE = "mean, t interval"
"""Method of one that has only the scatter of its own repeats."""


def storage_of(target: str, inventory: Inventory) -> str:
    """Return the name of a storage, the same for all its settings and slots."""
    return repr((target, [(item.name, item.count) for item in inventory]))


def relative_spread(cells: Iterable[Sequence[float]]) -> float | None:
    """Return the relative standard deviation between repeats, over all cells. None when no cell has
    repeats. Values that are not positive are left out."""
    squares, freedom = 0.0, 0
    for values in cells:
        logs = np.log([value for value in values if value > 0])
        if len(logs) > 1:
            squares += float(((logs - logs.mean()) ** 2).sum())
            freedom += len(logs) - 1
    return math.sqrt(squares / freedom) if freedom else None


def shares_of_variance(count: Any) -> tuple[Any, Any]:
    """Return the shares of the own and of the pooled scatter in the variance of a cell with so many
    repeats, one number or an array."""
    total = count - 1 + POOLED_WEIGHT
    return (count - 1) / total, POOLED_WEIGHT / total


def pooled_spreads(trials: Any, metrics: Any, number: npt.NDArray[np.int64]) -> Numbers:
    """Return the relative standard deviation of each metric between repeats, pooled over the cells
    of the same storage, workload and provenance: a row for each cell, a column for each metric.

    `number` is the cell of each row of `trials` and `metrics`. NaN where fewer than two cells of a
    storage have repeats.
    """
    values = metrics.to_numpy(dtype=np.float64)
    logs = np.log(np.where(values > 0, values, np.nan))
    cells = int(number.max(initial=-1)) + 1
    group = _groups(trials, number, cells)
    count, squares = _squares(logs, number, cells)
    shape = (int(group.max(initial=-1)) + 1, values.shape[1])
    freedom, together, repeated = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    np.add.at(freedom, group, np.maximum(count - 1, 0))
    np.add.at(together, group, squares)
    np.add.at(repeated, group, count > 1)
    several = repeated > 1
    variance = np.where(several, together / np.where(several, freedom, 1.0), np.nan)
    return np.sqrt(variance)[group]


def spreads_by_cell(
    trials: Any, metrics: Any, cells: Mapping[str, npt.NDArray[np.int64]]
) -> dict[str, dict[str, float]]:
    """Return the same by cell and metric, for cells with the positions of their trials."""
    number = np.zeros(len(trials), dtype=np.int64)
    for index, at in enumerate(cells.values()):
        number[at] = index
    spreads = pooled_spreads(trials, metrics, number).tolist()
    names = list(metrics.columns)
    return {
        cell: dict(zip(names, row, strict=True)) for cell, row in zip(cells, spreads, strict=True)
    }


def _groups(trials: Any, number: npt.NDArray[np.int64], cells: int) -> npt.NDArray[np.int64]:
    """Return the number of the storage, workload and provenance of each cell."""
    first = np.zeros(cells, dtype=np.int64)
    first[number[::-1]] = np.arange(len(number))[::-1]
    names: dict[tuple[str, str, str], int] = {}
    columns = (trials[name] for name in ("target", "inventory", "workload", "provenance"))
    target, inventory, workload, provenance = (column.to_numpy() for column in columns)
    return np.array(
        [
            names.setdefault(
                (storage_of(target[row], inventory[row] or ()), workload[row], provenance[row]),
                len(names),
            )
            for row in first
        ],
        dtype=np.int64,
    )


def _squares(logs: Numbers, number: npt.NDArray[np.int64], cells: int) -> tuple[Numbers, Numbers]:
    """Return the number of values of each cell and metric, and the sum of the squares of their
    distances from their mean."""
    known = ~np.isnan(logs)
    count, total, squares = (np.zeros((cells, logs.shape[1])) for _ in range(3))
    np.add.at(count, number, known)
    np.add.at(total, number, np.where(known, logs, 0.0))
    mean = total / np.maximum(count, 1)
    np.add.at(squares, number, np.where(known, logs - mean[number], 0.0) ** 2)
    return count, squares


def half_widths(count: Any, mean: Any, deviation: Any, pooled: Any, confidence: float) -> Any:
    """Return the half width of the interval of each mean; NaN with fewer than two values.

    `deviation` is the standard deviation of the own repeats, `pooled` the relative one of all cells
    of the storage, NaN where there is none.
    """
    own, other = shares_of_variance(np.maximum(count, 2))
    drawn = own * deviation**2 + other * (np.where(np.isnan(pooled), 0.0, pooled) * mean) ** 2
    variance = np.where(np.isnan(pooled), deviation**2, drawn)
    quantile = stdtrit(np.maximum(count - 1, 1), 0.5 + confidence / 2)
    return quantile * np.sqrt(variance / np.maximum(count, 1))
