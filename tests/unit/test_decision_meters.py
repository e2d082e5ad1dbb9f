"""A decision carries the stated error of its meters; what one meter measures shares it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decided import answered, results_of
from headrace.analysis.read import Records
from headrace.decision.candidates import Candidate
from headrace.decision.offers import Offers
from headrace.engine.measure.metering import SiteOfTrial, energy_of_site
from headrace.records.energy import ChannelEnergy, Energy
from headrace.records.meter_errors import MeterErrors, metered_errors, total_errors
from headrace.report.decision import basis_sentences

ACCURACY = 0.05
CALIBRATION = ACCURACY / math.sqrt(3)
OFFERS = Offers.model_validate(
    {
        "currency": "EUR",
        "years": 5,
        "busy": 1,
        "electricity": {"price": 0.2, "co2": 400},
        "node": {"worker": {"price": 1000, "date": 2026}},
        "target": {name: {"nodes": {"worker": 1}} for name in ("a", "b")},
    }
)


def channel(meter: str, boundary: str, joules: float, **fields: Any) -> ChannelEnergy:
    return ChannelEnergy(
        meter, "shelly", fields.pop("name", "power"), boundary, energy_j=joules,
        uncertainty_j=fields.pop("uncertainty_j", CALIBRATION * joules), accuracy=ACCURACY,
        usable=True, **fields,
    )  # fmt: skip


def energy(site: SiteOfTrial, *channels: ChannelEnergy, drives_j: float | None = None) -> Energy:
    return energy_of_site(Energy(drives_j=drives_j), list(channels), {}, site)


def metered(root: Path, watts: dict[str, list[float]], meters: dict[str, str]) -> Records:
    """Trials of each target with these powers, read by the meter of that name."""
    records = results_of(root, dict.fromkeys(watts, 0.0), slots=(4,), repeats=3)
    for target, values in watts.items():
        mine = [at for at, name in enumerate(records.trials["target"]) if name == target]
        errors = {"total": MeterErrors({meters[target]: CALIBRATION})}
        for number, index in enumerate(mine):
            records.trials["metrics"][index]["mean_power_w"] = values[number % len(values)]
            records.trials.at[index, "meter_errors"] = errors
    return records


def near(values: dict[str, float]) -> Any:
    return pytest.approx(values)


def by_target(records: Records, want: str) -> tuple[dict[str, Candidate], Any]:
    made = answered([records], offers=OFFERS, want=want)
    return {each.candidate.target: each.candidate for each in made.choice.judged}, made


def test_power_energy_emissions_and_cost_have_the_error_of_the_meter(tmp_path: Path) -> None:
    records = metered(tmp_path / "r", {"a": [200.0, 200.1, 199.9]}, {"a": "plug"})
    found, made = by_target(records, "energy")
    for name, fixed in (
        ("power_w", 0.0), ("energy_wh_per_year", 0.0), ("co2_g_per_year", 0.0), ("cost", 1000.0),
    ):  # fmt: skip
        value, ends = found["a"].points[name] - fixed, found["a"].interval(name)
        assert ends is not None
        half = (ends[1] - ends[0]) / 2 / value
        assert half == pytest.approx(1.96 * CALIBRATION, rel=0.05), name
    said = " ".join(basis_sentences(made))
    assert "standard error of the meters' calibration, 2.9 % by plug" in said


def test_what_one_meter_measures_is_told_apart_within_its_error(tmp_path: Path) -> None:
    watts = {"a": [200.0, 200.1, 199.9], "b": [202.0, 202.1, 201.9]}
    one, made = by_target(metered(tmp_path / "one", watts, {"a": "plug", "b": "plug"}), "power")
    best = made.choice.recommended
    assert best is not None and best.candidate.target == "a" and best.best > 0.99
    ratio = one["b"].draws["power_w"] / one["a"].draws["power_w"]
    assert np.std(ratio) < 0.005
    # Two meters with an error of 3 % each do not show which power is lower.
    _, made = by_target(metered(tmp_path / "two", watts, {"a": "plug", "b": "other"}), "power")
    assert made.choice.recommended is None


def test_repeats_reduce_errors_of_readings_but_not_of_calibration(tmp_path: Path) -> None:
    records = metered(tmp_path / "r", {"a": [200.0]}, {"a": "plug"})
    for index in records.trials.index:
        errors = {"total": MeterErrors({}, reading=0.03)}
        records.trials.at[index, "meter_errors"] = errors
    found, _ = by_target(records, "power")
    assert np.std(found["a"].draws["power_w"]) / 200 == pytest.approx(0.03 / math.sqrt(3), rel=0.05)


def test_errors_are_those_of_the_meters_whose_energy_is_in_the_total() -> None:
    here = SiteOfTrial(duration_s=100.0)
    plug = channel("plug", "node", 9000.0)
    bmc = channel("bmc", "node", 9000.0, uncertainty_j=900.0)
    sockets = channel("rapl", "socket", 4000.0)
    found = total_errors(energy(here, bmc, plug, sockets), "n1")
    assert found is not None and found.calibration == near({"shelly plug of n1": CALIBRATION})
    # An emulated drive of 1 kJ is modelled: a tenth of the total has no error of the meter.
    mixed = energy(here, plug, drives_j=1000.0)
    assert mixed.uncertainty_j is None
    found = total_errors(mixed, "n1")
    assert found is not None
    assert found.calibration == near({"shelly plug of n1": 0.9 * CALIBRATION})
    # Processors are not the whole: their error is that of what is metered alone.
    alone = energy(here, sockets)
    assert total_errors(alone, "n1") is None
    found = metered_errors(alone, "n1")
    assert found is not None and found.calibration == near({"shelly rapl of n1": CALIBRATION})


def test_the_pue_scales_the_error_with_the_energy() -> None:
    made = energy(SiteOfTrial(duration_s=100.0, pue=1.5), channel("plug", "node", 9000.0))
    made = replace(made, pue=1.5)
    assert made.total_j == 13500.0
    found = total_errors(made)
    assert found is not None and [*found.calibration.values()] == [pytest.approx(CALIBRATION)]


def test_one_meter_of_nodes_and_servers_is_one_error() -> None:
    site = SiteOfTrial(duration_s=100.0, servers=("nas",), nodes=("node-1",))
    made = energy(
        site,
        channel("pdu", "node", 5000.0, name="outlet-1", of=("node-1",)),
        channel("pdu", "server", 5000.0, name="outlet-2", of=("nas",)),
    )
    assert made.total_j == 10000.0
    # In squares, as of two meters, it would be 204 J.
    assert made.uncertainty_j == pytest.approx(CALIBRATION * 10000)
    found = total_errors(made, "n1")
    assert found is not None and [*found.calibration.values()] == [pytest.approx(CALIBRATION)]
