"""Cells of a study: the product of its factors' levels.

Levels that do not apply are absent, and so are cells that `[[exclude]]` or `[[only]]` leaves out.
First step of planning; `design.py` then selects among the cells.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.errors import StudyError
from headrace.plan.rules import Rules
from headrace.study.model import Study

Cell = dict[str, Any]
"""Level of every factor, `target` and `workload` first; None where the factor does not apply."""

MOST_CELLS = 1_000_000
"""A study with more cells is a typing error: nobody could run them."""


def key(cell: Mapping[str, Any]) -> str:
    """Return a text that is equal for equal cells."""
    return json.dumps(cell, sort_keys=True, default=str)


def matches(cell: Cell, partial: Mapping[str, list[Any]]) -> bool:
    """Return whether every key of the partial cell has one of its listed levels in the cell.

    A factor that does not apply to the cell has no level, so a partial cell that names it does not
    match.
    """
    return all(
        cell.get(factor) is not None and cell[factor] in levels
        for factor, levels in partial.items()
    )


def group_factors(study: Study, rules: Rules, target: str, workload: str) -> dict[str, list[Any]]:
    """Return the factors that apply to one target and workload, with their levels."""
    return {
        factor: rules.levels(study, factor, target)
        for factor in study.factors
        if factor not in ("target", "workload") and rules.applies(study, factor, target, workload)
    }


def groups(study: Study) -> Iterator[tuple[str, str]]:
    """Yield every pair of target and workload, in the order of the study."""
    yield from itertools.product(study.factors["target"], study.factors["workload"])


def all_cells(
    study: Study, target: str, workload: str, factors: Mapping[str, list[Any]]
) -> list[Cell]:
    """Return every cell of one target and workload, each once, before exclusion.

    `factors` are those that apply (`group_factors`); every other factor of the study is None in the
    cells. Raises StudyError for more than `MOST_CELLS` cells.
    """
    count = math.prod(len(levels) for levels in factors.values())
    if count > MOST_CELLS:
        raise StudyError(
            [
                study.fault(
                    ("factors",),
                    f"{count} cells for target {target!r} and workload {workload!r}",
                    "too many cells to try",
                    f"at most {MOST_CELLS}; fewer factors or levels",
                )
            ]
        )
    found: dict[str, Cell] = {}
    for levels in itertools.product(*factors.values()):
        point = dict(zip(factors, levels, strict=True))
        cell: Cell = {"target": target, "workload": workload}
        cell.update({factor: point.get(factor) for factor in study.factors if factor not in cell})
        found.setdefault(key(cell), cell)
    return list(found.values())


def without_excluded(study: Study, cells: list[Cell]) -> list[Cell]:
    """Return the cells that no `[[exclude]]` matches and, where there is an `[[only]]`, one does.

    Raises StudyError that names the responsible tables when no cell is left.
    """
    allowed = [cell for cell in cells if not _matching(cell, study.exclude)]
    if cells and not allowed:
        raise _nothing_left(study, cells)
    left = [cell for cell in allowed if not study.only or _matching(cell, study.only)]
    if allowed and not left:
        written = "; ".join(_written(partial) for partial in study.only)
        problem = f"matches none of {len(allowed)} cells"
        raise StudyError([study.fault(("only", 0), written, problem, "levels that a cell has")])
    return left


def _matching(cell: Cell, partials: Sequence[Mapping[str, list[Any]]]) -> bool:
    return any(matches(cell, partial) for partial in partials)


def _nothing_left(study: Study, cells: Sequence[Cell]) -> StudyError:
    """Return the error that names the excludes which together leave no cell."""
    alone = [
        number
        for number, partial in enumerate(study.exclude)
        if all(matches(cell, partial) for cell in cells)
    ]
    guilty = alone or [
        number
        for number, partial in enumerate(study.exclude)
        if any(matches(cell, partial) for cell in cells)
    ]
    problem = (
        "leaves nothing to try"
        if alone
        else f"together with the others leaves nothing of {len(cells)} cells"
    )
    return StudyError(
        [
            study.fault(
                ("exclude", number),
                _written(study.exclude[number]),
                problem,
                "a partial cell that some cells do not match",
            )
            for number in guilty
        ]
    )


def _written(partial: Mapping[str, list[Any]]) -> str:
    return ", ".join(
        f"{factor} = {json.dumps(levels, default=str)}" for factor, levels in partial.items()
    )
