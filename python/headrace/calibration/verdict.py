"""How good a learnt site is: errors of cells that nothing was fitted to, and where to trust it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headrace.plan.trial import Trial
from headrace.units import format_change, format_share

Role = Literal["learnt", "checked", "predicted"]
Null = Literal["time", "rate"]
NULLS: tuple[Null, Null] = ("time", "rate")
"""What a cell has in common with the nearest measured one if nothing is modelled."""
LIMIT = 0.15
"""Largest error of a checked cell with which a site counts as good, unless the user says."""


_NAMED_APART = ("target", "workload", "cache", "slots", "nodes")
_FEW = 3
"""Checked cells of which a median says something."""


@dataclass(frozen=True)
class PredictedCell:
    """One cell, simulated with the learnt site."""

    trial: Trial
    slots: int
    """Jobs at once, of all nodes."""
    role: Role
    predicted_s: float
    """Time until the last job is done, for the work that the measured jobs did."""
    measured_s: float | None
    null_s: tuple[float, float] | None = None
    """What the nearest cell that values were fitted to gives: its time, and the time at its rate of
    work."""

    @property
    def error(self) -> float | None:
        """Predicted over measured time, less one."""
        return None if self.measured_s is None else self.predicted_s / self.measured_s - 1

    def null_error(self, null: Null) -> float | None:
        """Return the same for the nearest measured cell in place of a prediction."""
        if self.measured_s is None or self.null_s is None:
            return None
        return self.null_s[NULLS.index(null)] / self.measured_s - 1

    @property
    def name(self) -> str:
        """Target, workload, further levels, and slots."""
        parts = (self.trial.target, self.trial.workload, *self.levels, slots_words(self.slots))
        return ", ".join(parts)

    @property
    def levels(self) -> tuple[str, ...]:
        """Levels of the other factors: words as they are, others with the factor's name."""
        further = {
            name.removeprefix("run."): level
            for name, level in self.trial.levels.items()
            if level is not None
        }
        return tuple(
            level if isinstance(level, str) else f"{name} = {level}"
            for name, level in further.items()
            if name not in _NAMED_APART
        )


@dataclass(frozen=True)
class SiteVerdict:
    """How far a learnt site can be trusted."""

    good_to: float | None
    """Largest error of the checked cells; None without any."""
    typical: float | None
    """Median error of the checked cells."""
    null: Null
    """What every cell has in common with the nearest measured one: what errs less."""
    null_typical: float | None
    """Median error if every cell were like the nearest measured one."""
    trusted: bool
    """Whether every checked cell is within the limit."""
    sentences: tuple[str, ...]


def nearest(trial: Trial, learnt: Sequence[Trial], slots: dict[str, int]) -> Trial | None:
    """Return the cell with the same target and workload that differs least: in levels, then in
    slots."""
    alike = [
        each for each in learnt if (each.target, each.workload) == (trial.target, trial.workload)
    ]

    def distance(each: Trial) -> tuple[int, float]:
        other = sum(
            level != trial.levels.get(name)
            for name, level in each.levels.items()
            if name.removeprefix("run.") not in ("slots", "nodes")
        )
        return other, abs(math.log(slots[each.cell] / slots[trial.cell]))

    return min(alike, key=distance, default=None)


def judge(cells: Sequence[PredictedCell], limit: float) -> SiteVerdict:
    """Return the verdict over the checked cells, and where the site is not to be trusted."""
    checked = [cell for cell in cells if cell.role == "checked" and cell.error is not None]
    measured = [cell.slots for cell in cells if cell.measured_s is not None]
    if not checked:
        text = "no cell was measured to check it: nothing is known about its predictions"
        return SiteVerdict(None, None, "time", None, False, (text,))
    errors = [abs(cell.error or 0.0) for cell in checked]
    null, null_errors = _best_null(checked)
    worst = max(checked, key=lambda cell: abs(cell.error or 0.0))
    bad = [cell for cell in checked if abs(cell.error or 0.0) > limit]
    typical = float(np.median(errors))
    null_typical = float(np.median(null_errors)) if null_errors else None
    number = "the cell" if len(checked) == 1 else f"{len(checked)} cells"
    half = f"half within {format_share(typical)}; " if len(checked) >= _FEW else ""
    sentences = [
        f"good to {format_share(max(errors))} in {number} that it had not seen ({half}"
        f"worst: {worst.name}, {format_change(worst.error or 0.0)})"
    ]
    if null_typical is not None:
        better = "better" if typical < null_typical else "no better"
        sentences.append(
            f'{better} than no model, "every cell has the {null} of the nearest measured one" '
            f"(half within {format_share(null_typical)}, at most {format_share(max(null_errors))})"
        )
    for cell in bad:
        trusted = max((each.slots for each in cells if _is_alike(each, cell, limit)), default=0)
        where = f"beyond {slots_words(trusted)}" if 0 < trusted < cell.slots else "at all"
        what = ", ".join((f"{cell.trial.workload} on {cell.trial.target}", *cell.levels))
        sentences.append(
            f"do not trust it {where} for {what}: {format_change(cell.error or 0.0)} at "
            f"{slots_words(cell.slots)}"
        )
    most = max(measured)
    sentences.append(f"do not trust it beyond {slots_words(most)}: no cell with more was measured")
    if bad:
        sentences[0] = sentences[0].replace("good to", "off by up to")
    return SiteVerdict(max(errors), typical, null, null_typical, not bad, tuple(sentences))


def slots_words(count: int) -> str:
    """Return a number of slots in words."""
    return "1 slot" if count == 1 else f"{count} slots"


def _best_null(checked: Sequence[PredictedCell]) -> tuple[Null, list[float]]:
    """Return the null that errs less, and its errors."""
    found: dict[Null, list[float]] = {}
    for null in NULLS:
        errors = [cell.null_error(null) for cell in checked]
        found[null] = [abs(error) for error in errors if error is not None]
    best = min(NULLS, key=lambda null: np.median(found[null]) if found[null] else math.inf)
    return best, found[best]


def _is_alike(each: PredictedCell, bad: PredictedCell, limit: float) -> bool:
    """Return whether a measured cell that differs in slots or cache alone is within the limit."""
    own, others = ((cell.trial.target, cell.trial.workload, cell.levels) for cell in (bad, each))
    return own == others and each.error is not None and abs(each.error) <= limit


def as_json(
    cells: Sequence[PredictedCell],
    verdict: SiteVerdict,
    learnt: object,
    not_measured: Sequence[Trial],
) -> str:
    """Return everything as JSON, for `--json`.

    `not_measured`: cells that were to be learnt from or checked, and have no valid trial.
    """
    return json.dumps(
        {
            "good_to": verdict.good_to,
            "typical_error": verdict.typical,
            "typical_error_of_nearest": verdict.null_typical,
            "trusted": verdict.trusted,
            "verdict": list(verdict.sentences),
            "parameters": learnt,
            "cells": [
                {
                    "target": cell.trial.target,
                    "workload": cell.trial.workload,
                    "levels": cell.trial.levels,
                    "role": cell.role,
                    "predicted_s": cell.predicted_s,
                    "measured_s": cell.measured_s,
                    "error": cell.error,
                    "error_of_nearest": cell.null_error(verdict.null),
                }
                for cell in cells
            ],
            "not_measured": [
                {"target": trial.target, "workload": trial.workload, "levels": trial.levels}
                for trial in not_measured
            ],
        },
        indent=1,
        default=str,
    )
