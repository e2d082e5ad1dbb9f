"""Effects of one factor's levels on the logarithm of a rate, with variance and error term.

A study is a split-plot design: the target is set up anew for every whole plot. Levels fixed within
a whole plot (the file system) therefore carry the noise between whole plots; levels varied within
one (read-ahead) do not. Two methods, depending on the design:

- `by_blocks`: a block is one repeat of one combination of all other factors. Only blocks that
  contain every level are used, and levels are compared within each block, so nothing is assumed
  about the other factors. For a factor that is fixed in whole plots, the trials of a whole plot
  are averaged first: whole plots are then the experimental units.
- `by_model`: main effects by least squares, for designs without such blocks (fractions, screens).

Sources: Montgomery, Design and Analysis of Experiments, 8th ed., sections 4.1 (blocks) and 14.4
(split plots).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from headrace.special_functions import fdtrc

ROUNDING = 1e-12
"""Differences of logarithms below this are floating-point errors."""


@dataclass(frozen=True)
class Contrasts:
    """Effects of the levels of one factor on the logarithm of a metric."""

    effects: np.ndarray
    """By level; they sum to 0."""
    level: float
    """Mean logarithm over all levels."""
    variance: float
    """Variance of the difference of two effects; NaN without an error term."""
    freedom: int
    """Degrees of freedom of that variance."""
    f: float
    """F statistic of 'all effects are 0'; NaN without an error term."""
    error_term: str
    used: np.ndarray
    """Positions of the rows used."""

    @property
    def p_value(self) -> float | None:
        """Probability of effects at least this large by chance alone."""
        if not np.isfinite(self.f):
            return None
        return float(fdtrc(len(self.effects) - 1, self.freedom, self.f))


def by_blocks(
    y: np.ndarray,
    level: np.ndarray,
    levels: int,
    context: np.ndarray,
    repeat: np.ndarray,
    plot: np.ndarray,
) -> Contrasts | None:
    """Return level effects from complete blocks; None when there is no such block.

    All arrays have one entry per trial: `y` is the logarithm of the metric, `level` the factor's
    level number below `levels`, `context` a number for the combination of all other factors,
    `repeat` the repeat, and `plot` the whole plot.
    """
    block = _numbered(context, repeat)
    tried = np.zeros((block.max(initial=-1) + 1, levels), np.bool_)
    tried[block, level] = True
    used = np.flatnonzero(np.logical_and.reduce(tried, axis=1)[block])
    if not len(used):
        return None
    y, level, context, repeat, plot = (each[used] for each in (y, level, context, repeat, plot))
    hard = _fixed_in_plots(level, plot)
    # Combinations that share a whole plot form one group, in which whole plots are averaged.
    group = plots_together(context, plot) if hard else context
    # Each context has equal weight, however many trials it has: otherwise a lost trial would change
    # the weights within its level.
    alike, firsts = _numbered(context, repeat, level), _numbered(group, repeat)
    first = np.unique(alike, return_index=True)[1]
    cell = firsts[first] * levels + level[first]
    values = _means(_means(y, alike), cell).reshape(-1, levels)
    groups = group[np.unique(firsts, return_index=True)[1]]
    deviations = values - values.mean(axis=1, keepdims=True)
    effects, variance, freedom, error_term = _effects(deviations, groups, in_plots=hard)
    f = float((effects**2).sum() / (levels - 1) / (variance / 2)) if variance > 0 else np.nan
    return Contrasts(effects, float(values.mean()), variance, freedom, f, error_term, used)


def _numbered(*columns: np.ndarray) -> np.ndarray:
    """Return a number for each row: equal for rows equal in all columns, ordered as they are."""
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        found, own = np.unique(column, return_inverse=True)
        number = np.unique(number * len(found) + own, return_inverse=True)[1]
    return number


def _means(values: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Return the mean of the values of each number."""
    return np.bincount(number, values) / np.bincount(number)


