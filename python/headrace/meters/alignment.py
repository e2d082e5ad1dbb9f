"""Align a power log of another clock with a trial: cross-correlation of power with CPU load.

For each possible offset of the log's clock, the mean power in each period of the load is correlated
with the load. With the residuals taken as noise that is correlated in time (first order), the
offsets are those within a likelihood ratio of the best one: one standard deviation for the stated
error, three for the question whether another offset fits as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

CORRELATION_LEAST = 0.5
"""Below this correlation, the power does not follow the load."""

_DEVIATIONS = 9.0
"""Three standard deviations: the most that -2 ln(likelihood) of an offset may be above the best."""

_COVERED_LEAST = 0.8
"""Share of the load's time in which the log must have power, for an offset to be tried."""

_MOST_AT_ONCE = 1 << 20
"""Values computed at once: bounds the memory."""


@dataclass(frozen=True)
class Alignment:
    """The offset of a log's clock, or why there is none."""

    offset_s: float
    """By how much the log's clock is ahead."""
    error_s: float
    """Its standard uncertainty."""
    correlation: float
    doubt: str = ""
    """Why the offset cannot be used; empty if it can."""


@dataclass(frozen=True)
class _Fits:
    """How well each of some offsets fits."""

    offsets_s: Array
    correlations: Array
    """-1 where the log covers too little of the load."""


def align(
    load: Sequence[tuple[float, float]],
    powers: Sequence[Sequence[tuple[float, float]]],
    search_s: float,
) -> Alignment:
    """Return the offset of a log's clock within `search_s` of 0.

    `load` has the ends of periods and the share of the CPUs that was busy in each; its first entry
    only begins the first period. `powers` has time and watts of each channel, whose sum is taken.
    """
    edges_s = np.array([time_s for time_s, _ in load])
    shares = np.array([share for _, share in load[1:]])
    curves = [_energy_curve(rows) for rows in powers if len(rows) > 1]
    if len(shares) < 3 or not curves:
        return _none("too little of the CPU load or of the log is known")
    if float(np.std(shares)) < 0.02:
        return _none(
            "the CPU load hardly changed while it was watched: state `idle`, for a time without "
            "load before the jobs, or `offset` if the clocks agree"
        )
    step_s = max(float(np.median(np.diff(edges_s))), *(_interval_s(each) for each in curves))
    coarse = _fits(edges_s, shares, curves, _grid(-search_s, search_s, step_s / 2))
    if float(coarse.correlations.max()) <= -1.0:
        return _none(_not_covered(edges_s, curves, search_s))
    fits = _refined(edges_s, shares, curves, coarse, step_s)
    return _judged(edges_s, shares, curves, fits, step_s, search_s)


def _none(doubt: str) -> Alignment:
    return Alignment(0.0, math.inf, 0.0, doubt)


def _grid(from_s: float, to_s: float, step_s: float) -> Array:
    return np.linspace(from_s, to_s, max(3, math.ceil((to_s - from_s) / step_s) + 1))


def _energy_curve(rows: Sequence[tuple[float, float]]) -> tuple[Array, Array]:
    """Return times and the energy up to each, by the trapezoid rule."""
    times_s, watts = (np.array(each) for each in zip(*rows, strict=True))
    steps = 0.5 * (watts[1:] + watts[:-1]) * np.diff(times_s)
    return times_s, np.concatenate([[0.0], np.cumsum(steps)])


def _interval_s(curve: tuple[Array, Array]) -> float:
    return float(np.median(np.diff(curve[0])))


