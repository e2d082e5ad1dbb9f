"""Study -> Plan: the chosen cells without the excluded ones, in whole plots and rounds, with seeds.

Split-plot order. A whole plot is one set-up of a target: its hard-to-change levels (filesystem,
mkfs options) are set once, and the cells that differ in easy levels run within it in random order.
A round runs each cell once, with whole plots in random order. Each repeat is a round, so every
whole plot is set up anew for every repeat and its effect can be separated from noise. All orders
come from hashes of the seed, so no library's random stream can change them.
"""

from __future__ import annotations

import hashlib
from typing import Any

from headrace.errors import FileProblem, StudyError
from headrace.plan.cells import MOST_CELLS, Cell, key, without_excluded
from headrace.plan.design import chosen_cells
from headrace.plan.rules import Rules
from headrace.plan.trial import Plan, Trial
from headrace.study import resolve
from headrace.study.model import Study


def make_plan(study: Study, rules: Rules = resolve) -> Plan:
    """Return the complete, ordered, seeded list of trials.

    Raises StudyError when the excludes leave no cells (it names them), or when a fraction is too
    small to separate the factors.
    """
    options = study.plan_options
    cells = without_excluded(study, chosen_cells(study, rules))
    rounds = options.repeats.most
    if len(cells) * rounds > MOST_CELLS:
        raise StudyError([_too_many(study, len(cells), rounds)])
    plots: dict[str, list[Cell]] = {}
    hard = {
        target: [factor for factor in study.factors if rules.hard_to_change(study, factor, target)]
        for target in study.factors["target"]
    }
    for cell in cells:
        fixed = {
            "target": cell["target"],
            **{factor: cell[factor] for factor in hard[cell["target"]]},
        }
        plots.setdefault(key(fixed), []).append(cell)
    trials: list[Trial] = []
    whole_plot = 0
    for repeat in range(rounds):
        for plot in sorted(plots, key=lambda plot: _draw(options.seed, "whole plot", repeat, plot)):
            for cell in sorted(
                plots[plot], key=lambda cell: _draw(options.seed, "cell", repeat, key(cell))
            ):
                trials.append(
                    Trial(
                        index=len(trials),
                        target=cell["target"],
                        workload=cell["workload"],
                        levels=dict(cell),
                        repeat=repeat,
                        seed=_draw(options.seed, "trial", repeat, key(cell)) % 2**31,
                        whole_plot=whole_plot,
                    )
                )
            whole_plot += 1
    return Plan(trials=tuple(trials), study_hash=study.hash, seed=options.seed)


def _too_many(study: Study, cells: int, rounds: int) -> FileProblem:
    """Return the problem of too many trials, at the repeats or the factors, whichever are more."""
    repeats = study.plan_options.repeats
    of_repeats = ("plan", "repeats", "min" if rounds == repeats.min else "max")
    return study.fault(
        of_repeats if rounds > cells else ("factors",),
        f"{cells} cell{'' if cells == 1 else 's'} x {rounds} repeats",
        "too many trials",
        f"at most {MOST_CELLS}; fewer {'repeats' if rounds > cells else 'factors or levels'}",
    )


def absent_levels(study: Study, plan: Plan) -> list[tuple[str, Any]]:
    """Return levels that the study names and no trial has.

    They are excluded, left out by the design, or do not apply to any target.
    """
    tried: dict[str, set[str]] = {factor: set() for factor in study.factors}
    for trial in plan.trials:
        for factor, level in trial.levels.items():
            tried[factor].add(key({"level": level}))
    return [
        (factor, level)
        for factor, levels in study.factors.items()
        for level in levels
        if key({"level": level}) not in tried[factor]
    ]


def _draw(seed: int, purpose: str, repeat: int, what: str) -> int:
    """Return a pseudorandom number, equal for equal arguments."""
    digest = hashlib.sha256(f"{seed}\0{purpose}\0{repeat}\0{what}".encode()).digest()
    return int.from_bytes(digest[:8], "big")