def _effects(
    deviations: np.ndarray, groups: np.ndarray, *, in_plots: bool
) -> tuple[np.ndarray, float, int, str]:
    """Return the effects of the levels, the variance of a difference, its degrees of freedom and
    its source.

    `deviations` has one row per block and one column per level; `groups` is the group of each row.
    """
    levels = deviations.shape[1]
    found, group_number = np.unique(groups, return_inverse=True)
    counts = np.bincount(group_number)
    means = np.stack(
        [np.bincount(group_number, deviations[:, column]) / counts for column in range(levels)],
        axis=1,
    )
    effects = means.mean(axis=0)
    effects[np.abs(effects) < ROUNDING] = 0.0
    freedom = int((counts - 1).sum()) * (levels - 1)
    if freedom > 0:
        square = _squares(deviations - means[group_number]) / freedom
        variance = 2 * square * float((1 / counts).sum()) / len(found) ** 2
        return effects, variance, freedom, "whole plots" if in_plots else "trials"
    if len(found) > 1:
        # With one repeat only, the error is the variation of the effect between combinations of the
        # other factors.
        freedom = (len(found) - 1) * (levels - 1)
        variance = 2 * _squares(means - effects) / freedom / len(found)
        return effects, variance, freedom, "combinations of the other factors (one repeat)"
    return effects, np.nan, freedom, "none: one repeat of one combination"


def _squares(values: np.ndarray) -> float:
    return float((np.where(np.abs(values) < ROUNDING, 0.0, values) ** 2).sum())


def _fixed_in_plots(level: np.ndarray, plot: np.ndarray) -> bool:
    """Return whether whole plots contain several trials and never more than one level."""
    trials = np.bincount(_numbered(plot))
    return int(_numbered(plot, level).max()) < len(trials) and bool((trials > 1).any())


def plots_together(context: np.ndarray, plot: np.ndarray) -> np.ndarray:
    """Return a group number, equal for contexts that share a whole plot.

    A group is a combination of the other hard-to-change factors: a connected component of the graph
    of contexts and whole plots. Groups are numbered in the order of their first contexts.
    """
    contexts, context = np.unique(context, return_inverse=True)
    plots, plot = np.unique(plot, return_inverse=True)
    part = np.arange(len(contexts))
    while True:
        of_plot = np.full(len(plots), len(contexts))
        np.minimum.at(of_plot, plot, part[context])
        joined = part.copy()
        np.minimum.at(joined, context, of_plot[plot])
        if np.array_equal(joined, part):
            return np.unique(part, return_inverse=True)[1][context]
        part = joined


def by_model(
    y: np.ndarray, level: np.ndarray, levels: int, others: pd.DataFrame, plot: np.ndarray
) -> Contrasts | None:
    """Return level effects from a main-effects model fitted by least squares; None when they are
    confounded with other factors.

    `others` holds one column of level codes per other factor. Factors that vary within whole plots
    are fitted within them (each plot's mean is subtracted). For a factor that is fixed in whole
    plots, a second step fits the means of whole plots, corrected for the factors that vary within.
    """
    number = np.unique(plot, return_inverse=True)[1]
    sizes = np.bincount(number)
    own = _indicators(level)
    rest = [_indicators(others[name].to_numpy()) for name in others.columns]
    everything = np.arange(len(y))
    if not _fixed_in_plots(level, plot):
        matrix = np.column_stack([own, *rest])
        if sizes.max() == 1:
            fit = _least_squares(y - y.mean(), matrix - matrix.mean(axis=0), levels - 1, 1)
        else:
            inside = matrix - _plot_means(matrix, number)[number]
            fit = _least_squares(
                y - _plot_means(y[:, None], number)[number, 0], inside, levels - 1, len(sizes)
            )
        return None if fit is None else _of_fit(fit, y, "trials", everything)
    easy = [columns for columns in rest if not _constant(columns, number)]
    hard = [columns for columns in rest if _constant(columns, number)]
    means = _plot_means(y[:, None], number)[:, 0]
    doubt = np.zeros((levels - 1, levels - 1))
    firsts = np.unique(number, return_index=True)[1]
    plots = np.column_stack([own, *hard])[firsts]
    plots = plots - plots.mean(axis=0)
    if easy:
        matrix = np.column_stack(easy)
        inside = matrix - _plot_means(matrix, number)[number]
        within = _least_squares(
            y - _plot_means(y[:, None], number)[number, 0], inside, matrix.shape[1], len(sizes)
        )
        if within is None:
            return None
        carried = _plot_means(matrix, number)
        means = means - carried @ within.parameters
        if within.freedom > 0:
            # Propagate the uncertainty of the within-plot effects to the levels compared.
            reach = np.linalg.pinv(plots) @ (carried - carried.mean(axis=0))
            doubt = (reach @ within.covariance @ reach.T)[: levels - 1, : levels - 1]
    fit = _least_squares(means - means.mean(), plots, levels - 1, 1)
    if fit is None:
        return None
    return _of_fit(
        _Fit(fit.parameters, fit.covariance + doubt, fit.freedom), y, "whole plots", everything
    )


