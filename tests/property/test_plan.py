"""What holds for the plan of any study: rounds, whole plots, excludes, seeds."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.errors import StudyError
from headrace.plan import Plan, make_plan
from headrace.plan.cells import key, matches
from headrace.study.model import NamedPlugin, PlanOptions, Repeats, ReportOptions, RunOptions, Study

FACTORS = ["filesystem", "scheduler", "read_ahead", "slots", "codec"]


@dataclass(frozen=True)
class DrawnRules:
    """Which factors mean something to which target and workload, and which are hard to change, as
    drawn."""

    meaningless: frozenset[tuple[str, str]]
    hard: frozenset[str]

    def applies(self, study: Study, factor: str, target: str, workload: str) -> bool:
        return (factor, target) not in self.meaningless and (
            factor,
            workload,
        ) not in self.meaningless

    def levels(self, study: Study, factor: str, target: str) -> list[Any]:
        return study.factors[factor]

    def hard_to_change(self, study: Study, factor: str, target: str) -> bool:
        return factor == "target" or factor in self.hard


def study_of(
    factors: dict[str, list[Any]], exclude: list[dict[str, list[Any]]], plan: PlanOptions
) -> Study:
    return Study(
        headrace=1,
        title="drawn",
        file=Path("drawn.toml"),
        targets={
            name: NamedPlugin(name=name, kind="path", written={}, options=None)
            for name in factors["target"]
        },
        workloads={
            name: NamedPlugin(name=name, kind="scan", written={}, options=None)
            for name in factors["workload"]
        },
        factors=factors,
        exclude=exclude,
        plan_options=plan,
        run_options=RunOptions(),
        report_options=ReportOptions(),
        site=None,
        faults=[],
        hash="abc",
    )


@st.composite
def studies(draw: st.DrawFn, designs: tuple[str, ...] = ("full",)) -> tuple[Study, DrawnRules]:
    factors: dict[str, list[Any]] = {
        "target": ["disk", "nas"][: draw(st.integers(1, 2))],
        "workload": ["scan", "skim"][: draw(st.integers(1, 2))],
    }
    for name in draw(st.lists(st.sampled_from(FACTORS), unique=True, max_size=4)):
        factors[name] = [f"{name}-{level}" for level in range(draw(st.integers(1, 4)))]
    exclude: list[dict[str, list[Any]]] = []
    for _ in range(draw(st.integers(0, 2))):
        names = draw(st.lists(st.sampled_from(list(factors)), unique=True, min_size=1, max_size=3))
        exclude.append(
            {
                name: draw(st.lists(st.sampled_from(factors[name]), unique=True, min_size=1))
                for name in names
            }
        )
    parts = [*factors["target"], *factors["workload"]]
    varied = [name for name in factors if name not in ("target", "workload")]
    meaningless = (
        draw(st.frozensets(st.sampled_from(list(itertools.product(varied, parts)))))
        if varied
        else frozenset()
    )
    hard = draw(st.frozensets(st.sampled_from(varied))) if varied else frozenset()
    repeats = Repeats(min=draw(st.integers(1, 4)))
    plan = PlanOptions(
        design=draw(st.sampled_from(designs)), repeats=repeats, seed=draw(st.integers(0, 2**32))
    )
    return study_of(factors, exclude, plan), DrawnRules(meaningless, hard)


def planned(study: Study, rules: DrawnRules) -> Plan | None:
    """The plan, or None when the study is one that has none."""
    try:
        return make_plan(study, rules)
    except StudyError:
        return None


def expected_cells(study: Study, rules: DrawnRules) -> set[str]:
    found: set[str] = set()
    for levels in itertools.product(*study.factors.values()):
        cell = dict(zip(study.factors, levels, strict=True))
        cell = {
            name: level
            if name in ("target", "workload")
            or rules.applies(study, name, cell["target"], cell["workload"])
            else None
            for name, level in cell.items()
        }
        if not any(matches(cell, partial) for partial in study.exclude):
            found.add(key(cell))
    return found


@given(studies())
def test_each_round_of_a_full_design_tries_every_cell_once(drawn: tuple[Study, DrawnRules]) -> None:
    study, rules = drawn
    plan = planned(study, rules)
    expected = expected_cells(study, rules)
    assert (plan is None) == (not expected)
    if plan is None:
        return
    for repeat in range(study.plan_options.repeats.most):
        round_cells = [key(trial.levels) for trial in plan.trials if trial.repeat == repeat]
        assert sorted(round_cells) == sorted(expected)


@given(studies(("full", "fractional", "screen")))
def test_nothing_excluded_is_planned_and_repeats_are_whole(drawn: tuple[Study, DrawnRules]) -> None:
    study, rules = drawn
    plan = planned(study, rules)
    if plan is None:
        return
    assert [trial.index for trial in plan.trials] == list(range(len(plan.trials)))
    assert len({trial.id for trial in plan.trials}) == len(plan.trials)
    by_cell: dict[str, list[int]] = {}
    for trial in plan.trials:
        assert not any(matches(trial.levels, partial) for partial in study.exclude)
        assert (trial.target, trial.workload) == (trial.levels["target"], trial.levels["workload"])
        by_cell.setdefault(trial.cell, []).append(trial.repeat)
    assert all(
        repeats == list(range(study.plan_options.repeats.most)) for repeats in by_cell.values()
    )
    assert {key(trial.levels) for trial in plan.trials} <= expected_cells(study, rules)


@given(studies(("full", "fractional", "screen")))
def test_whole_plots_are_contiguous_and_made_anew_in_each_round(
    drawn: tuple[Study, DrawnRules],
) -> None:
    study, rules = drawn
    plan = planned(study, rules)
    if plan is None:
        return
    numbers = [number for number, _ in itertools.groupby(trial.whole_plot for trial in plan.trials)]
    assert numbers == list(range(len(numbers))), "a whole plot is interrupted"
    setups: dict[int, set[tuple[str, int]]] = {}
    for trial in plan.trials:
        fixed = {
            name: level
            for name, level in trial.levels.items()
            if rules.hard_to_change(study, name, trial.target)
        }
        setups.setdefault(trial.whole_plot, set()).add((key(fixed), trial.repeat))
    assert all(len(found) == 1 for found in setups.values()), (
        "a whole plot mixes hard levels or rounds"
    )
    once = [next(iter(found)) for found in setups.values()]
    assert len(set(once)) == len(once), "one setup stands twice in a round"
    assert len(once) == len({setup for setup, _ in once}) * study.plan_options.repeats.most


@given(studies(("full", "fractional", "screen")))
@settings(max_examples=40)
def test_equal_seed_equal_plan_and_other_seed_same_trials(drawn: tuple[Study, DrawnRules]) -> None:
    study, rules = drawn
    plan = planned(study, rules)
    if plan is None:
        return
    assert make_plan(study, rules) == plan
    reseeded = replace(study, plan_options=study.plan_options.model_copy(update={"seed": 2**33}))
    other = make_plan(reseeded, rules)
    assert sorted((trial.cell, trial.repeat) for trial in other.trials) == sorted(
        (t.cell, t.repeat) for t in plan.trials
    )
    assert {trial.seed for trial in other.trials} != {trial.seed for trial in plan.trials}


@given(st.lists(st.integers(2, 4), min_size=3, max_size=5), st.integers(2, 4), st.integers(0, 100))
@example(counts=[2, 2, 2, 2, 2], fraction=4, seed=0)  # weights of 1 alone give 6 of 32
@settings(max_examples=60)
def test_a_fraction_still_tells_main_effects_apart(
    counts: list[int], fraction: int, seed: int
) -> None:
    import numpy as np

    factors: dict[str, list[Any]] = {"target": ["disk"], "workload": ["scan"]}
    factors |= {f"factor{number}": list(range(count)) for number, count in enumerate(counts)}
    options = PlanOptions(design="fractional", fraction=fraction, repeats=Repeats(min=1), seed=seed)
    plan = planned(study_of(factors, [], options), DrawnRules(frozenset(), frozenset()))
    total = int(np.prod(counts))
    if plan is None:
        assert fraction > 2 and total // fraction <= 2 * (1 + sum(counts) - len(counts))
        return
    assert abs(len(plan.trials) - total / fraction) < max(counts)
    columns = [np.ones(len(plan.trials))]
    for number, count in enumerate(counts):
        levels = np.array([trial.levels[f"factor{number}"] for trial in plan.trials])
        tried = np.bincount(levels, minlength=count)
        assert tried.min() > 0
        columns += [(levels == level).astype(float) for level in range(1, count)]
    assert np.linalg.matrix_rank(np.column_stack(columns)) == len(columns)
