"""The search's histograms by name.

Each is a list of numbers that merges by addition (`as_numbers`).
"""

from __future__ import annotations

from typing import Any

import hist
import numpy as np

from headrace.jobs import Histogram

AXES: dict[str, tuple[int, float, float]] = {
    "four_lepton_mass": (200, 70.0, 270.0),
    "four_electron_mass": (100, 70.0, 270.0),
    "four_muon_mass": (100, 70.0, 270.0),
    "two_electron_two_muon_mass": (100, 70.0, 270.0),
    "four_lepton_pt": (60, 0.0, 180.0),
    "heavier_z_mass": (110, 10.0, 120.0),
    "lighter_z_mass": (110, 10.0, 120.0),
    "dimuon_mass": (240, 0.0, 120.0),
    "dielectron_mass": (240, 0.0, 120.0),
    "missing_pt": (100, 0.0, 200.0),
    "jets": (20, 0.0, 20.0),
    "leading_jet_pt": (100, 0.0, 500.0),
    "dijet_mass": (100, 0.0, 500.0),
    "jet_pt_sum": (100, 0.0, 1000.0),
    "good_tracks": (60, 0.0, 60.0),
    "muon_track_isolation": (100, 0.0, 2.0),
    "electron_track_isolation": (100, 0.0, 2.0),
}
"""(bins, low, high) of each; energies and masses in GeV."""


class Histograms:
    """All histograms of the search, initially empty."""

    def __init__(self) -> None:
        self._of: dict[str, Any] = {
            name: hist.Hist(hist.axis.Regular(bins, low, high), storage=hist.storage.Int64())
            for name, (bins, low, high) in AXES.items()
        }

    def fill(self, name: str, values: Any) -> None:
        """Fill numbers, shape (n,), into one histogram."""
        self._of[name].fill(np.asarray(values, np.float64))

    def numbers(self) -> dict[str, Histogram]:
        """Return all histograms as numbers."""
        return {name: as_numbers(of) for name, of in self._of.items()}


def as_numbers(histogram: Any) -> Histogram:
    """Return `{low, high, counts}`; the first and last count are underflow and overflow."""
    edges = histogram.axes[0].edges
    return {
        "low": float(edges[0]),
        "high": float(edges[-1]),
        "counts": histogram.values(flow=True).astype(int).tolist(),
    }


def merged(parts: list[Histogram]) -> Histogram:
    """Return the sum of histograms with the same axis."""
    counts = np.sum([part["counts"] for part in parts], axis=0)
    return {"low": parts[0]["low"], "high": parts[0]["high"], "counts": counts.astype(int).tolist()}
