"""Power, energy, emissions and cost of a decision are as uncertain as the trials show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from decided import answered, results_of
from headrace.analysis.read import Records
from headrace.decision.candidates import Candidate
from headrace.decision.offers import Offers
from headrace.decision.wishes import own_quantity
from headrace.records.energy import Energy
from headrace.records.energy_basis import basis_of
from headrace.report.decision import amount, reasons

YEAR_H = 8766


def _offers(**more: Any) -> Offers:
    return Offers.model_validate(
        {
            "currency": "EUR",
            "years": 5,
            "busy": 1,
            "electricity": {"price": 0.2, "co2": 400},
            "node": {"worker": {"price": 1000, "date": 2026}},
            "target": {name: {"nodes": {"worker": 1}} for name in ("a", "b")},
            **more,
        }
    )


def _with_power(records: Records, watts: dict[str, list[float]]) -> Records:
    """Give the trials of each target these powers, one after another."""
    for target, values in watts.items():
        mine = records.trials.index[records.trials["target"] == target]
        for number, index in enumerate(mine):
            records.trials["metrics"][index]["mean_power_w"] = values[number % len(values)]
    return records


def _one(records: Records, offers: Offers, want: str) -> Candidate:
    return answered([records], offers=offers, want=want).choice.judged[0].candidate


def test_energy_emissions_and_cost_have_the_interval_of_the_power(tmp_path: Path) -> None:
    records = _with_power(
        results_of(tmp_path / "r", {"a": 0.0}, slots=(4,)), {"a": [190, 200, 205, 215]}
    )
    one = _one(records, _offers(pue=1.5), "energy")
    power = one.interval("power_w")
    assert power is not None and power[0] < 1.5 * 202.5 < power[1]
    for name, per_w, fixed in (
        ("energy_wh_per_year", YEAR_H, 0.0),
        ("co2_g_per_year", YEAR_H / 1000 * 400, 0.0),
        ("electricity_per_year", YEAR_H / 1000 * 0.2, 0.0),
        ("cost", 5 * YEAR_H / 1000 * 0.2, 1000.0),
    ):
        assert one.points[name] == pytest.approx(fixed + 1.5 * 202.5 * per_w)
        found = one.interval(name)
        assert found == pytest.approx(tuple(fixed + each * per_w for each in power)), name


def test_a_difference_of_power_within_its_scatter_is_not_seen(tmp_path: Path) -> None:
    both = results_of(tmp_path / "r", {"a": 0.0, "b": 0.0}, slots=(4,), repeats=3)
    records = _with_power(both, {"a": [190, 200, 211], "b": [191, 200, 211]})
    for want in ("power", "energy", "co2", "cost"):
        answer = answered([records], offers=_offers(), want=want)
        assert answer.choice.recommended is None, want
        assert any("95 % interval" in each for each in reasons(answer)), want


def test_a_single_trial_has_the_scatter_of_power_of_the_others(tmp_path: Path) -> None:
    """Two configurations with two trials each, and one with a single trial."""
    two = results_of(tmp_path / "two", {"a": 0.0}, slots=(1, 2), repeats=2)
    one = results_of(tmp_path / "one", {"b": 0.0}, slots=(4,), repeats=1)
    sets = [_with_power(two, {"a": [196, 196, 204, 204]}), _with_power(one, {"b": [200]})]
    judged = answered(sets, offers=_offers(), want="power").choice.judged
    single = next(each.candidate for each in judged if each.candidate.target == "b")
    found = single.interval("power_w")
    # The standard deviation of 196 and 204 is 2.8 %; 1.96 of them are 5.5 %.
    assert found is not None and found[0] == pytest.approx(189.2, rel=0.01)


def test_a_meter_of_the_rack_has_the_switches_in_it() -> None:
    rack = basis_of(Energy(total_j=100.0, contained={"nodes": "rack", "switch": "rack"}))
    parts = basis_of(Energy(total_j=100.0, nodes_j=100.0, drives_j=1.0))
    named = basis_of(Energy(total_j=110.0, nodes_j=100.0, switch_j=10.0))
    assert [each is not None and each.switches for each in (rack, parts, named)] == [
        True, False, True,
    ]  # fmt: skip


def test_emissions_are_in_kilograms_and_tonnes() -> None:
    co2 = own_quantity("co2")
    said = [amount(value, co2, "").replace("\u202f", " ") for value in (12.0, 4.5e3, 1.36e6)]
    assert said == ["12.0 g", "4.50 kg", "1.36 t"]
