"""Plan: known answers, the messages of studies that cannot be planned, repeats, and the plan as a
file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.document import Document, parse_document
from headrace.errors import HeadraceError, StudyError
from headrace.plan import Plan, Trial, make_plan
from headrace.plan.design import extremes
from headrace.plan.intervals import interval
from headrace.plan.order import absent_levels
from headrace.plan.repeats import enough_because, headline_rate
from headrace.records.plan_file import read_plan, write_plan
from headrace.study.model import NamedPlugin, PlanOptions, Repeats, ReportOptions, RunOptions, Study


class Everywhere:
    """Every factor applies; the filesystem is hard to change."""

    def applies(self, study: Study, factor: str, target: str, workload: str) -> bool:
        return not (factor == "scheduler" and target == "nas")

    def levels(self, study: Study, factor: str, target: str) -> list[Any]:
        return study.factors[factor]

    def hard_to_change(self, study: Study, factor: str, target: str) -> bool:
        return factor in ("target", "filesystem")


def make_study(
    factors: dict[str, list[Any]],
    *,
    exclude: list[dict[str, list[Any]]] | None = None,
    plan: PlanOptions | None = None,
    document: Document | None = None,
) -> Study:
    factors = {"target": ["disk"], "workload": ["scan"], **factors}
    return Study(
        headrace=1,
        title="t",
        file=Path("s.toml"),
        document=document,
        targets={
            name: NamedPlugin(name=name, kind="block", written={}, options=None)
            for name in factors["target"]
        },
        workloads={
            name: NamedPlugin(name=name, kind="scan", written={}, options=None)
            for name in factors["workload"]
        },
        factors=factors,
        exclude=exclude or [],
        plan_options=plan or PlanOptions(),
        run_options=RunOptions(),
        report_options=ReportOptions(),
        site=None,
        faults=[],
        hash="abc",
    )


def test_smallest_study_tries_each_slot_count_three_times() -> None:
    plan = make_plan(make_study({"slots": [1, 2, 4]}), Everywhere())
    assert len(plan.trials) == 9
    assert [trial.whole_plot for trial in plan.trials] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert {trial.levels["slots"] for trial in plan.trials[:3]} == {1, 2, 4}


def test_the_order_is_fixed_by_the_seed_for_ever() -> None:
    plan = make_plan(make_study({"filesystem": ["ext4", "xfs"], "slots": [1, 2]}), Everywhere())
    assert [(t.levels["filesystem"], t.levels["slots"]) for t in plan.trials[:8]] == [
        ("xfs", 1),
        ("xfs", 2),
        ("ext4", 2),
        ("ext4", 1),
        ("xfs", 2),
        ("xfs", 1),
        ("ext4", 1),
        ("ext4", 2),
    ]
    assert plan.trials[0].seed == 979102696


def test_a_factor_that_does_not_apply_is_null_and_not_repeated() -> None:
    study = make_study(
        {"target": ["disk", "nas"], "scheduler": ["none", "bfq"]},
        plan=PlanOptions(repeats=Repeats(min=1)),
    )
    trials = make_plan(study, Everywhere()).trials
    assert sorted((t.target, t.levels["scheduler"]) for t in trials if t.target == "disk") == [
        ("disk", "bfq"),
        ("disk", "none"),
    ]
    assert [t.levels["scheduler"] for t in trials if t.target == "nas"] == [None]


def test_exclude_takes_away_what_matches_whole() -> None:
    study = make_study(
        {"filesystem": ["ext4", "xfs"], "slots": [1, 2, 4]},
        exclude=[{"filesystem": ["xfs"], "slots": [2, 4]}],
        plan=PlanOptions(repeats=Repeats(min=1)),
    )
    cells = {
        (t.levels["filesystem"], t.levels["slots"]) for t in make_plan(study, Everywhere()).trials
    }
    assert cells == {("ext4", 1), ("ext4", 2), ("ext4", 4), ("xfs", 1)}


def test_an_exclude_that_leaves_nothing_is_named_with_its_line() -> None:
    text = 'headrace = 1\n\n[[exclude]]\nslots = 2\n\n[[exclude]]\nfilesystem = ["ext4", "xfs"]\n'
    study = make_study(
        {"filesystem": ["ext4", "xfs"], "slots": [1, 2]},
        exclude=[{"slots": [2]}, {"filesystem": ["ext4", "xfs"]}],
        document=parse_document(text.encode(), Path("s.toml")),
    )
    with pytest.raises(StudyError) as caught:
        make_plan(study, Everywhere())
    (fault,) = caught.value.problems
    assert (fault.field, fault.line) == ("exclude[1]", 6)
    assert 'filesystem = ["ext4", "xfs"]' in fault.given
    assert "leaves nothing" in fault.problem


def test_excludes_that_leave_nothing_together_are_all_named() -> None:
    study = make_study({"slots": [1, 2]}, exclude=[{"slots": [1]}, {"slots": [2]}])
    with pytest.raises(StudyError) as caught:
        make_plan(study, Everywhere())
    assert [fault.field for fault in caught.value.problems] == ["exclude[0]", "exclude[1]"]


def test_a_fraction_that_cannot_tell_factors_apart_is_refused() -> None:
    study = make_study(
        {"filesystem": ["ext4", "xfs"], "scheduler": ["none", "bfq"]},
        plan=PlanOptions(design="fractional"),
    )
    with pytest.raises(StudyError) as caught:
        make_plan(study, Everywhere())
    assert caught.value.problems[0].field == "plan.fraction"


def test_a_fraction_keeps_every_slot_count_of_what_it_tries() -> None:
    factors = {
        "filesystem": ["ext3", "ext4", "xfs"],
        "scheduler": ["none", "bfq", "kyber"],
        "read_ahead": [4, 8, 16],
        "slots": [1, 2, 4],
    }
    study = make_study(
        factors, plan=PlanOptions(design="fractional", fraction=3, repeats=Repeats(min=1))
    )
    trials = make_plan(study, Everywhere()).trials
    assert len(trials) == 27
    tried: dict[tuple[Any, ...], set[int]] = {}
    for trial in trials:
        tried.setdefault(tuple(trial.levels[name] for name in list(factors)[:3]), set()).add(
            trial.levels["slots"]
        )
    assert len(tried) == 9
    assert all(slots == {1, 2, 4} for slots in tried.values())


def test_a_screen_tries_two_extreme_levels_in_few_runs() -> None:
    factors: dict[str, list[Any]] = {f"factor{number}": [1, 2, 3] for number in range(6)}
    factors["read_ahead"] = ["1 MiB", "4 KiB", "128 KiB"]
    study = make_study(factors, plan=PlanOptions(design="screen", repeats=Repeats(min=1)))
    trials = make_plan(study, Everywhere()).trials
    assert len(trials) == 8
    assert {trial.levels["read_ahead"] for trial in trials} == {"4 KiB", "1 MiB"}
    for factor in factors:
        levels = [trial.levels[factor] for trial in trials]
        assert {levels.count(level) for level in set(levels)} == {4}


def test_extremes_by_size_or_as_written() -> None:
    assert extremes(["64 KiB", "1 GB", 4096]) == [4096, "1 GB"]
    assert extremes(["ext4", "xfs", "btrfs"]) == ["ext4", "btrfs"]
    assert extremes([3]) == [3]


def test_levels_that_no_trial_has_are_told() -> None:
    study = make_study({"slots": [1, 2, 4]}, exclude=[{"slots": [2]}])
    assert absent_levels(study, make_plan(study, Everywhere())) == [("slots", 2)]


@pytest.mark.parametrize(
    "levels",
    [
        {"slots": 4, "filesystem": None, "read_ahead": "64 KiB"},
        {"raid": {"level": 0, "drives": 2}, "verify": True},
    ],
)
def test_the_plan_survives_its_file(tmp_path: Path, levels: dict[str, Any]) -> None:
    plan = Plan(
        trials=(
            Trial(0, "disk", "scan", levels, 0, 2**31 - 1, 0),
            Trial(1, "disk", "scan", levels, 1, 5, 1),
        ),
        study_hash="h",
        seed=7,
    )
    write_plan(plan, tmp_path / "plan.parquet")
    again = read_plan(tmp_path / "plan.parquet")
    assert again == plan
    assert [trial.id for trial in again.trials] == [trial.id for trial in plan.trials]


def test_a_damaged_plan_is_one_message(tmp_path: Path) -> None:
    path = tmp_path / "plan.parquet"
    write_plan(Plan(trials=(), study_hash="h", seed=1), path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(HeadraceError, match="cannot read the plan"):
        read_plan(path)


def test_repeats_go_on_until_the_interval_is_narrow_or_the_budget_ends() -> None:
    study = make_study(
        {}, plan=PlanOptions(repeats=Repeats(min=3, max=8, interval=0.05), budget=100.0)
    )
    wide, narrow = [100.0, 120.0, 80.0], [100.0, 101.0, 99.0]
    assert enough_because([], 2, study, 1e9) is None, "the first are always made"
    assert enough_because(wide, 3, study, 50.0) is None
    assert enough_because(narrow, 3, study, 50.0)
    assert enough_because(wide, 3, study, 101.0), "budget"
    assert enough_because(wide, 8, study, 50.0), "most"
    assert enough_because([], 3, study, 50.0), "never worked"
    assert enough_because([100.0], 3, study, 50.0) is None, "one value has no interval"


def test_a_fixed_number_of_repeats_has_none_beyond() -> None:
    study = make_study({}, plan=PlanOptions(repeats=Repeats(min=3)))
    assert enough_because([1.0, 100.0, 1000.0], 3, study, 0.0)


def test_headline_rate_is_events_or_bytes() -> None:
    assert headline_rate(100, 5000, 0, 2.0) == 50
    assert headline_rate(0, 5000, 1000, 2.0) == 3000
    assert headline_rate(0, 0, 0, 2.0) is None
    assert headline_rate(10, 0, 0, 0.0) is None


def test_t_interval_of_a_textbook_sample() -> None:
    # NIST/SEMATECH e-Handbook 1.3.5.2, data set ZARR13.DAT: 195 values, mean 9.261460, standard
    # deviation 0.02278881, 95 % interval 9.258242 to 9.264679; rebuilt here from 195 values of that
    # mean and deviation
    import numpy as np

    values = np.linspace(-1, 1, 195)
    values = 9.261460 + 0.02278881 * values / np.std(values, ddof=1)
    found = interval(list(values), 0.95)
    assert (found.low, found.high) == (
        pytest.approx(9.258242, abs=2e-6),
        pytest.approx(9.264679, abs=2e-6),
    )


def test_interval_of_a_median_needs_six() -> None:
    assert interval([1, 2, 3, 4, 5], 0.95, "median").low is None
    six = interval([6, 5, 4, 3, 2, 1], 0.95, "median")
    assert (six.value, six.low, six.high) == (3.5, 1, 6)
    # Conover, table A3: n = 20, 95 %: 6th and 15th order statistics
    twenty = interval(list(range(1, 21)), 0.95, "median")
    assert (twenty.low, twenty.high) == (6, 15)
