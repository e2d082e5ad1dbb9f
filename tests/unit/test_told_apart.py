"""What repeats cannot tell is said so; what is the same trial or the same change counts once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from decided import answered, priced, results_of
from headrace.analysis.compare import compare
from headrace.analysis.find import find
from headrace.analysis.findings import Estimate
from headrace.analysis.ratio import ratio_of_pairs
from headrace.analysis.read import Records, read
from headrace.metrics.shown import ShownMetric
from headrace.records.inventory import InventoryItem
from headrace.report.comparison import cannot_tell, cannot_tell_sentences, verdict
from headrace.report.numbers import interval_text, value_text
from headrace.report.tables import rank_text
from headrace.report.wording import NOT_TOLD_APART
from synthetic_records import Truth, plan_of, write_results

RATIO = ShownMetric("ratio", "B / A", "", 1.0)
CELL: list[dict[str, Any]] = [{"target": "disk", "workload": "higgs", "slots": 1}]


def of_cells(root: Path, truth: Truth, repeats: int, seed: int = 1) -> Records:
    return read(write_results(root, plan_of(CELL, repeats), truth, seed=seed, series=False))


@pytest.mark.parametrize(
    ("ends", "texts"),
    [
        ((0.918, 0.031, 27.3), ("0.92", "0.031 – 27")),
        ((12.3, 0.4, 380.0), ("12", "0.40 – 380")),
        ((0.918, 0.86, 0.98), ("0.918", "0.860 – 0.980")),
        ((0.03, -2.1, 2.2), ("0.0", "−2.1 – 2.2")),
    ],
)
def test_a_wide_interval_has_digits_that_fit_its_ends(
    ends: tuple[float, float, float], texts: tuple[str, str]
) -> None:
    estimate = Estimate(*ends, 4, "", ())
    assert (value_text(estimate, RATIO), interval_text(estimate, RATIO)) == texts


def test_two_repeats_that_cannot_tell_are_not_called_equal(tmp_path: Path) -> None:
    a = of_cells(tmp_path / "a", Truth(trial_sigma=0.3), 2)
    b = of_cells(tmp_path / "b", Truth(trial_sigma=0.3), 2, seed=2)
    made = compare(a, b)
    rates = [each for each in made.differences if each.metric == "events_per_s"]
    assert all(cannot_tell(each) for each in rates)
    assert {verdict(each) for each in rates} == {"2 repeats cannot tell"}
    assert any("2 repeats of a side cannot tell" in each for each in cannot_tell_sentences(made))
    # Enough repeats of little scatter do show that nothing differs.
    a = of_cells(tmp_path / "c", Truth(trial_sigma=0.02), 8)
    b = of_cells(tmp_path / "d", Truth(trial_sigma=0.02), 8, seed=2)
    made = compare(a, b)
    assert "no difference seen" in {verdict(each) for each in made.differences}
    assert not cannot_tell_sentences(made)


def test_one_trial_of_each_cannot_tell(tmp_path: Path) -> None:
    a, b = (of_cells(tmp_path / name, Truth(), 1) for name in ("a", "b"))
    assert {verdict(each) for each in compare(a, b).differences} == {"one trial cannot tell"}


def test_a_rank_that_would_be_any_says_so(tmp_path: Path) -> None:
    same = results_of(tmp_path / "same", dict.fromkeys("abc", 0.0), sigma=0.1, slots=(4,))
    curves = find(same).curves
    assert {rank_text(each, curves) for each in curves} == {NOT_TOLD_APART}
    far = results_of(tmp_path / "far", {"a": 0.0, "b": 0.001, "c": 2.0}, sigma=0.02, slots=(4,))
    curves = find(far).curves
    assert [rank_text(each, curves) for each in curves] == ["1", "2 – 3", "2 – 3"]


def test_simulated_trials_of_one_seed_are_compared_in_pairs(tmp_path: Path) -> None:
    """Random numbers that both have in common are no difference, and no doubt."""
    a = of_cells(tmp_path / "a", Truth(trial_sigma=0.2, provenance="simulated"), 5)
    faster = [
        {**row["metrics"], "events_per_s": row["metrics"]["events_per_s"] * factor}
        for row, factor in zip(
            a.trials.to_dict("records"), (1.02, 1.03, 1.031, 1.04, 1.02), strict=True
        )
    ]
    b = replace(a, trials=a.trials.assign(metrics=faster))

    def ratio(one: Records, other: Records) -> tuple[Estimate, bool]:
        found = compare(one, other).differences
        rate = next(each for each in found if each.metric == "events_per_s")
        return rate.ratio, rate.different

    assert ratio(a, b)[1] and "pairs" in ratio(a, b)[0].method
    seeds = [int(seed) + 1000 for seed in b.trials["seed"]]
    others = replace(b, trials=b.trials.assign(seed=seeds))
    assert not ratio(a, others)[1] and "Welch" in ratio(a, others)[0].method
    # Seeds of measured trials do not make their noise the same.
    real = [each.trials.assign(provenance="measured") for each in (a, b)]
    found = ratio(*(replace(a, trials=each) for each in real))
    assert not found[1] and "Welch" in found[0].method


def test_the_ratio_of_pairs_is_that_of_scipy() -> None:
    a, b = np.array([1.0, 2.0, 3.0, 5.0]), np.array([1.1, 2.1, 3.5, 5.2])
    estimate, p_value = ratio_of_pairs(a, b, (), 0.95)
    expected = stats.ttest_rel(np.log(b), np.log(a))
    ends = expected.confidence_interval(0.95)
    assert p_value == pytest.approx(expected.pvalue)
    assert (estimate.low, estimate.high) == pytest.approx((np.exp(ends.low), np.exp(ends.high)))


def test_a_change_of_the_mix_of_two_workloads_is_said_once(tmp_path: Path) -> None:
    cells = [
        {"target": target, "workload": workload, "slots": 1}
        for target in ("a", "b")
        for workload in ("scan", "analysis")
    ]
    records = read(
        write_results(tmp_path / "r", plan_of(cells, 3), Truth(trial_sigma=0.0), series=False)
    )
    rates = {
        ("a", "scan"): 90.0, ("a", "analysis"): 130.0,
        ("b", "scan"): 100.0, ("b", "analysis"): 100.0,
    }  # fmt: skip
    for row in records.trials.to_dict("records"):
        row["metrics"]["events_per_s"] = rates[row["target"], row["workload"]]
    made = answered([records])
    assert made.choice.leading is not None and made.choice.leading.candidate.target == "a"
    mixes = [each.what for each in made.changes if "of the events of" in each.what]
    assert mixes == ["75 % of the events of scan"]


def test_folders_with_other_drives_under_one_name_are_not_averaged(tmp_path: Path) -> None:
    sets = [
        results_of(tmp_path / name, {"a": effect}, slots=(4,))
        for name, effect in (("disk", 0.0), ("ssd", 2.0))
    ]
    apart = [
        replace(each, trials=each.trials.assign(inventory=[_parts(name)] * len(each.trials)))
        for each, name in zip(sets, ("hdd", "flash"), strict=True)
    ]
    judged = answered(apart, offers=priced(1, 1)).choice.judged
    assert [each.candidate.key for each in judged] == [
        "a, results ssd, 4 slots", "a, results disk, 4 slots",
    ]  # fmt: skip
    rates = [each.candidate.points["events_per_s"] for each in judged]
    assert rates[0] / rates[1] > 2
    # With the same parts, they are further trials of one configuration.
    (one,) = answered(sets).choice.judged
    assert len(one.candidate.evidence[0].trials) == 8


def _parts(drive: str) -> tuple[InventoryItem, ...]:
    return (InventoryItem(part="drive", name=drive, host="node", count=1),)


def test_the_same_simulation_in_two_folders_counts_once(tmp_path: Path) -> None:
    sets = [
        results_of(tmp_path / name, {"a": 0.0}, slots=(4,), provenance="simulated")
        for name in ("first", "again")
    ]
    made = answered(sets)
    (one,) = made.choice.judged
    assert len(one.candidate.evidence[0].trials) == 4
    assert "4 trials are in several folders: they count once" in made.choice.basis.notes


def test_repeats_that_are_close_by_chance_have_the_scatter_of_their_storage(
    tmp_path: Path,
) -> None:
    """Of three repeats of a run that is now and then slower, half the triples miss that."""
    rng, contained, number = np.random.default_rng(1), 0, 60
    records = results_of(tmp_path / "r", {"a": 0.0}, slots=(1, 2, 4, 8), repeats=3)
    truth = 100 * (1 - 0.2 * 0.06)
    for _ in range(number):
        for row in records.trials.to_dict("records"):
            slow = 0.94 if rng.random() < 0.2 else 1.0
            row["metrics"]["events_per_s"] = 100 * slow * float(np.exp(rng.normal(0, 0.001)))
        for each in answered([records]).choice.judged:
            low, high = each.candidate.interval("events_per_s") or (0.0, 0.0)
            contained += low <= truth <= high
    assert contained / number / 4 > 0.85
