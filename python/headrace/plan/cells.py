"""Which cells a study has: the product of its factors' levels, without what does not apply and without what it excludes.

First step of planning; `design.py` then chooses among them.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from headrace.errors import StudyError
from headrace.plan.mistakes import fault
from headrace.plan.rules import Rules
from headrace.study.model import Study

Cell = dict[str, Any]
"""Every factor's level (`target` and `workload` first); None where the factor does not apply."""

MOST_CELLS = 1_000_000
"""A study with more cells is a slip of the pen; nobody could run them."""


def key(cell: Mapping[str, Any]) -> str:
    """A text that is equal for equal cells."""
    return json.dumps(cell, sort_keys=True, default=str)


def excluded(cell: Cell, partial: Mapping[str, list[Any]]) -> bool:
    """Whether every key of the partial cell has one of its listed levels in the cell.

    A factor that does not apply to the cell has no level, so a partial cell that names it does not match.
    """
    return all(cell.get(factor) is not None and cell[factor] in levels for factor, levels in partial.items())


def group_factors(study: Study, rules: Rules, target: str, workload: str) -> dict[str, list[Any]]:
    """The factors that mean something to one target and workload, with their levels; those without meaning are left out."""
    return {
        factor: levels
        for factor, levels in study.factors.items()
        if factor not in ("target", "workload") and rules.applies(study, factor, target, workload)
    }


def groups(study: Study) -> Iterator[tuple[str, str]]:
    """Every pair of target and workload, in the order of the study."""
    yield from itertools.product(study.factors["target"], study.factors["workload"])


def all_cells(study: Study, target: str, workload: str, factors: Mapping[str, list[Any]]) -> list[Cell]:
    """Every cell of one target and workload before anything is excluded, each once.

    `factors` are those that apply (`group_factors`); every other factor of the study is None in the cells. Raises
    StudyError when there are more than `MOST_CELLS`.
    """
    count = math.prod(len(levels) for levels in factors.values())
    if count > MOST_CELLS:
        raise StudyError(
            [
                fault(
                    study,
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
    """The cells that no `[[exclude]]` takes away.

    Raises StudyError, naming the excludes to blame, when none is left.
    """
    left = [cell for cell in cells if not any(excluded(cell, partial) for partial in study.exclude)]
    if left or not cells:
        return left
    alone = [
        number
        for number, partial in enumerate(study.exclude)
        if all(excluded(cell, partial) for cell in cells)
    ]
    guilty = alone or [
        number
        for number, partial in enumerate(study.exclude)
        if any(excluded(cell, partial) for cell in cells)
    ]
    problem = (
        "leaves nothing to try" if alone else f"together with the others leaves nothing of {len(cells)} cells"
    )
    raise StudyError(
        [
            fault(
                study,
                ("exclude", number),
                _written(study.exclude[number]),
                problem,
                "a partial cell that some cells do not match",
            )
            for number in guilty
        ]
    )


def _written(partial: Mapping[str, list[Any]]) -> str:
    return ", ".join(f"{factor} = {json.dumps(levels, default=str)}" for factor, levels in partial.items())
