"""Fit the peaks in the search's histograms: binned extended maximum likelihood with iminuit.

The likelihood is written here: `iminuit.cost` has the same, but imports and compiles with numba
where that is installed, which takes longer than the rest of a small search.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from iminuit import Minuit

from headrace.jobs import Histogram
from headrace.special_functions import ndtr

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Peak:
    """A peak over a background, masses in GeV; `width_gev` is its observed standard deviation."""

    mass_gev: float
    mass_error_gev: float
    width_gev: float
    width_error_gev: float
    yield_events: float
    yield_error_events: float
    background_events: float
    valid: bool
    """Whether the minimiser converged with a positive definite covariance."""


def _bins(histogram: Histogram, low: float, high: float) -> tuple[Floats, Floats]:
    """Return counts and edges of the bins within [low, high]."""
    counts = np.asarray(histogram["counts"][1:-1], np.float64)
    edges = np.linspace(histogram["low"], histogram["high"], len(counts) + 1)
    inside = (edges[:-1] >= low - 1e-9) & (edges[1:] <= high + 1e-9)
    first, last = int(np.argmax(inside)), len(inside) - int(np.argmax(inside[::-1]))
    return counts[first:last], edges[first : last + 1]


def poisson_cost(counts: Floats, expected: Floats) -> float:
    """Return twice the negative log-likelihood of counts, less its minimum.

    It is distributed as chi squared when there are many (S. Baker, R. Cousins, Nucl. Instrum. Meth.
    221 (1984) 437). An expectation that rounding made negative is zero, and a logarithm of zero is
    left out.
    """
    mean = np.maximum(expected, 0.0)
    logarithms = np.log(np.where(counts > 0, counts, 1.0)) - np.log(np.where(mean > 0, mean, 1.0))
    return float(2 * np.sum(counts * logarithms + mean - counts))


def fit_peak(
    histogram: Histogram, low: float, high: float, mass: float, width: float
) -> Peak | None:
    """Fit a Gaussian over a straight line within [low, high], from these starting values.

    Return None when there are too few events.
    """
    counts, edges = _bins(histogram, low, high)
    total = float(counts.sum())
    if total < 10:
        return None

    def expected(
        x: Floats, signal: float, mean: float, sigma: float, background: float, slope: float
    ) -> Floats:
        position = (x - low) / (high - low)
        return signal * ndtr((x - mean) / sigma) + background * (
            position + slope * (position**2 - position)
        )

    def cost(signal: float, mean: float, sigma: float, background: float, slope: float) -> float:
        return poisson_cost(
            counts, np.diff(expected(edges, signal, mean, sigma, background, slope))
        )

    function: Any = cost
    minimiser: Any = Minuit(
        function,
        signal=total / 2,
        mean=mass,
        sigma=width,
        background=total / 2,
        slope=0.0,
    )
    minimiser.errordef = Minuit.LEAST_SQUARES
    minimiser.limits["signal"] = (0, None)
    minimiser.limits["background"] = (0, None)
    minimiser.limits["mean"] = (low, high)
    minimiser.limits["sigma"] = (width / 10, (high - low) / 4)
    minimiser.limits["slope"] = (-1, 1)
    minimiser.migrad()
    minimiser.hesse()
    value, error = minimiser.values, minimiser.errors
    return Peak(
        mass_gev=float(value["mean"]),
        mass_error_gev=float(error["mean"]),
        width_gev=float(value["sigma"]),
        width_error_gev=float(error["sigma"]),
        yield_events=float(value["signal"]),
        yield_error_events=float(error["signal"]),
        background_events=float(value["background"]),
        valid=bool(minimiser.valid),
    )


def peaks(histograms: Mapping[str, Histogram]) -> dict[str, dict[str, object]]:
    """Fit the Higgs boson in the four-lepton mass and the Z boson in both dilepton masses.

    Peaks with too few events are left out.
    """
    found = {
        "higgs": fit_peak(histograms["four_lepton_mass"], 105, 150, 124, 2.0),
        "z_to_muons": fit_peak(histograms["dimuon_mass"], 80, 102, 91, 2.0),
        "z_to_electrons": fit_peak(histograms["dielectron_mass"], 80, 102, 91, 2.5),
    }
    return {name: asdict(peak) for name, peak in found.items() if peak is not None}
