"""Partial cells that select exactly some cells of a study, for `[[only]]`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from headrace.plan.cells import Cell, key, matches

PartialCell = dict[str, list[Any]]


def covering(
    kept: Sequence[Cell], every: Sequence[Cell], factors: Mapping[str, list[Any]]
) -> list[PartialCell]:
    """Return partial cells that the kept ones match and no other; none where all are kept.

    `every`: all cells to select from. `factors`: every factor with its levels, for their order.
    Cells that differ in one factor are merged, and factors that select nothing are left out.
    """
    wanted = {key(cell) for cell in kept}
    if wanted == {key(cell) for cell in every}:
        return []
    boxes = _merged(
        [{name: [level] for name, level in cell.items() if level is not None} for cell in kept]
    )
    others = [cell for cell in every if key(cell) not in wanted]
    return [_ordered(_shortened(box, others), factors) for box in boxes]


def _merged(boxes: list[PartialCell]) -> list[PartialCell]:
    """Return fewer partial cells that match the same: those that differ in one factor are one."""
    names = list(dict.fromkeys(name for box in boxes for name in box))
    count = -1
    while count != len(boxes):
        count = len(boxes)
        for name in names:
            boxes = _merged_in(boxes, name)
    return boxes


def _merged_in(boxes: Sequence[PartialCell], name: str) -> list[PartialCell]:
    found: dict[str, PartialCell] = {}
    for box in boxes:
        # Levels in one order, so that equal sets of them are equal.
        rest = {other: sorted(levels, key=repr) for other, levels in box.items() if other != name}
        same = key({"has": name in box, **rest})
        if same not in found:
            found[same] = dict(box)
        elif name in box:
            merged = found[same]
            merged[name] = [*merged[name], *(x for x in box[name] if x not in merged[name])]
    return list(found.values())


def _shortened(box: PartialCell, others: Collection[Cell]) -> PartialCell:
    """Return a partial cell without the factors that it does not need to leave out the others."""
    short = dict(box)
    for name in sorted(box, key=lambda name: -len(box[name])):
        without = {other: levels for other, levels in short.items() if other != name}
        if without and not any(matches(cell, without) for cell in others):
            short = without
    return short


def _ordered(box: PartialCell, factors: Mapping[str, list[Any]]) -> PartialCell:
    return {name: sorted(box[name], key=factors[name].index) for name in factors if name in box}
