"""Engine `simulate`: factors of a study that no model knows, whose levels are simulated alike."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from headrace.engine.simulate.trials import PreparedTrial
from headrace.errors import HeadraceError
from headrace.plan.trial import Trial
from headrace.study.model import Study

_MOST_PAIRS = 20
"""Of cells that are compared for a factor: one that has an effect mostly shows it in the first."""


def unknown_factors(study: Study, cells: Sequence[Trial]) -> tuple[str, ...]:
    """Return the factors with which no scenario changes, wherever they apply. `cells` has one trial
    of each cell.

    Without a word of it, analysis would find that the levels make no difference.
    """
    found: list[str] = []
    for factor in study.factors:
        pairs = list(islice(_pairs(cells, factor), _MOST_PAIRS))
        if pairs and all(_alike(study, one, other) for one, other in pairs):
            found.append(factor)
    return tuple(found)


def _pairs(cells: Sequence[Trial], factor: str) -> Iterator[tuple[Trial, Trial]]:
    """Yield pairs of cells that differ in the levels of a factor alone."""
    first: dict[str, Trial] = {}
    for cell in cells:
        level = cell.levels.get(factor)
        if level is None:
            continue
        others = {name: each for name, each in cell.levels.items() if name != factor}
        key = json.dumps([cell.target, cell.workload, others], sort_keys=True, default=str)
        if (one := first.setdefault(key, cell)).levels[factor] != level:
            yield one, cell


def _alike(study: Study, one: Trial, other: Trial) -> bool:
    """Return whether two cells are one scenario, but for their seeds."""
    try:
        made = [
            PreparedTrial.of(study, replace(each, seed=0)).scenario(series=False)
            for each in (one, other)
        ]
    except HeadraceError:
        return False
    scenarios = [{**json.loads(text), "name": ""} for text in made]
    return scenarios[0] == scenarios[1]