@dataclass(frozen=True)
class _Fit:
    parameters: np.ndarray
    covariance: np.ndarray
    freedom: int
    """Residual degrees of freedom; 0: no error term."""


def _least_squares(
    response: np.ndarray, matrix: np.ndarray, wanted: int, absorbed: int
) -> _Fit | None:
    """Return the first `wanted` parameters; None when the other columns can express them.

    `absorbed` means were subtracted before.
    """
    rank = int(np.linalg.matrix_rank(matrix))
    rest = matrix[:, wanted:]
    if rank - (int(np.linalg.matrix_rank(rest)) if rest.shape[1] else 0) < wanted:
        return None
    # Drop columns that are linear combinations of others: only a full set of independent ones can
    # be fitted.
    kept = list(range(wanted))
    for column in range(wanted, matrix.shape[1]):
        if int(np.linalg.matrix_rank(matrix[:, [*kept, column]])) > len(kept):
            kept.append(column)
    inverse = np.linalg.pinv(matrix[:, kept])
    parameters = inverse @ response
    residual = response - matrix[:, kept] @ parameters
    freedom = len(response) - rank - absorbed
    scale = float(residual @ residual) / freedom if freedom > 0 else 0.0
    covariance = (inverse @ inverse.T)[:wanted, :wanted] * scale
    return _Fit(parameters[:wanted], covariance, max(0, freedom))


def _of_fit(fit: _Fit, y: np.ndarray, term: str, used: np.ndarray) -> Contrasts:
    """Convert effects relative to the first level into effects relative to their mean."""
    levels = len(fit.parameters) + 1
    centre = np.vstack([np.zeros(levels - 1), np.eye(levels - 1)])
    centre = centre - centre.mean(axis=0)
    effects = centre @ fit.parameters
    mean = float(y.mean())
    if fit.freedom == 0:
        return Contrasts(effects, mean, np.nan, 0, np.nan, "none: as many effects as trials", used)
    term = f"{term}, main effects only"
    if not np.diag(fit.covariance).min() > ROUNDING**2:  # no scatter: any difference is certain
        effects[np.abs(effects) < ROUNDING] = 0.0
        return Contrasts(effects, mean, 0.0, fit.freedom, np.nan, term, used)
    of_effects = centre @ fit.covariance @ centre.T
    pairs = [(one, other) for one in range(levels) for other in range(one)]
    variance = np.mean(
        [of_effects[i, i] + of_effects[j, j] - 2 * of_effects[i, j] for i, j in pairs]
    )
    f = float(fit.parameters @ np.linalg.solve(fit.covariance, fit.parameters) / (levels - 1))
    return Contrasts(effects, mean, float(variance), fit.freedom, f, term, used)


def _indicators(codes: np.ndarray) -> np.ndarray:
    """Return one 0/1 column for each code but the first."""
    found = np.unique(codes)[1:]
    return (codes[:, None] == found[None, :]).astype(np.float64)


def _constant(columns: np.ndarray, number: np.ndarray) -> bool:
    return bool(np.allclose(columns, _plot_means(columns, number)[number]))


def _plot_means(values: np.ndarray, number: np.ndarray) -> np.ndarray:
    sizes = np.bincount(number)
    if not values.shape[1]:
        return np.zeros((len(sizes), 0))
    return np.stack([np.bincount(number, column) / sizes for column in values.T], axis=1)
