"""The text of a study that has some of another study's cells."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from headrace.errors import StudyError, UsageError
from headrace.plan.cells import Cell, key
from headrace.plan.cover import covering
from headrace.plan.order import make_plan
from headrace.plan.trial import Trial
from headrace.study.load import load_study_text
from headrace.study.model import Study
from headrace.study.narrow import narrowed_text
from headrace.study.resolve import resolve
from headrace.whatif.matrix import full_matrix


def smaller_study(study: Study, text: str, out: Path, kept: Collection[str], comment: str) -> str:
    """Return the text of a study with the cells (`Trial.cell`) that are kept, to be written to
    `out`.

    Raises UsageError when files that the study names would not be found from there.
    """
    full = full_matrix(study)
    cells = _cells(make_plan(full).trials)
    wanted = [levels for cell, levels in cells.items() if cell in kept]
    factors = {
        name: [level for level in levels if any(cell[name] == level for cell in wanted)] or levels
        for name, levels in study.factors.items()
    }
    exclude = [
        {name: [x for x in levels if x in factors[name]] for name, levels in partial.items()}
        for partial in study.exclude
    ]
    product = replace(
        full, factors=factors, exclude=[e for e in exclude if all(e.values())], only=[]
    )
    only = covering(wanted, list(_cells(make_plan(product).trials).values()), factors)
    lines = [piece for line in comment.splitlines() for piece in textwrap.wrap(line, 96)]
    made = narrowed_text(text, factors, only, "\n".join(lines))
    _check(study, made, out, wanted)
    return made


def _cells(trials: Sequence[Trial]) -> dict[str, Cell]:
    return {trial.cell: dict(trial.levels) for trial in trials}


def _check(study: Study, text: str, out: Path, wanted: Sequence[Cell]) -> None:
    """Refuse a text that is not the same study with these cells."""
    elsewhere = UsageError(
        f"{out}: the study names files relative to its folder, which would not be found from there",
        hint=f"name a file in {study.base} with --out",
    )
    try:
        made = load_study_text(text, file=out, base=out.resolve().parent)
    except StudyError:
        if out.resolve().parent == study.base:
            raise
        raise elsewhere from None
    cells = {key(cell) for cell in _cells(make_plan(made).trials).values()}
    assert cells == {key(cell) for cell in wanted}, "the smaller study has other cells"
    for cell in wanted:
        target, workload = str(cell["target"]), str(cell["workload"])
        if resolve(study, target, workload, cell) != resolve(made, target, workload, cell):
            raise elsewhere
