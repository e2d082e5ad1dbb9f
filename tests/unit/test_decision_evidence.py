"""The trials that a decision rests on: valid, mixed, simulated and single ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from decided import answered, results_of
from headrace import decide
from headrace.analysis.read import read
from headrace.decision.answer import answer
from headrace.decision.offers import Offers
from headrace.decision.sensitivity import DecisionInputs
from headrace.decision.wishes import parse_wishes
from headrace.errors import RefusedError, UsageError
from headrace.report.decision import basis_sentences, headline, unknown_sentences
from synthetic_records import Truth, plan_of, write_results


def test_a_decision_refuses_to_rest_on_no_valid_trial(tmp_path: Path) -> None:
    cells = [{"target": "a", "workload": "scan", "slots": 1}]
    root = write_results(
        tmp_path / "r", plan_of(cells, 2), Truth(), broken={0: "invalid", 1: "failed"}
    )
    with pytest.raises(RefusedError, match="no valid trial"):
        decide([root])


def test_invalid_trials_are_left_out_and_counted(tmp_path: Path) -> None:
    cells = [{"target": name, "workload": "scan", "slots": 1} for name in ("a", "b")]
    truth = Truth(effects={"target": {"a": 0.0, "b": 1.0}}, trial_sigma=0.01)
    root = write_results(tmp_path / "r", plan_of(cells, 3), truth, broken={1: "invalid"})
    made = answered([read(root)])
    assert made.choice.basis.left_out == 1 and made.choice.basis.trials == 5


def test_the_workload_of_a_mix_that_lacks_what_is_wanted_is_named(tmp_path: Path) -> None:
    scan = results_of(tmp_path / "r", {"a": 0.0, "b": 0.5})
    cells = [{"target": name, "workload": "seq", "slots": 4} for name in ("a", "b")]
    moves = Truth(loads_storage=True, job_events=0)
    seq = read(write_results(tmp_path / "s", plan_of(cells, 4), moves, series=False))
    assert "rate is unknown for every configuration: trials of seq have no such value" in headline(
        answered([scan, seq])
    )
    assert answered([scan, seq], shares={"scan": 1.0}).choice.recommended is not None


def test_a_mix_weighs_the_workloads_by_their_events(tmp_path: Path) -> None:
    cells = [{"target": "a", "workload": workload, "slots": 1} for workload in ("scan", "analysis")]
    truth = Truth(effects={"workload": {"scan": 1.0, "analysis": 0.0}}, trial_sigma=0.0)
    records = read(write_results(tmp_path / "r", plan_of(cells, 2), truth, series=False))
    rates = {
        row["workload"]: row["metrics"]["events_per_s"] for row in records.trials.to_dict("records")
    }
    made = answered([records], shares={"scan": 3, "analysis": 1})
    value = made.choice.judged[0].candidate.points["events_per_s"]
    assert value == pytest.approx(1 / (0.75 / rates["scan"] + 0.25 / rates["analysis"]))
    with pytest.raises(UsageError, match="no result set has a workload 'skim'"):
        answered([records], shares={"skim": 1})


def test_bytes_of_a_mix_are_those_of_its_events_over_its_time(tmp_path: Path) -> None:
    """So are those that are written, by which drives wear out."""
    cells = [{"target": "a", "workload": workload, "slots": 1} for workload in ("scan", "analysis")]
    truth = Truth(effects={"workload": {"scan": 1.0, "analysis": 0.0}}, trial_sigma=0.0)
    records = read(write_results(tmp_path / "r", plan_of(cells, 2), truth, series=False))
    rows = records.trials.to_dict("records")
    for row in rows:
        scan = row["workload"] == "scan"
        row["metrics"] = {**row["metrics"], "asked_bytes_per_s": 1e6 if scan else 50e6}
        row["device_bytes_written"] = 0.0 if scan else 1e6 * row["last_done_s"]
    events = {row["workload"]: row["metrics"]["events_per_s"] for row in rows}
    changed = records.trials.assign(
        metrics=[row["metrics"] for row in rows],
        device_bytes_written=[row["device_bytes_written"] for row in rows],
    )
    holds = {"drives": {"a": 1}, "nodes": {"worker": 1}, "usable": "1 TB"}
    drive = {"a": {"price": 9, "date": 2026, "endurance": "100 TB"}}
    offers = Offers.model_validate(
        {"node": {"worker": {"price": 1, "date": 2026}}, "drive": drive, "target": {"a": holds}}
    )
    shares = {"scan": 3.0, "analysis": 1.0}
    made = answered([replace(records, trials=changed)], offers=offers, shares=shares)
    scan_s, analysis_s = 0.75 / events["scan"], 0.25 / events["analysis"]
    points = made.choice.judged[0].candidate.points
    total_s = scan_s + analysis_s
    assert points["asked_bytes_per_s"] == pytest.approx(
        (1e6 * scan_s + 50e6 * analysis_s) / total_s
    )
    assert points["wear_years"] == pytest.approx(
        100e12 / (1e6 * analysis_s / total_s * 8766 * 3600)
    )


def test_a_measured_cell_counts_more_than_its_simulation_and_gives_the_model_s_error(
    tmp_path: Path,
) -> None:
    measured = results_of(tmp_path / "m", {"a": 0.0, "b": 0.5})
    simulated = results_of(
        tmp_path / "s", {"a": 0.1, "b": 0.6}, engine="simulate", provenance="simulated", sigma=0.0
    )
    basis = answered([measured, simulated]).choice.basis
    assert {each.provenance for each in basis.candidates} == {"measured"}
    alone = replace(simulated, trials=simulated.trials.assign(provenance="simulated"))
    simulated_only = answered([alone]).choice.basis
    assert simulated_only.model_error_source == "assumed"
    both = answered([measured, simulated]).choice.basis
    assert both.notes


def test_single_trials_alone_name_no_winner_by_a_small_difference(tmp_path: Path) -> None:
    made = answered([results_of(tmp_path / "r", {"a": 0.0, "b": 0.05}, sigma=0.0, repeats=1)])
    assert made.choice.recommended is None
    assert any("no configuration was measured twice" in note for note in made.choice.basis.notes)


def test_a_single_trial_has_the_spread_of_the_others(tmp_path: Path) -> None:
    several = results_of(tmp_path / "m", {"a": 0.0}, sigma=0.2, repeats=6)
    one = results_of(tmp_path / "o", {"b": 0.0}, sigma=0.2, repeats=1)
    judged = answered([several, one]).choice.judged
    widths = {
        each.candidate.target: float(np.std(np.log(each.candidate.draws["events_per_s"])))
        for each in judged
        if each.candidate.slots == 4
    }
    assert widths["b"] > 0.05 and widths["b"] > widths["a"]


def test_bytes_still_in_memory_when_jobs_end_wear_drives_too(tmp_path: Path) -> None:
    """Jobs shorter than the kernel's write-back left drives an unlimited life."""
    cells = [{"target": "a", "workload": "scan", "slots": 1}]
    truth = Truth(trial_sigma=0.0)
    records = read(write_results(tmp_path / "r", plan_of(cells, 2), truth, series=False))
    changed = records.trials.assign(
        bytes_written=[1e6 * each for each in records.trials["last_done_s"]],
        device_bytes_written=0.0,
    )
    holds = {"drives": {"a": 1}, "nodes": {"worker": 1}, "usable": "1 TB"}
    drive = {"a": {"price": 9, "date": 2026, "endurance": "100 TB"}}
    offers = Offers.model_validate(
        {"node": {"worker": {"price": 1, "date": 2026}}, "drive": drive, "target": {"a": holds}}
    )
    made = answered([replace(records, trials=changed)], "life <= 1000 y", offers)
    (judged,) = made.choice.judged
    years = judged.candidate.points["wear_years"]
    assert years == pytest.approx(100e12 / (1e6 * 8766 * 3600)) and judged.within
    assert any("still in memory" in each for each in judged.candidate.costs.assumptions)


