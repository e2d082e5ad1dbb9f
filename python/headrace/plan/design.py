"""Which cells are run: all, a balanced fraction, or a screen of two levels per factor.

Each pair of target and workload is a group with factors of its own (a scheduler does not apply to a
client of a file server), so each group has its own design. In a fractional design, the groups take
different fractions in turn.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.errors import StudyError
from headrace.plan.cells import Cell, all_cells, group_factors, groups
from headrace.plan.rules import Rules
from headrace.study.model import Study
from headrace.units import parse_bytes, parse_bytes_per_s, parse_seconds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MOST_WEIGHTS = 1000
"""Weights of a defining relation that are tried."""


def chosen_cells(study: Study, rules: Rules) -> list[Cell]:
    """Return the cells that the study's design selects, in a fixed order, before exclusion.

    Raises StudyError when the requested fraction cannot separate the factors' main effects in any
    group.
    """
    design = study.plan_options.design
    cells: list[Cell] = []
    fractioned = 0
    for number, (target, workload) in enumerate(groups(study)):
        factors = group_factors(study, rules, target, workload)
        if design == "full":
            cells += all_cells(study, target, workload, factors)
        elif design == "screen":
            cells += _screen(study, target, workload, factors)
        else:
            picked = _fraction(factors, study.plan_options.fraction, number)
            fractioned += picked is not None
            cells += (
                all_cells(study, target, workload, factors)
                if picked is None
                else [
                    cell
                    for cell in all_cells(study, target, workload, factors)
                    if _point(cell, factors) in picked
                ]
            )
    if design == "fractional" and not fractioned:
        raise StudyError(
            [
                study.fault(
                    ("plan", "fraction"),
                    str(study.plan_options.fraction),
                    "too few cells would be left to tell the factors apart",
                    'a smaller fraction, more factors, or design = "full"',
                )
            ]
        )
    return cells


def _point(cell: Cell, factors: Mapping[str, list[Any]]) -> tuple[int, ...]:
    return tuple(levels.index(cell[factor]) for factor, levels in factors.items())


def _fraction(
    factors: Mapping[str, list[Any]], fraction: int, turn: int
) -> set[tuple[int, ...]] | None:
    """Return one in `fraction` of the cells, as level numbers; None when too few would remain.

    The fraction is that of a defining relation: the level numbers, each times a weight, sum to the
    same remainder modulo `fraction` (Montgomery, Design and Analysis of Experiments, 8th ed., ch. 8
    and 9). It is used only if the main effects of all factors remain separable (their model matrix
    has full rank). All levels of `slots` are kept if the fraction of the other factors alone is
    separable, because a study is read by its rate against slots. The weights are 1 where
    that will do: with five factors of two levels, a quarter would have 6 or 10 cells, and has 8
    with a weight of 2.
    """
    import numpy as np

    ways: list[set[str]] = [set(factors)]
    if "slots" in factors:
        ways.insert(0, set(factors) - {"slots"})
    points = np.array(
        list(itertools.product(*(range(len(levels)) for levels in factors.values()))),
        dtype=np.int64,
    )
    for summed in ways:
        columns = [number for number, factor in enumerate(factors) if factor in summed]
        if not columns:
            continue
        counts = [len(levels) for levels in factors.values()]
        picked = _of_relation(points, counts, columns, fraction, turn)
        if picked is not None:
            return {tuple(int(level) for level in point) for point in picked}
    return None


def _of_relation(
    points: NDArray[np.int64], counts: list[int], columns: list[int], fraction: int, turn: int
) -> NDArray[np.int64] | None:
    """Return the points whose levels in these columns sum to a remainder modulo `fraction`.

    Their number is off the wanted one by less than a factor has levels. None if they never separate
    the main effects. `counts`: levels of each factor. Weights of 1 are tried first.
    """
    import numpy as np

    wanted = len(points) / fraction
    tried = itertools.product(range(1, fraction), repeat=len(columns))
    for weights in itertools.islice(tried, _MOST_WEIGHTS):
        sums = (points[:, columns] * np.array(weights)).sum(axis=1)
        picked = points[sums % fraction == turn % fraction]
        if abs(len(picked) - wanted) < max(counts) and _separates(counts, picked):
            return picked
    return None


def _separates(counts: list[int], points: NDArray[np.int64]) -> bool:
    """Return whether these points separate the main effects of factors with `counts` levels."""
    import numpy as np

    columns = [np.ones(len(points))]
    for factor, count in enumerate(counts):
        columns += [(points[:, factor] == level).astype(np.float64) for level in range(1, count)]
    matrix = np.column_stack(columns)
    return len(points) > 0 and int(np.linalg.matrix_rank(matrix)) == matrix.shape[1]


def quantity(level: Any) -> float | None:
    """Return a level as a number in its base unit: 65536 for `"64 KiB"`, None for `"ext4"`."""
    if isinstance(level, bool):
        return None
    if isinstance(level, (int, float)):
        return float(level)
    if isinstance(level, str):
        parsers: tuple[Callable[[object], float], ...] = (
            parse_bytes,
            parse_bytes_per_s,
            parse_seconds,
        )
        for parse in parsers:
            try:
                return float(parse(level))
            except ValueError:
                continue
    return None


def extremes(levels: list[Any]) -> list[Any]:
    """Return the lowest and highest level.

    For levels that are not quantities: the first and last as written.
    """
    if len(levels) < 2:
        return list(levels)
    sizes = [quantity(level) for level in levels]
    if any(size is None for size in sizes):
        return [levels[0], levels[-1]]
    order = sorted(range(len(levels)), key=lambda number: sizes[number] or 0.0)
    return [levels[order[0]], levels[order[-1]]]


def _screen(
    study: Study, target: str, workload: str, factors: Mapping[str, list[Any]]
) -> list[Cell]:
    """Return a Plackett-Burman design over the two extreme levels of each factor.

    It estimates main effects only. The number of runs is the next multiple of 4.
    """
    pair = {factor: extremes(levels) for factor, levels in factors.items()}
    varied = [factor for factor, levels in pair.items() if len(levels) == 2]
    cells = all_cells(study, target, workload, pair)
    if len(varied) < 3:  # the full product is as small as any design
        return cells
    from pyDOE3 import pbdesign

    runs = {tuple(int(sign > 0) for sign in row) for row in pbdesign(len(varied))}
    varied_pair = {factor: pair[factor] for factor in varied}
    return [cell for cell in cells if _point(cell, varied_pair) in runs]
