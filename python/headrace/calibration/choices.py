"""What a cell's jobs are made of: the levels of its workload's factors that are words.

A format, a reader or a compression decides which code a job runs, and no model knows what another
code costs. So each of these levels is learnt from. Factors that are numbers change how often the
same code runs; models know that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from headrace.plan.trial import Trial
from headrace.site import value_at
from headrace.study.factors import find_factor
from headrace.study.model import Study
from headrace.study.resolve import resolve

Choices = dict[str, str]
"""Field of a workload -> the word that a cell has for it."""
_NOT_CODE = frozenset({"source"})
"""Fields whose words say where data are."""


def choices(study: Study, trial: Trial) -> Choices:
    """Return the words that the factors of a study give to the workload of a cell."""
    given = resolve(study, trial.target, trial.workload, trial.levels).workload_options
    found: Choices = {}
    for factor, level in trial.levels.items():
        if level is None or factor in ("target", "workload"):
            continue
        for address in find_factor(study, factor):
            own = address.section == "workload" and address.part in (None, trial.workload)
            if not own or address.field in _NOT_CODE:
                continue
            value = value_at(given, address.field)
            if isinstance(value, str):
                found[address.field] = value
    return found


def most_common(cells: Iterable[Choices]) -> Choices:
    """Return the word of each field that most cells have; the first of those that are as many."""
    counts: dict[str, Counter[str]] = {}
    for cell in cells:
        for name, word in cell.items():
            counts.setdefault(name, Counter())[word] += 1
    return {name: count.most_common(1)[0][0] for name, count in counts.items()}
