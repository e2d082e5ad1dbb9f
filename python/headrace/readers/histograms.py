"""Histograms of a job as plain numbers that merge: the form in which they stand in a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hist
import numpy as np


def new_histogram(bins: int, low: float, high: float) -> Any:
    """A one-dimensional histogram of events with under- and overflow."""
    return hist.Hist(hist.axis.Regular(bins, low, high), storage=hist.storage.Int64())


def as_numbers(histogram: Any) -> dict[str, Any]:
    """`{low, high, counts}`; the first and last count are under- and overflow."""
    axis = histogram.axes[0]
    return {
        "low": float(axis.edges[0]),
        "high": float(axis.edges[-1]),
        "counts": histogram.values(flow=True).astype(int).tolist(),
    }


def merged(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The sum of histograms of the same axis."""
    counts = np.sum([part["counts"] for part in parts], axis=0)
    return {"low": parts[0]["low"], "high": parts[0]["high"], "counts": counts.astype(int).tolist()}
