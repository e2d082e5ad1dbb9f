"""Findings of storages whose truth is known: what was put in must come out."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.analysis.curves import find_growth, find_knee, slots_fed
from headrace.analysis.find import FindOptions, find
from headrace.analysis.findings import Estimate, FactorEffect, Findings, Limit, Point
from headrace.analysis.read import read
from headrace.study.model import Price
from sample_findings import sample_findings
from synthetic_records import Truth, plan_of, write_results

Found = Callable[..., Findings]


@pytest.fixture
def found(tmp_path: Path) -> Found:
    """Findings of a synthetic result set."""

    def make(
        cells: list[dict[str, Any]],
        truth: Truth,
        repeats: int = 3,
        *,
        options: FindOptions | None = None,
        **more: Any,
    ) -> Findings:
        whole_plot = more.pop("whole_plot", ("target",))
        root = tmp_path / f"results{len(list(tmp_path.iterdir()))}"
        write_results(root, plan_of(cells, repeats, whole_plot), truth, series=False, **more)
        return find(read(root), options or FindOptions())

    return make


def cells_of(**factors: list[Any]) -> list[dict[str, Any]]:
    given = {"target": ["disk"], "workload": ["higgs"], **factors}
    return [dict(zip(given, levels, strict=True)) for levels in itertools.product(*given.values())]


SLOTS = [1, 2, 3, 4, 6, 8, 12]


def test_the_findings_that_reports_are_tested_with_have_metrics_that_records_give(
    found: Found,
) -> None:
    (curve,) = found(cells_of(slots=[1, 2]), Truth(site_w=150.0)).curves
    shown = sample_findings(energy=True).curves[0].points[0].metrics
    assert set(shown) <= set(curve.points[0].metrics)
    assert (
        shown["energy_j_per_job"].provenance
        == curve.points[0].metrics["energy_j_per_job"].provenance
    )


def test_why_a_trial_failed_that_lost_its_node_is_said_once(tmp_path: Path) -> None:
    """Its cause is its reason, too: `--retry-invalid` goes by that."""
    root = tmp_path / "results"
    write_results(
        root, plan_of(cells_of(slots=[1, 2]), 1, ("target",)), Truth(), broken={0: "failed"}
    )
    (file,) = (
        each for each in root.glob("trials/*/trial.json") if "on purpose" in each.read_text()
    )
    record = json.loads(file.read_text())
    cause = record["cause"] = "node-1 (node2): it cannot be reached"
    record["validity"]["reasons"] = [{"code": "node-lost", "text": cause}]
    file.write_text(json.dumps(record))
    (left,) = find(read(root), FindOptions()).left_out
    assert (left.status, left.reasons) == ("failed", (cause,))


def test_knee_and_slots_fed_are_those_put_in(found: Found) -> None:
    # the device gives 100 MB/s, a job takes 100 MB in 4 s: four jobs are fed, at five each has 80 %
    (curve,) = found(cells_of(slots=SLOTS), Truth(trial_sigma=0.01, cores=32)).curves
    assert [point.slots for point in curve.points] == SLOTS
    assert curve.knee is not None
    assert (curve.knee.slots, curve.knee.metric, curve.knee.beyond) == (4, "events_per_s", "level")
    assert curve.slots_fed is not None
    assert (curve.slots_fed.slots, curve.slots_fed.censored) == (4, False)
    # between 4 (100 %) and 6 (4/6) the line crosses 90 % at 4.6
    assert curve.slots_fed.interpolated == pytest.approx(4.6, abs=0.05)
    assert curve.slots_fed.why == "device bandwidth"


@pytest.mark.parametrize("jobs_fed", [2, 3, 6, 8])
def test_a_faster_device_feeds_more(found: Found, jobs_fed: int) -> None:
    truth = Truth(device_bytes_per_s=25e6 * jobs_fed, trial_sigma=0.01, cores=64)
    (curve,) = found(cells_of(slots=SLOTS), truth).curves
    assert curve.slots_fed is not None
    assert curve.slots_fed.slots == jobs_fed
    assert curve.knee is not None
    assert curve.knee.slots == jobs_fed


def test_a_storage_that_feeds_all_that_was_tried_is_censored(found: Found) -> None:
    (curve,) = found(cells_of(slots=[1, 2, 4]), Truth(device_bytes_per_s=1e9)).curves
    assert curve.slots_fed is not None
    assert (curve.slots_fed.slots, curve.slots_fed.censored, curve.slots_fed.interpolated) == (
        4,
        True,
        None,
    )
    assert curve.knee is None


def test_a_storage_that_feeds_none(found: Found) -> None:
    (curve,) = found(cells_of(slots=[1, 2]), Truth(device_bytes_per_s=10e6)).curves
    assert curve.slots_fed is not None
    assert (curve.slots_fed.slots, curve.slots_fed.why) == (0, "device bandwidth")


def test_more_jobs_than_cores_is_cpu_contention_not_storage(found: Found) -> None:
    (curve,) = found(cells_of(slots=[2, 4, 8]), Truth(cache="warm", cores=4)).curves
    assert [point.limit.kind for point in curve.points] == ["cpu", "cpu", "cpu contention"]
    assert "8 jobs on 4 cores" in curve.points[-1].limit.evidence
    assert curve.points[-1].limit.share == pytest.approx(0.5)


def test_small_requests_to_a_busy_device_are_latency(found: Found) -> None:
    (curve,) = found(
        cells_of(slots=[4, 8]), Truth(device_bytes_per_s=20e6, request_bytes=8192)
    ).curves
    assert {point.limit.kind for point in curve.points} == {"device latency"}
    assert "8 KiB" in curve.points[0].limit.evidence


def test_metrics_of_a_point_by_hand(found: Found) -> None:
    (curve,) = found(cells_of(slots=[8]), Truth(cores=8)).curves
    (point,) = curve.points
    # 8 jobs x 100 MB from 100 MB/s: 8 s, of which 4 s on CPU; 8 x 100 000 events
    values = {name: estimate.value for name, estimate in point.metrics.items()}
    assert values["wall_s"] == pytest.approx(8)
    assert values["events_per_s"] == pytest.approx(100_000)
    assert values["efficiency"] == pytest.approx(0.5)
    assert values["throughput_jobs"] == pytest.approx(4)
    assert values["device_bytes_per_s"] == pytest.approx(100e6)
    assert values["asked_bytes_per_s"] == pytest.approx(100e6)
    assert values["uncompressed_bytes_per_s"] == pytest.approx(300e6)
    assert values["amplification"] == pytest.approx(1)
    assert values["iops"] == pytest.approx(100e6 / 2**18, rel=1e-3)
    assert point.ledger == pytest.approx(
        {"on_cpu": 0.5, "wait_cpu": 0, "wait_block": 0.5, "wait_network": 0, "other": 0}
    )
    assert (point.metrics["wall_s"].n, len(point.trials)) == (3, 3)


def test_intervals_are_those_of_t_over_repeats(found: Found) -> None:
    findings = found(cells_of(slots=[1]), Truth(trial_sigma=0.1), 5)
    ((point,),) = (curve.points for curve in findings.curves)
    estimate = point.metrics["events_per_s"]
    assert (estimate.n, estimate.method) == (5, "mean, t interval")
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.value - estimate.low == pytest.approx(estimate.high - estimate.value)
    medians = found(
        cells_of(slots=[1]), Truth(trial_sigma=0.1), 6, options=FindOptions(statistic="median")
    )
    assert medians.curves[0].points[0].metrics["events_per_s"].method == "median, order statistics"


def test_one_repeat_has_no_interval(found: Found) -> None:
    findings = found(cells_of(slots=[1]), Truth(), 1)
    estimate = findings.curves[0].points[0].metrics["events_per_s"]
    assert (estimate.low, estimate.high, estimate.n) == (None, None, 1)


def effect_of(findings: Findings, factor: str, metric: str = "events_per_s") -> FactorEffect:
    return next(
        effect for effect in findings.effects if (effect.factor, effect.metric) == (factor, metric)
    )


def test_effects_put_in_come_out(found: Found) -> None:
    cells = cells_of(filesystem=["ext3", "ext4", "xfs"], scheduler=["none", "bfq"], slots=[1, 4, 8])
    truth = Truth(
        effects={"filesystem": {"ext3": -0.3, "xfs": 0.1}, "scheduler": {"bfq": -0.05}},
        whole_plot_sigma=0.03,
        trial_sigma=0.01,
    )
    findings = found(cells, truth, 5, whole_plot=("target", "filesystem"))
    filesystem, scheduler = effect_of(findings, "filesystem"), effect_of(findings, "scheduler")
    assert (filesystem.best, filesystem.worst, filesystem.error_term) == (
        "xfs",
        "ext3",
        "whole plots",
    )
    assert (scheduler.best, scheduler.worst, scheduler.error_term) == ("none", "bfq", "trials")
    for effect, truth_cost in ((filesystem, -np.expm1(-0.4)), (scheduler, -np.expm1(-0.05))):
        assert effect.cost_of_wrong.low is not None
        assert effect.cost_of_wrong.high is not None
        assert effect.cost_of_wrong.low < truth_cost < effect.cost_of_wrong.high
        assert effect.p_value is not None
        assert effect.p_value < 0.01
    assert [level.level for level in filesystem.levels] == ["ext3", "ext4", "xfs"]
    (combined,) = findings.combined
    assert (combined.best["filesystem"], combined.worst["filesystem"]) == ("xfs", "ext3")
    assert (combined.best["scheduler"], combined.worst["scheduler"]) == ("none", "bfq")
    assert combined.cost.value == pytest.approx(-np.expm1(-0.45), abs=0.06)
    assert combined.slots == 8


@pytest.mark.slow
def test_levels_that_do_nothing_are_not_told_apart(found: Found) -> None:
    """Shuffled labels: levels without any effect come out as significant about as often as said."""
    significant, drawn = 0, 20
    for seed in range(drawn):
        cells = cells_of(scheduler=["a", "b", "c"], slots=[1, 2])
        findings = found(cells, Truth(trial_sigma=0.02, whole_plot_sigma=0.1), seed=seed)
        effect = effect_of(findings, "scheduler")
        significant += (effect.p_value or 1) < 0.05
        assert effect.cost_of_wrong.low is not None
    # 20 at 5 %: 1 expected, more than 6 in fewer than one of ten thousand
    assert significant <= 6


def test_a_factor_of_one_target_alone(found: Found) -> None:
    cells = cells_of(scheduler=["none", "bfq"], slots=[1, 2])
    cells += [
        {**cell, "target": "nas", "scheduler": None}
        for cell in cells
        if cell["scheduler"] == "none"
    ]
    findings = found(
        cells,
        Truth(effects={"target": {"nas": -0.2}, "scheduler": {"bfq": -0.1}}, trial_sigma=0.001),
    )
    scheduler, target = effect_of(findings, "scheduler"), effect_of(findings, "target")
    assert scheduler.targets == ("disk",)
    assert scheduler.cost_of_wrong.value == pytest.approx(-np.expm1(-0.1), abs=0.01)
    # the disk stands for the mean of its schedulers
    assert (target.best, target.worst) == ("disk", "nas")
    assert target.cost_of_wrong.value == pytest.approx(-np.expm1(-0.15), abs=0.01)
    assert "each level with its own scheduler" in target.note


def test_invalid_failed_and_unsupported_are_left_out_of_everything(found: Found) -> None:
    cells = cells_of(slots=[1, 2])
    findings = found(cells, Truth(), broken={0: "invalid", 1: "failed", 3: "unsupported"})
    assert [(left.status, left.reasons) for left in findings.left_out] == [
        ("invalid", ("the page cache was not cold",)),
        ("failed", ("made failed on purpose",)),
        ("unsupported", ("made unsupported on purpose",)),
    ]
    lost = {left.trial for left in findings.left_out}
    (curve,) = findings.curves
    rests_on = {
        trial
        for point in curve.points
        for estimate in point.metrics.values()
        for trial in estimate.trials
    }
    rests_on |= {trial for effect in findings.effects for trial in effect.cost_of_wrong.trials}
    assert not rests_on & lost
    assert [(point.metrics["wall_s"].n, point.invalid, point.failed) for point in curve.points] == [
        (2, 1, 0),
        (1, 0, 1),
    ]
    assert (findings.trials_planned, findings.trials_done) == (6, 6)


def test_nothing_valid_is_a_warning_not_an_error(found: Found) -> None:
    findings = found(cells_of(slots=[1]), Truth(), 2, broken={0: "failed", 1: "invalid"})
    assert "no trial is valid: nothing can be said" in findings.warnings
    # What the invalid trial says is there, apart from everything that is compared.
    (curve,) = findings.curves
    assert (curve.points, curve.rank, curve.slots_fed, curve.knee) == ((), None, None, None)
    (grey,) = curve.distrusted
    assert grey.reasons == ("the page cache was not cold",)
    (missing,) = findings.unanswered
    assert (missing.planned, missing.invalid, missing.failed) == (2, 1, 1)
    assert {text for text, _ in missing.reasons} == {
        "the page cache was not cold",
        "made failed on purpose",
    }


def test_an_outcome_counts_trials_and_not_their_reasons(tmp_path: Path) -> None:
    """A lost node makes three probes of one trial fail: that is one trial."""
    plan = plan_of(cells_of(slots=[1]), 2)
    root = write_results(tmp_path / "a", plan, Truth(), broken={0: "failed", 1: "invalid"})
    for file in root.glob("trials/*/trial.json"):
        record = json.loads(file.read_text())
        if record["status"] == "done":
            text = "probe {} failed with the agent of its node"
            record["validity"]["reasons"] = [
                {"code": "probe-failed", "text": text.format(probe)}
                for probe in ("block", "cpu", "network")
            ]
            file.write_text(json.dumps(record))
    (missing,) = find(read(root)).unanswered
    counts = {text.split()[0]: count for text, count in missing.reasons}
    assert counts == {"probe": 1, "made": 1}, missing.reasons


def test_provenances_stay_apart(tmp_path: Path) -> None:
    plan = plan_of(cells_of(slots=[1, 2]), 3)
    root = write_results(tmp_path / "a", plan, Truth(), series=False)
    other = write_results(
        tmp_path / "b",
        plan,
        Truth(engine="simulate", provenance="simulated", cpu_s=8.0),
        series=False,
    )
    for directory in (other / "trials").iterdir():
        directory.rename(root / "trials" / f"{directory.name}-simulated")
    findings = find(read(root))
    assert [
        (curve.provenance, curve.points[0].metrics["wall_s"].value) for curve in findings.curves
    ] == [
        ("measured", pytest.approx(4.0)),
        ("simulated", pytest.approx(8.0)),
    ]
    assert findings.provenance == ("measured", "simulated")
    assert any("provenances differ" in warning for warning in findings.warnings)


def test_a_workload_without_events_is_judged_by_bytes(found: Found) -> None:
    (curve,) = found(cells_of(slots=[1, 2]), Truth(job_events=0, cpu_s=0.1)).curves
    assert curve.slots_fed is None
    assert "events_per_s" not in curve.points[0].metrics
    findings = found(cells_of(slots=[1, 2]), Truth(job_events=0, cpu_s=0.1))
    assert findings.headline == {"higgs": "asked_bytes_per_s"}


def test_jobs_that_load_the_storage_feed_no_slots_but_have_a_rate_that_grows_with_clients(
    found: Found,
) -> None:
    # A client moves 25 MB/s, on its CPU all the time; the device gives 100 MB/s: from 4 clients on
    # nothing is gained.
    truth = Truth(job_events=0, cpu_s=4.0, cores=32)
    cells = cells_of(nodes=[1, 2], slots=[1, 2, 4])
    for curve in found(cells, truth).curves:
        assert curve.slots_fed is not None, "what the ledger alone would take for computing"
        assert curve.growth is None
    curves = found(cells, replace(truth, loads_storage=True)).curves
    assert len(curves) == 2
    for curve in curves:
        assert curve.slots_fed is None
        assert not {"efficiency", "throughput_jobs"} & {
            name for p in curve.points for name in p.metrics
        }
        growth = curve.growth
        assert growth is not None and growth == curves[0].growth
        assert (growth.metric, growth.clients) == ("asked_bytes_per_s", (1, 2, 4, 8))
        assert growth.rates == pytest.approx((25e6, 50e6, 100e6, 100e6))
        assert (growth.enough, growth.beyond) == (4, "level")


def test_another_load_is_no_storage_to_be_ranked(found: Found) -> None:
    """2 nodes with 4 slots and 4 with 2 are lines of their own, and one storage."""
    truth = Truth(effects={"target": {"nas": -0.4}}, trial_sigma=0.005, cores=32)
    findings = found(cells_of(target=["disk", "nas"], nodes=[1, 2, 4], slots=[2, 4]), truth, 4)
    assert [curve.target for curve in findings.curves] == ["disk"] * 3 + ["nas"] * 3
    assert {curve.levels["nodes"] for curve in findings.curves} == {1, 2, 4}
    ranks = {(curve.target, curve.rank, curve.alike) for curve in findings.curves}
    assert ranks == {("disk", 1, 0), ("nas", 2, 0)}
    assert {effect.factor for effect in findings.effects} == {"target"}
    # The device feeds four jobs: that is so however they are spread.
    disk = [curve.slots_fed for curve in findings.curves if curve.target == "disk"]
    assert [(fed.slots, fed.smallest, fed.censored) for fed in disk if fed] == [(4, 2, False)] * 3


def test_clients_within_a_job_are_counted(found: Found) -> None:
    truth = Truth(job_events=0, loads_storage=True, clients_in_job=8)
    (curve,) = found(cells_of(slots=[1, 2]), truth).curves
    assert [point.clients for point in curve.points] == [8, 16]
    assert curve.growth is not None
    assert (curve.growth.enough, curve.growth.beyond) == (16, "untried")


def test_a_price_makes_a_stated_metric(found: Found) -> None:
    options = FindOptions(price={"disk": Price(price=50, drives=2)})
    findings = found(cells_of(slots=[1]), Truth(), options=options)
    estimate = findings.curves[0].points[0].metrics["events_per_s_per_eur"]
    assert estimate.value == pytest.approx(100_000 / 4 / 100)
    assert estimate.provenance == "stated"


def test_options_come_from_the_study_that_lies_with_the_records(tmp_path: Path) -> None:
    text = (
        "headrace = 1\n[report]\nefficiency = 0.5\nconfidence = 0.9\n[plan.repeats]\nmin = 6\n"
        'statistic = "median"\n'
    )
    root = write_results(
        tmp_path / "r",
        plan_of(cells_of(slots=[4, 8, 16]), 6),
        Truth(cores=32),
        study_text=text,
        series=False,
    )
    findings = find(read(root))
    assert findings.confidence == 0.9
    (curve,) = findings.curves
    assert curve.slots_fed is not None
    assert curve.slots_fed.slots == 8
    assert curve.points[0].metrics["wall_s"].method.startswith("median")


def test_equal_records_equal_findings(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", plan_of(cells_of(slots=[1, 2]), 3), Truth(trial_sigma=0.1))
    assert find(read(root)) == find(read(root))


def point(slots: int, efficiency: float, rate: float) -> Point:
    def estimate(value: float) -> Estimate:
        return Estimate(value, None, None, 1, "", ())

    return Point(
        target="t",
        workload="w",
        levels={},
        slots=slots,
        metrics={"efficiency": estimate(efficiency), "events_per_s": estimate(rate)},
        ledger={},
        limit=Limit("network", 0.5, ""),
        provenance="measured",
        invalid=0,
        failed=0,
    )


def test_a_rate_that_falls_beyond_its_knee() -> None:
    knee = find_knee(
        [point(1, 1, 100), point(2, 1, 200), point(4, 0.6, 190), point(8, 0.2, 120)], "events_per_s"
    )
    assert knee is not None
    assert (knee.slots, knee.beyond) == (2, "falls")


def test_a_rate_that_falls_with_clients() -> None:
    points = [
        replace(point(1, 1, rate), clients=clients)
        for clients, rate in ((1, 96), (2, 100), (2, 60), (12, 50))
    ]
    growth = find_growth(points, "events_per_s")
    assert growth is not None
    assert (growth.clients, growth.rates) == ((1, 2, 12), (96, 100, 50)), (
        "of one number the better way"
    )
    assert (growth.enough, growth.beyond, growth.why) == (1, "falls", "network")


def test_slots_fed_stop_at_the_first_number_that_fails() -> None:
    fed = slots_fed([point(1, 0.95, 1), point(2, 0.85, 2), point(4, 0.91, 3)], 0.9)
    assert fed is not None
    assert (fed.slots, fed.interpolated, fed.why) == (1, pytest.approx(1.5), "network")


def test_combinations_are_compared_at_one_way_to_make_up_the_load(tmp_path: Path) -> None:
    """The cost of the wrong choices was that of 2 nodes for 4, and best and worst had one name."""
    cells: list[dict[str, Any]] = [
        {"target": "disk", "workload": "higgs", "slots": slots, "nodes": nodes, **more}
        for slots, nodes in ((2, 4), (4, 2))
        for filesystem in ("ext4", "xfs")
        for scheduler in ("none", "bfq")
        for more in ({"filesystem": filesystem, "scheduler": scheduler},)
    ]
    effects = {"nodes": {4: 0.4}, "filesystem": {"xfs": 0.1}, "scheduler": {"bfq": -0.1}}
    truth = Truth(trial_sigma=0.001, effects=effects)
    findings = find(read(write_results(tmp_path, plan_of(cells, 3), truth, series=False)))
    (found,) = findings.combined
    assert (found.slots, found.cells) == (8, 4)
    assert found.cost.value == pytest.approx(1 - np.exp(-0.2), abs=0.01)
    assert found.best_name != found.worst_name