def test_the_life_of_a_drive_is_as_uncertain_as_the_rate_at_which_jobs_write(
    tmp_path: Path,
) -> None:
    """A drive lived longest with a probability of over 99 %, by 0.5 % of a simulated rate."""
    cells = [{"target": name, "workload": "scan", "slots": 1} for name in ("a", "b")]
    truth = Truth(effects={"target": {"a": 0.0, "b": 0.005}}, trial_sigma=0.0)
    root = write_results(tmp_path / "r", plan_of(cells, 2), truth, series=False)
    records = read(root)
    rates = [values["events_per_s"] for values in records.trials["metrics"]]
    changed = records.trials.assign(
        device_bytes_written=[
            rate * each for rate, each in zip(rates, records.trials["last_done_s"], strict=True)
        ],
        provenance="simulated",
    )
    holds = {"nodes": {"worker": 1}, "usable": "1 TB"}
    drive = {"price": 9, "date": 2026, "endurance": "100 TB"}
    offers = Offers.model_validate(
        {
            "node": {"worker": {"price": 1, "date": 2026}},
            "drive": {"a": drive, "b": drive},
            "target": {name: {**holds, "drives": {name: 1}} for name in ("a", "b")},
        }
    )
    made = answered([replace(records, trials=changed)], want="life", offers=offers)
    assert made.choice.recommended is None
    for each in made.choice.judged:
        years, rate = each.candidate.interval("wear_years"), each.candidate.interval("events_per_s")
        assert years is not None and rate is not None
        assert years[1] / years[0] == pytest.approx(rate[1] / rate[0], rel=0.01)


