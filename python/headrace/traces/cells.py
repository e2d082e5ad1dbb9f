"""A trace as the cells of a picture, counted by crates/blocktrace in one pass.

The number of cells is independent of the trace's length.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _core
from headrace.traces.files import readable
from headrace.traces.statistics import Statistics

SECTOR_BYTES = 512
LATENCY_FROM_NS = 1e3
BINS_PER_DECADE = 10
LATENCY_BINS = 80
"""As in crates/blocktrace/src/tiles.rs."""


@dataclass(frozen=True)
class Window:
    """The part of a trace that is counted, and the number of cells."""

    begin_ns: int
    span_ns: int
    sector_low: int
    sector_high: int
    columns: int
    rows: int


@dataclass(frozen=True)
class TraceCells:
    """A trace counted into cells. Columns are time."""

    offsets: npt.NDArray[np.uint32]
    """(group, read or write, row from the lowest offset up, column): requests that touched the
    cell."""
    bytes_per_s: npt.NDArray[np.float64]
    """(read or write, column)."""
    iops: npt.NDArray[np.float64]
    """(read or write, column)."""
    seeks_per_s: npt.NDArray[np.float64]
    depth_mean: npt.NDArray[np.float64]
    depth_max: npt.NDArray[np.uint32]
    latencies: npt.NDArray[np.uint32]
    """(bin, column): requests; a bin is a tenth of a decade, from 1 us up."""


def cells_of(
    statistics: Statistics,
    window: Window,
    groups_of_pid: Mapping[str, int] | None = None,
    groups: int = 1,
) -> TraceCells:
    """Count a trace into the cells of a window. Raises StudyError."""
    trace, columns, rows = statistics.trace, window.columns, window.rows
    text: dict[str, object] = {
        "from_ns": window.begin_ns,
        "to_ns": window.begin_ns + window.span_ns - 1,
        "sector_low": window.sector_low,
        "sector_high": window.sector_high,
        "columns": columns,
        "rows": rows,
        "groups": dict(groups_of_pid or {}),
        "group_count": groups,
        "exact": statistics.total.queue_depth_max is not None and statistics.unended > 0,
    }
    with readable():
        found = _core.trace_tiles(trace.files, json.dumps(text), trace.device)
    width_s = window.span_ns / 1e9 / columns

    def column(name: str, kind: Any, *shape: int) -> Any:
        return np.frombuffer(found[name], kind).reshape(*shape)

    return TraceCells(
        offsets=column("offsets", np.uint32, groups, 2, rows, columns),
        bytes_per_s=column("bytes", np.uint64, 2, columns) / width_s,
        iops=column("requests", np.uint64, 2, columns) / width_s,
        seeks_per_s=column("seeks", np.uint64, columns) / width_s,
        depth_mean=column("depth_ns", np.uint64, columns) / (width_s * 1e9),
        depth_max=column("depth_max", np.uint32, columns),
        latencies=column("latencies", np.uint32, LATENCY_BINS, columns),
    )


def coarser(cells: TraceCells, wanted: int) -> TraceCells:
    """Return the cells merged to `wanted` columns (a divisor of their number), for lines and heat
    maps; offsets stay unchanged."""
    columns = cells.depth_mean.shape[0]
    factor = columns // wanted

    def fold(values: Any) -> Any:
        return values[..., :columns].reshape(*values.shape[:-1], -1, factor)

    return TraceCells(
        offsets=cells.offsets,
        bytes_per_s=fold(cells.bytes_per_s).mean(-1),
        iops=fold(cells.iops).mean(-1),
        seeks_per_s=fold(cells.seeks_per_s).mean(-1),
        depth_mean=fold(cells.depth_mean).mean(-1),
        depth_max=fold(cells.depth_max).max(-1),
        latencies=fold(cells.latencies).sum(-1),
    )