def _means(edges_s: Array, curves: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return the mean power between edges, and whether all channels cover the period."""
    total = np.zeros((*edges_s.shape[:-1], edges_s.shape[-1] - 1))
    covered = np.ones(total.shape, dtype=bool)
    for times_s, energy_j in curves:
        total += np.diff(np.interp(edges_s, times_s, energy_j), axis=-1) / np.diff(edges_s, axis=-1)
        covered &= (edges_s[..., :-1] >= times_s[0]) & (edges_s[..., 1:] <= times_s[-1])
    return total, covered


def _fits(
    edges_s: Array, shares: Array, curves: Sequence[tuple[Array, Array]], offsets_s: Array
) -> _Fits:
    """Return the correlation of power with load at each offset, weighted by time."""
    lengths, found = np.diff(edges_s), list[Array]()
    at_once = max(1, _MOST_AT_ONCE // len(edges_s))
    for first in range(0, len(offsets_s), at_once):
        shifted = edges_s[None, :] + offsets_s[first : first + at_once, None]
        power, covered = _means(shifted, curves)
        weights = lengths[None, :] * covered
        total = weights.sum(axis=1)
        safe = np.where(total > 0, total, 1.0)[:, None]
        x = shares[None, :] - (weights * shares).sum(axis=1, keepdims=True) / safe
        y = power - (weights * power).sum(axis=1, keepdims=True) / safe
        spread = np.sqrt((weights * x * x).sum(axis=1) * (weights * y * y).sum(axis=1))
        product = (weights * x * y).sum(axis=1)
        correlation = np.divide(product, spread, out=np.zeros_like(product), where=spread > 1e-12)
        found.append(np.where(total >= _COVERED_LEAST * lengths.sum(), correlation, -1.0))
    return _Fits(offsets_s, np.concatenate(found))


def _refined(
    edges_s: Array,
    shares: Array,
    curves: Sequence[tuple[Array, Array]],
    coarse: _Fits,
    step_s: float,
) -> _Fits:
    """Return the fits with a finer grid around the best ones."""
    best = float(coarse.correlations.max())
    near = coarse.offsets_s[coarse.correlations >= best - 0.25 * (1 - min(best, 0.6))]
    near = near[:: max(1, len(near) // 200)]
    fine = [_grid(each - step_s / 2, each + step_s / 2, step_s / 20) for each in near]
    offsets_s = np.unique(np.concatenate([coarse.offsets_s, *fine]))
    offsets_s = offsets_s[(offsets_s >= coarse.offsets_s[0]) & (offsets_s <= coarse.offsets_s[-1])]
    return _fits(edges_s, shares, curves, offsets_s)


def _judged(
    edges_s: Array,
    shares: Array,
    curves: Sequence[tuple[Array, Array]],
    fits: _Fits,
    step_s: float,
    search_s: float,
) -> Alignment:
    """Return the best offset, its error, and whether it can be told from the others."""
    index = int(fits.correlations.argmax())
    best, offset_s = float(fits.correlations[index]), float(fits.offsets_s[index])
    if best < CORRELATION_LEAST:
        return Alignment(
            offset_s,
            math.inf,
            best,
            f"the power of the log does not follow the CPU load at any offset within "
            f"{search_s:g} s (highest correlation {best:.2f})",
        )
    count = _independent(edges_s + offset_s, shares, curves)
    unlike = 1 - np.clip(fits.correlations, 0.0, 0.9999) ** 2
    excess = count * np.log(unlike / unlike[index])
    possible = fits.offsets_s[excess <= 1.0]
    near = possible[np.abs(possible - offset_s) <= 3 * step_s]
    # A step of the power may lie anywhere between two rows, which the correlation cannot see.
    error_s = math.hypot(float(near.max() - near.min()) / 2, step_s / 2)
    alike = fits.offsets_s[(excess <= _DEVIATIONS) & (fits.correlations > -1.0)]
    doubt = ""
    apart = alike[np.abs(alike - offset_s) > max(3 * step_s, 2.0)]
    tried = fits.offsets_s[fits.correlations > -1.0]
    if len(apart):
        other = int(np.searchsorted(fits.offsets_s, apart[np.abs(apart - offset_s).argmax()]))
        doubt = (
            f"there is no clear peak: the log fits the CPU load at an offset of {offset_s:.1f} s "
            f"(correlation {best:.2f}) and at {fits.offsets_s[other]:.1f} s "
            f"({fits.correlations[other]:.2f})"
        )
    elif offset_s - tried[0] < step_s or tried[-1] - offset_s < step_s:
        limit = abs(offset_s) > search_s - 2 * step_s
        doubt = f"the best offset ({offset_s:.1f} s) is the last that could be tried: " + (
            "raise `search`" if limit else "the log begins too late or ends too early"
        )
    return Alignment(offset_s, error_s, best, doubt)


def _independent(edges_s: Array, shares: Array, curves: Sequence[tuple[Array, Array]]) -> float:
    """Return the number of independent periods, from the correlation of neighbouring residuals."""
    power, covered = _means(edges_s[None, :], curves)
    x, y = shares[covered[0]], power[0][covered[0]]
    slope, level = np.polyfit(x, y, 1)
    residuals = y - (level + slope * x)
    spread = float((residuals * residuals).sum())
    if spread <= 1e-12 * float((y * y).sum()):
        return float(len(x))
    lag = float((residuals[1:] * residuals[:-1]).sum()) / spread
    lag = min(max(lag, 0.0), 0.95)
    return max(3.0, len(x) * (1 - lag) / (1 + lag))


def _not_covered(edges_s: Array, curves: Sequence[tuple[Array, Array]], search_s: float) -> str:
    """Return what of the time of the jobs the log lacks."""
    from_s, to_s = max(each[0][0] for each in curves), min(each[0][-1] for each in curves)
    if to_s < edges_s[-1] and from_s <= edges_s[0]:
        late_s = float(edges_s[-1] - to_s)
        why = f"the log ends {late_s:.0f} s before the jobs did, by its own clock"
    elif from_s > edges_s[0] and to_s >= edges_s[-1]:
        why = f"the log begins {float(from_s - edges_s[0]):.0f} s after the jobs, by its own clock"
    else:
        why = "the log has no power for the time of the jobs"
    return f"{why}; offsets within {search_s:g} s were tried"
