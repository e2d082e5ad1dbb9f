"""Study -> Plan: the chosen cells, without the excluded, in whole plots and rounds, each trial with a seed.

Split-plot order. A whole plot is one coming-to-be of a target: its target and hard-to-change levels (filesystem, mkfs
options) are set once, and the cells that differ in easy levels are tried within it in random order. A round tries each cell
once, whole plots in random order; each repeat is a round, so every whole plot is made anew for every repeat and its effect can be
told from noise. All orders come from hashes of the seed: no library's random stream can change them.
"""

from __future__ import annotations

import hashlib
from typing import Any

from headrace.errors import StudyError
from headrace.plan.cells import MOST_CELLS, Cell, key, without_excluded
from headrace.plan.design import chosen_cells
from headrace.plan.mistakes import fault
from headrace.plan.rules import Rules
from headrace.plan.trial import Plan, Trial
from headrace.study import resolve
from headrace.study.model import Study


def make_plan(study: Study, rules: Rules = resolve) -> Plan:
    """The complete, ordered, seeded list of trials.

    Raises StudyError when the excludes leave nothing, naming them, or when a fraction is too small to tell factors apart.
    """
    options = study.plan_options
    cells = without_excluded(study, chosen_cells(study, rules))
    rounds = options.repeats.most
    if len(cells) * rounds > MOST_CELLS:
        count = f"{len(cells)} cells x {rounds} repeats"
        raise StudyError([fault(study, ("factors",), count, "too many trials", f"at most {MOST_CELLS}")])
    plots: dict[str, list[Cell]] = {}
    hard = {
        target: [factor for factor in study.factors if rules.hard_to_change(study, factor, target)]
        for target in study.factors["target"]
    }
    for cell in cells:
        fixed = {"target": cell["target"], **{factor: cell[factor] for factor in hard[cell["target"]]}}
        plots.setdefault(key(fixed), []).append(cell)
    trials: list[Trial] = []
    whole_plot = 0
    for repeat in range(rounds):
        for plot in sorted(plots, key=lambda plot: _draw(options.seed, "whole plot", repeat, plot)):
            for cell in sorted(plots[plot], key=lambda cell: _draw(options.seed, "cell", repeat, key(cell))):
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


def absent_levels(study: Study, plan: Plan) -> list[tuple[str, Any]]:
    """Levels that the study names and no trial has: excluded, left out by the design, or without meaning for any target."""
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
    """A number as good as random, the same wherever these four are the same."""
    digest = hashlib.sha256(f"{seed}\0{purpose}\0{repeat}\0{what}".encode()).digest()
    return int.from_bytes(digest[:8], "big")
