"""Two result sets side by side: effect sizes, their coverage, and when comparing is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from headrace.analysis.compare import compare, hedges_g, mean_of
from headrace.analysis.find import find
from headrace.analysis.ratio import ratio_of_means
from headrace.analysis.read import Records, read
from headrace.errors import RefusedError
from synthetic_records import ENVIRONMENT, Truth, plan_of, write_results

CELLS: list[dict[str, Any]] = [
    {"target": "disk", "workload": "higgs", "filesystem": "ext4", "slots": slots}
    for slots in (1, 2)
]


def results(
    path: Path,
    truth: Truth,
    *,
    cells: list[dict[str, Any]] | None = None,
    repeats: int = 5,
    seed: int = 1,
) -> Records:
    return read(
        write_results(path, plan_of(cells or CELLS, repeats), truth, seed=seed, series=False)
    )


def test_a_ratio_put_in_comes_out(tmp_path: Path) -> None:
    a = results(tmp_path / "a", Truth(trial_sigma=0.02))
    b = results(tmp_path / "b", Truth(trial_sigma=0.02, cpu_s=5.0), seed=2)
    comparison = compare(a, b)
    assert comparison.environment == ()
    rates = [found for found in comparison.differences if found.metric == "events_per_s"]
    assert [found.slots for found in rates] == [1, 2]
    for found in rates:
        assert found.ratio.low is not None
        assert found.ratio.high is not None
        assert found.ratio.low < found.ratio.value < found.ratio.high
        assert found.ratio.value == pytest.approx(0.8, abs=0.03)
        assert (found.different, found.better) == (True, "a")
        assert found.effect_size.value < -3
        assert found.ratio.value == pytest.approx(found.b.value / found.a.value, rel=0.01)


def test_a_result_set_does_not_differ_from_itself(tmp_path: Path) -> None:
    a = results(tmp_path / "a", Truth(trial_sigma=0.02))
    comparison = compare(a, a)
    assert not any(found.different for found in comparison.differences)
    assert {found.ratio.value for found in comparison.differences} == {1.0}
    assert (comparison.only_a, comparison.only_b, comparison.warnings) == ((), (), ())


def test_cells_come_in_the_order_of_their_levels(tmp_path: Path) -> None:
    """Trials are recorded in random order."""
    cells = [
        {"target": "disk", "workload": "higgs", "slots": slots, "depth": depth}
        for slots in (16, 2, 1)
        for depth in (32, 4, 8)
    ]
    write_results(tmp_path / "a", plan_of(cells, 2), Truth())
    records = read(tmp_path / "a")
    rates = [
        each for each in compare(records, records).differences if each.metric == "events_per_s"
    ]
    found = [(each.levels["depth"], each.slots) for each in rates]
    assert found == [(depth, slots) for depth in (4, 8, 32) for slots in (1, 2, 16)]


def test_no_common_cell_is_refused_by_name(tmp_path: Path) -> None:
    a = results(tmp_path / "a", Truth())
    b = results(
        tmp_path / "b",
        Truth(),
        cells=[{"target": "ssd", "workload": "higgs", "filesystem": "ext4", "slots": 1}],
    )
    with pytest.raises(
        RefusedError,
        match="no cell in common: disk, higgs, slots 1, filesystem ext4 is only in the first",
    ):
        compare(a, b)


def test_other_provenance_is_refused_unless_forced(tmp_path: Path) -> None:
    a = results(tmp_path / "a", Truth())
    b = results(tmp_path / "b", Truth(engine="simulate", provenance="simulated"))
    with pytest.raises(RefusedError, match="not comparable"):
        compare(a, b)
    forced = compare(a, b, force=True)
    assert forced.provenance == "measured + simulated"
    assert any("forced" in warning for warning in forced.warnings)


def test_nothing_valid_is_refused(tmp_path: Path) -> None:
    a = results(tmp_path / "a", Truth())
    plan = plan_of(CELLS[:1], 1)
    b = read(write_results(tmp_path / "b", plan, Truth(), broken={0: "failed"}))
    with pytest.raises(RefusedError, match="no valid trial"):
        compare(a, b)


def test_cells_of_one_alone_are_named(tmp_path: Path) -> None:
    a = results(tmp_path / "a", Truth(), cells=[*CELLS, {**CELLS[0], "slots": 4}])
    b = results(tmp_path / "b", Truth(), cells=CELLS[:1])
    comparison = compare(a, b)
    assert (
        comparison.only_a
        == ("disk, higgs, slots 4, filesystem ext4", "disk, higgs, slots 2, filesystem ext4")[::-1]
    )
    assert comparison.only_b == ()


def test_differing_environments_are_warned_of_by_name(tmp_path: Path) -> None:
    a = results(tmp_path / "a", Truth(environment={**ENVIRONMENT, "hostname": "one"}))
    other = {
        **ENVIRONMENT,
        "hostname": "two",
        "kernel": "6.12.1",
        "versions": {"headrace": "0.1.0", "uproot": "5.7.0"},
    }
    b = results(tmp_path / "b", Truth(environment=other))
    comparison = compare(a, b)
    assert [(found.name, found.a, found.b) for found in comparison.environment] == [
        ("kernel", ("6.1.0-18-amd64",), ("6.12.1",)),
        ("versions.uproot", ("5.6.0",), ("5.7.0",)),
    ]
    (warning,) = comparison.warnings
    assert warning.startswith("the environments differ in kernel, versions.uproot;")


def test_another_filesystem_behind_the_same_name_is_warned_of(tmp_path: Path) -> None:
    plain = [{"target": "disk", "workload": "higgs", "slots": 1}]
    a, b = (
        results(tmp_path / "a", Truth(), cells=plain),
        results(tmp_path / "b", Truth(), cells=plain),
    )
    for place in b.trials["location"]:
        place["filesystem"] = "xfs"
    assert [found.name for found in compare(a, b).environment] == ["location.filesystem"]


def test_settings_in_which_two_studies_differ_are_named(tmp_path: Path) -> None:
    """Only "the studies are not the same" was said: of simulations nothing else tells them."""
    study = 'headrace = 1\ntitle = "%s"\n[target.disk]\nfilesystem = "%s"\n[run]\ncache = "%s"\n'
    made = [
        read(
            write_results(
                tmp_path / name, plan_of(CELLS, 2), Truth(), study_text=study % (name, kind, cache)
            )
        )
        for name, kind, cache in (("a", "xfs", "cold"), ("b", "ext4", "warm"))
    ]
    header = replace(made[1].header, study_hash="another")
    told = compare(made[0], replace(made[1], header=header)).warnings
    assert any(
        "run.cache (cold and warm), target.disk.filesystem (xfs and ext4)" in each for each in told
    ), told
    assert not any("title" in each for each in told)


def test_hedges_g_of_a_published_example() -> None:
    # Borenstein et al., Introduction to Meta-Analysis (2009), ch. 4: means 103 and 100, deviations
    # 5.5 and 4.5, 50 each: d = 0.5970, J = 0.9923 (their approximation 1 - 3/(4 df - 1)), g =
    # 0.5924
    def sample(mean: float, deviation: float) -> np.ndarray:
        values = np.linspace(-1, 1, 50)
        return mean + deviation * values / values.std(ddof=1)

    found = hedges_g(sample(100, 4.5), sample(103, 5.5), (), 0.95)
    assert found.value == pytest.approx(0.5924, abs=2e-4)


def test_interval_of_a_ratio_covers_the_truth() -> None:
    random = np.random.default_rng(4)
    covered, studies = 0, 400
    for _ in range(studies):
        a, b = np.exp(random.normal(0, 0.05, 4)), np.exp(random.normal(-0.2, 0.1, 6))
        found, _ = ratio_of_means(a, b, (), 0.95)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= math.exp(-0.2) <= found.high
    low, high = stats.binom.ppf([0.0005, 0.9995], studies, 0.95)
    assert low <= covered <= high


@pytest.mark.parametrize("spreads", [(0.1, 0.1), (0.001, 2.0)])
def test_the_ratio_of_means_and_a_mean_are_those_of_scipy(spreads: tuple[float, float]) -> None:
    random = np.random.default_rng(4)
    for trials in range(2, 12):
        a = np.exp(random.normal(0, spreads[0], trials))
        b = np.exp(random.normal(0.3, spreads[1], 5))
        found, p_value = ratio_of_means(a, b, (), 0.95)
        test: Any = stats.ttest_ind(np.log(b), np.log(a), equal_var=False)
        bounds = test.confidence_interval(0.95)
        expected = (math.exp(bounds.low), math.exp(bounds.high), test.pvalue)
        assert (found.low, found.high, p_value) == pytest.approx(expected, rel=1e-9)
        half = stats.t.ppf(0.95, 4) * stats.sem(b)
        assert mean_of(b, (), 0.9).high == pytest.approx(b.mean() + half, rel=1e-9)


def test_a_comparison_has_the_intervals_of_the_report(tmp_path: Path) -> None:
    """Also of an efficiency near 1, which nothing exceeds."""
    cells = [{**cell, "nodes": 2} for cell in CELLS]
    truth = Truth(node_sigma=0.2, device_bytes_per_s=80e6)
    mine = results(tmp_path / "a", truth, cells=cells, repeats=3)
    points = {point.slots: point for curve in find(mine).curves for point in curve.points}
    found = compare(mine, mine).differences
    assert 1 in {each.a.high for each in found if each.metric == "efficiency"}
    for each in found:
        shown = points[each.slots].metrics[each.metric]
        assert (each.a.low, each.a.high) == pytest.approx((shown.low, shown.high))


def test_interval_of_hedges_g_covers_the_truth() -> None:
    random = np.random.default_rng(3)
    covered, studies = 0, 400
    for _ in range(studies):
        found = hedges_g(random.normal(0, 1, 6), random.normal(1.5, 1, 6), (), 0.95)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 1.5 <= found.high
    low, high = stats.binom.ppf([0.0005, 0.9995], studies, 0.95)
    # the correction for few trials narrows the interval of g against that of d by 8 %
    assert low - 0.04 * studies <= covered <= high


def test_single_trials_have_a_ratio_without_interval(tmp_path: Path) -> None:
    a, b = (
        results(tmp_path / "a", Truth(), repeats=1),
        results(tmp_path / "b", Truth(cpu_s=5.0), repeats=1),
    )
    found = compare(a, b).differences[0]
    assert (found.ratio.value, found.ratio.low, found.different) == (
        pytest.approx(0.8),
        None,
        False,
    )
    assert math.isnan(found.effect_size.value)
