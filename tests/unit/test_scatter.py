"""Intervals of few repeats: they have the scatter of their storage in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from decided import answered, results_of
from headrace.analysis.compare import compare
from headrace.analysis.find import FindOptions, find
from headrace.analysis.findings import Point
from headrace.analysis.metrics import valid_trials
from headrace.analysis.points import PointOptions, make_points
from headrace.analysis.read import Records, read
from headrace.analysis.scatter import ALONE, POOLED
from headrace.records.inventory import InventoryItem
from headrace.study.model import Price
from synthetic_records import Truth, plan_of, write_results

OPTIONS = PointOptions(0.95, "mean", 0.9, {})
Draw = Callable[[int, int], float]
"""Slots and position of a trial -> its rate."""


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    return results_of(
        tmp_path_factory.mktemp("scatter") / "r", {"a": 0.0}, repeats=3, slots=(1, 2, 4, 8)
    )


def points_with(records: Records, rate: Draw) -> list[Point]:
    trials = valid_trials(records)
    values = [rate(int(slots), place) for place, slots in enumerate(trials["slots"])]
    frame = pd.DataFrame({"events_per_s": values}, index=trials.index)
    return make_points(trials, frame, {}, OPTIONS)


def contained(records: Records, draw: Draw, mean: float, studies: int = 150) -> float:
    """Share of the intervals of rates that contain this mean."""
    hits = [
        (estimate.low or 0.0) <= mean <= (estimate.high or 0.0)
        for _ in range(studies)
        for point in points_with(records, draw)
        for estimate in (point.metrics["events_per_s"],)
    ]
    return sum(hits) / len(hits)


def test_rates_of_runs_that_are_now_and_then_slower_are_within_their_intervals(
    records: Records,
) -> None:
    """As eight jobs on a disk: t intervals of three such repeats held half of the true rates."""
    draws = np.random.default_rng(1)

    def draw(slots: int, place: int) -> float:
        return float((95.0 if draws.random() < 0.17 else 100.0) + draws.normal(0, 0.2))

    assert contained(records, draw, 100 - 0.17 * 5) > 0.88


def test_rates_of_normal_repeats_are_within_their_intervals(records: Records) -> None:
    draws = np.random.default_rng(2)
    assert contained(records, lambda slots, place: float(draws.normal(100, 2)), 100.0) > 0.95


def test_a_cell_whose_repeats_happen_to_be_equal_has_the_scatter_of_its_storage(
    records: Records,
) -> None:
    draws = np.random.default_rng(3)
    points = points_with(
        records, lambda slots, place: 100.0 if slots == 4 else float(draws.normal(100, 5))
    )
    (equal,) = (point.metrics["events_per_s"] for point in points if point.slots == 4)
    assert equal.low is not None and equal.low < 97 and equal.method == POOLED


def test_a_storage_with_one_cell_has_the_scatter_of_its_own(tmp_path: Path) -> None:
    """No other storage, and no other workload, lends it scatter."""
    cells = [
        {"target": "a", "workload": "scan", "slots": 1},
        {"target": "a", "workload": "analysis", "slots": 1},
        {"target": "b", "workload": "scan", "slots": 1},
    ]
    alone = read(write_results(tmp_path / "r", plan_of(cells, 3), Truth(), series=False))
    points = points_with(alone, lambda slots, place: 100.0 + place % 2)
    assert {point.metrics["events_per_s"].method for point in points} == {ALONE}


def test_repeats_without_any_scatter_have_no_width(records: Records) -> None:
    for point in points_with(records, lambda slots, place: 100.0 * slots):
        estimate = point.metrics["events_per_s"]
        assert estimate.low == pytest.approx(estimate.value, rel=1e-9)
        assert estimate.high == pytest.approx(estimate.value, rel=1e-9)


def test_report_comparison_and_decision_have_the_same_intervals(
    records: Records, tmp_path: Path
) -> None:
    other = results_of(tmp_path / "b", {"a": 0.1}, repeats=3, slots=(1, 2, 4, 8), seed=2)
    points = {p.slots: p.metrics["events_per_s"] for c in find(records).curves for p in c.points}
    sides = {
        each.slots: each.a
        for each in compare(records, other, FindOptions()).differences
        if each.metric == "events_per_s"
    }
    decided = {
        each.candidate.slots: each.candidate.interval("events_per_s")
        for each in answered([records]).choice.judged
    }
    for slots, point in points.items():
        assert point.low is not None and point.high is not None
        assert sides[slots].low == pytest.approx(point.low)
        assert sides[slots].high == pytest.approx(point.high)
        drawn = decided[slots]
        assert drawn is not None
        # Quantiles of 4 000 draws.
        assert drawn[1] - drawn[0] == pytest.approx(point.high - point.low, rel=0.15)


def test_one_price_for_several_kinds_of_drives_is_named(tmp_path: Path) -> None:
    """A disk and an SSD of one target had the same price, and so had their events."""
    records = results_of(tmp_path / "r", {"a": 0.0}, slots=(1,))
    assert not any("one price" in each for each in _warnings(records))
    drives = [
        (InventoryItem(part="drive", name=("ssd", "disk")[place % 2], host="node", count=1),)
        for place in range(len(records))
    ]
    changed = replace(records, trials=records.trials.assign(inventory=drives))
    told = [each for each in _warnings(changed) if "one price" in each]
    assert len(told) == 1 and "1 × disk" in told[0] and "1 × ssd" in told[0]


def _warnings(records: Records) -> tuple[str, ...]:
    price = Price.model_validate({"price": 99})
    return find(records, FindOptions(price={"a": price})).warnings