def test_results_that_are_named_twice_count_once(tmp_path: Path) -> None:
    results_of(tmp_path / "r", {"a": 0.0, "b": 0.5})
    once, _ = decide([tmp_path / "r"])
    twice, _ = decide([tmp_path / "r", f"{tmp_path}/r/../r"])
    assert once.choice.basis.trials == twice.choice.basis.trials > 0


def test_a_configuration_without_a_valid_trial_is_named(tmp_path: Path) -> None:
    cells = [{"target": name, "workload": "scan", "slots": 4} for name in ("a", "b")]
    plan = plan_of(cells, 2)
    broken = {trial.index: "failed" for trial in plan.trials if trial.target == "b"}
    root = write_results(tmp_path / "r", plan, Truth(cores=64), broken=broken, series=False)
    found = answered([read(root)])
    assert found.choice.basis.incomplete == {"b, 4 slots": "none of its 2 trials is valid"}
    assert "Left out: b, 4 slots: none of its 2 trials is valid." in basis_sentences(found)


def test_a_winner_is_better_than_all_others_together(tmp_path: Path) -> None:
    """Each of two others is behind in more than 95 % of the draws, both together in less."""
    effects = {"hdd": 0.0, "ssd": 0.05, "nvme": 0.06}
    records = results_of(tmp_path / "r", effects, repeats=2, seed=3)
    choice = answered([records]).choice
    assert choice.leading is not None and choice.leading.best < 0.95
    assert choice.recommended is None
    assert "cannot be told apart" in headline(answered([records]))


def test_why_a_requested_quantity_is_unknown_is_said(tmp_path: Path) -> None:
    records = results_of(tmp_path / "r", {"a": 0.0, "b": 0.1})
    offers = Offers.model_validate({})
    wishes = parse_wishes("events/s", "", "EUR", set(), "price, price/event/s")
    inputs = DecisionInputs([records], offers, wishes, None, None, ())
    said = unknown_sentences(answer(inputs))
    assert said == [
        "Unknown: price, price per event/s of every configuration: the records name no parts."
    ]
