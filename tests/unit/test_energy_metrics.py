"""Energy of simulated and emulated trials without a meter, and how the report shows it."""

from __future__ import annotations

import csv
import io
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import headrace
from headrace.analysis.find import find
from headrace.analysis.findings import Findings
from headrace.analysis.metrics import trial_metrics
from headrace.analysis.points import PointOptions, make_points
from headrace.analysis.read import Records, read, trials_frame
from headrace.catalog.tables import MachinePower
from headrace.engine.measure.metering import SiteOfTrial, energy_of_site
from headrace.engine.modelled_power import of_probes, power_rows, spread
from headrace.engine.site_energy import completed
from headrace.errors import StudyError
from headrace.metrics import metric_of, provenances_of, registered, values_of
from headrace.metrics.trial import RecordedTrial
from headrace.records.energy import ChannelEnergy, Energy, PartEnergy
from headrace.records.inventory import InventoryItem
from headrace.records.trial_record import TrialRecord
from headrace.report import write_report
from headrace.report.series import trial_series
from headrace.report.terminal import print_report
from headrace.site import Site
from synthetic_records import Truth, plan_of, write_results

STUDY = """
headrace = 1
title = "Energy of two drives"
[target.hdd]
kind = "block"
drive = "sata-7200-500gb"
[target.ssd]
kind = "block"
drive = "samsung-870-evo-1tb"
[target.nas]
kind = "nfs"
server = "nas"
export = { drive = "sata-7200-500gb" }
[workload.higgs]
kind = "analysis"
data = { files = 4, events = 20_000 }
[factors]
target = ["hdd", "ssd", "nas"]
slots = [1, 4]
[plan.repeats]
min = 2
[report.price]
ssd = { price = 45.0, drives = 2 }
[site]
pue = 1.5
co2 = 300.0
switch = { switch = "1-gbe-48", count = 2 }
[site.node]
machine = "dell-r210"
[site.server.nas]
machine = "dell-r710"
"""


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    folder = tmp_path_factory.mktemp("energy")
    (folder / "study.toml").write_text(STUDY)
    return read(headrace.load_study(folder / "study.toml").simulate(folder / "results"))


@pytest.fixture(scope="module")
def trials(records: Records) -> list[TrialRecord]:
    return [records.trial_record(trial) for trial in records.trials["id"]]


def test_parts_add_up_to_the_total(trials: list[TrialRecord]) -> None:
    for trial in trials:
        energy = trial.energy
        assert energy.total_j == pytest.approx(1.5 * sum(part.energy_j for part in energy.parts))
        of = {part.part: part.energy_j for part in energy.parts}
        assert of["node"] == energy.nodes_j and of["drive"] == pytest.approx(energy.drives_j)
        assert of["switch"] == pytest.approx(2 * 50.0 * trial.duration_s)
        assert ("server" in of) is (trial.target.name == "nas")
        assert energy.not_covered == () and energy.assumed == ()


def test_metrics_of_energy_are_those_without_a_value_for_a_trial_without_energy(
    trials: list[TrialRecord],
) -> None:
    """They are left out unseen: each must say so itself, and no other may have one."""
    record, without = trials[0], msgspec.structs.replace(trials[0], energy=Energy())
    valued = {name: each.value for name, each in registered().items() if each.value is not None}
    for name, value_of in valued.items():
        if registered()[name].of_energy:
            assert value_of(RecordedTrial(without)) is None, name
            relative = registered()[name].relative_uncertainty
            assert relative is None or not relative(without), name
    energy = {name for name in values_of(record) if registered()[name].of_energy}
    assert {"energy_wh_per_job", "idle_power_w", "node_power_w"} <= energy
    assert {*values_of(record)} - {*values_of(without)} == energy


def test_idle_facility_and_co2(trials: list[TrialRecord]) -> None:
    for trial in trials:
        values, energy = values_of(trial), trial.energy
        idle_w = 55.41 + 2 * 50.0 + {"hdd": 5.5, "ssd": 0.03, "nas": 115.0 + 5.5}[trial.target.name]
        assert values["idle_power_w"] == pytest.approx(1.5 * idle_w)
        assert energy.total_j is not None
        share = 1.5 * idle_w * trial.duration_s / energy.total_j
        assert values["idle_energy_share"] == pytest.approx(share) and 0.5 < share < 1
        assert values["mean_power_w"] == pytest.approx(energy.total_j / trial.duration_s)
        wh = values["energy_wh_per_job"]
        assert values["energy_facility_wh_per_job"] == wh
        assert values["co2_g_per_job"] == pytest.approx(300.0 * wh / 1000)
        assert provenances_of(trial)["co2_g_per_job"] == "modelled+stated"
        assert values["node_power_w"] > 55.41
        assert ("server_power_w" in values) is (trial.target.name == "nas")
        jobs = trial.sums["jobs"] if trial.sums else 0
        per_part = sum(
            values.get(f"energy_{part}_j_per_job", 0.0)
            for part in ("nodes", "servers", "drives", "switch")
        )
        assert per_part * jobs * 1.5 == pytest.approx(energy.total_j)


def test_nothing_is_assumed_of_the_site(tmp_path: Path) -> None:
    text = STUDY[: STUDY.index("[site]")].replace('"hdd", "ssd", "nas"', '"ssd", "nas"')
    text = text.replace("min = 2", "min = 1").replace("[1, 4]", "[1]")
    (tmp_path / "study.toml").write_text(text + "[site.server.nas]\n")
    found = read(headrace.load_study(tmp_path / "study.toml").simulate(tmp_path / "r"))
    for name, target in zip(found.trials["id"], found.trials["target"], strict=True):
        trial = found.trial_record(name)
        values, energy = values_of(trial), trial.energy
        assert energy.pue is None and "energy_facility_wh_per_job" not in values
        assert "co2_g_per_job" not in values
        # A switch carries the data, and nobody said what it draws.
        assert energy.not_covered == (("switch",) if target == "nas" else ())
        servers = ("server generic-server",) if target == "nas" else ()
        assert energy.assumed == ("node generic-node", *servers)


NODE = MachinePower(idle_w=50.0, awake_w=6.0, core_w=8.0)
DRIVES = Energy(drives_j=700.0, parts=(PartEnergy("drive", "vdb", 700.0),))
INVENTORY = (
    InventoryItem(part="node", name="dell-r210", host="node", count=1),
    InventoryItem(part="drive", name="sata-7200-500gb", host="node", count=1),
)


def test_an_emulated_trial_has_a_model_of_its_node() -> None:
    here = SiteOfTrial(100.0, node_power=NODE, busy_core_s=150.0, switch_w=40.0)
    made = energy_of_site(DRIVES, [], {}, here)
    assert (made.nodes_j, made.drives_j, made.switch_j) == (5600.0 + 1200.0, 700.0, 4000.0)
    assert made.total_j == 11_500.0 and made.provenance == "modelled"
    assert [(part.part, part.energy_j) for part in made.parts] == [
        ("node", 6800.0),
        ("switch", 4000.0),
        ("drive", 700.0),
    ]
    site = Site.model_validate({"switch": {"power": 40.0}, "co2": 0})
    done = completed(made, site, INVENTORY, 100.0)
    assert done.idle_j == pytest.approx(100 * (55.41 + 5.5 + 40.0))
    assert (done.pue, done.co2_g_per_kwh) == (None, 0.0)


def test_without_a_machine_the_whole_is_not_known() -> None:
    assert energy_of_site(DRIVES, [], {}, SiteOfTrial(100.0)) == DRIVES
    made = energy_of_site(DRIVES, [], {}, SiteOfTrial(100.0, switch_w=40.0))
    assert made.total_j is None and made.not_covered == ("nodes",)
    assert completed(made, None, INVENTORY, 100.0).idle_j is None


def test_idle_energy_of_a_metered_node_is_what_its_meter_saw() -> None:
    plug = ChannelEnergy(
        "plug", "shelly", "power", "node", energy_j=9000.0, uncertainty_j=90.0,
        idle_power_w=60.0, usable=True,
    )  # fmt: skip
    made = energy_of_site(DRIVES, [plug], {}, SiteOfTrial(100.0))
    assert made.total_j == 9700.0 and made.metered_idle_w == 60.0
    assert [(part.name, part.provenance, part.uncertainty_j) for part in made.parts] == [
        ("node-1", "measured", 90.0),
        ("vdb", "modelled", None),
    ]
    assert completed(made, None, INVENTORY, 100.0).idle_j == pytest.approx(6000.0 + 550.0)
    blind = energy_of_site(DRIVES, [replace(plug, idle_power_w=None)], {}, SiteOfTrial(100.0))
    assert completed(blind, None, INVENTORY, 100.0).idle_j is None


def test_a_switch_is_named_or_has_a_power(tmp_path: Path) -> None:
    both = STUDY.replace("count = 2 }", "power = 3 }", 1)
    (tmp_path / "study.toml").write_text(both)
    with pytest.raises(StudyError, match="either switch, a name of the catalog, or power"):
        headrace.load_study(tmp_path / "study.toml")


def test_every_metric_of_energy_says_what_it_needs() -> None:
    for name in ("energy_facility_wh_per_job", "co2_g_per_job", "idle_energy_share"):
        assert "energy" in metric_of(name).needs or "power" in metric_of(name).needs


@pytest.fixture(scope="module")
def findings(records: Records) -> Findings:
    return find(records)


@pytest.fixture(scope="module")
def files(records: Records, findings: Findings) -> tuple[Path, Path]:
    page, table = write_report(records.root, findings, ["html", "csv"])
    return page, table


def test_watts_against_time_add_up_to_the_energy(
    records: Records, trials: list[TrialRecord]
) -> None:
    for trial in trials:
        rows = records.series(trial.id, "power")
        assert set(rows["meter"]) == {"model"}
        for part, samples in rows.groupby("channel"):
            ends = [0.0, *samples["time_s"].clip(upper=trial.duration_s)]
            lengths = [after - before for before, after in itertools.pairwise(ends)]
            joules = sum(samples["power_w"] * lengths)
            assert joules == pytest.approx(getattr(trial.energy, f"{part}_j")), part
            assert samples["power_w"].min() >= 0


@given(
    st.floats(0.1, 1e6),
    st.none() | st.floats(0, 1e5),
    st.lists(st.tuples(st.floats(0, 64), st.floats(0.01, 100)), min_size=1, max_size=20),
)
def test_spread_keeps_the_energy(
    energy_j: float, idle_w: float | None, intervals: list[tuple[float, float]]
) -> None:
    done, lengths = [each for each, _ in intervals], [length for _, length in intervals]
    watts = spread(energy_j, idle_w, done, lengths)
    assert min(watts) >= 0
    assert sum(w * length for w, length in zip(watts, lengths, strict=True)) == pytest.approx(
        energy_j
    )


def test_power_of_an_emulated_trial_follows_its_processors() -> None:
    here = SiteOfTrial(3.0, node_power=NODE, busy_core_s=3.0)
    energy = energy_of_site(Energy(drives_j=18.0), [], {}, here)
    cpu = [
        {"time_s": second, "idle": 1 - busy, "iowait": 0.0}
        for second, busy in ((1.0, 0.5), (2.0, 0.25), (3.0, 0.0))
    ]
    block = [{"time_s": second, "busy": 1.0} for second in (1.0, 2.0, 3.0)]
    activity = of_probes({"cpu": cpu, "block": block}, 3.0)
    rows = power_rows(energy, INVENTORY, activity, 3.0)
    nodes = [row["power_w"] for row in rows if row["channel"] == "nodes"]
    assert nodes[0] > nodes[1] > nodes[2] == pytest.approx(55.41)
    assert sum(nodes) == pytest.approx(energy.nodes_j)
    assert [row["power_w"] for row in rows if row["channel"] == "drives"] == pytest.approx(
        [6.0] * 3
    )
    assert power_rows(energy, INVENTORY, of_probes({}, 3.0), 3.0) == []


def test_the_page_shows_energy_prices_and_power(
    records: Records, files: tuple[Path, Path], trials: list[TrialRecord]
) -> None:
    page = files[0].read_text()
    assert 'id="figure-energy"' in page and 'id="prices"' in page
    assert "The error of power models is not known" in page
    assert "whole site with cooling: nodes, servers, drives and switches modelled; PUE 1.5" in page
    assert "nodes (modelled)" in page and "running jobs" in page
    longest = max(trials, key=lambda trial: trial.duration_s)
    series = trial_series(records.root, longest.id)
    assert series["jobs"]["running"][0] == 0 and max(filter(None, series["jobs"]["running"])) >= 1


def test_the_terminal_says_boundary_and_source(findings: Findings) -> None:
    text = io.StringIO()
    print_report(findings, Console(file=text, width=80))
    said = " ".join(text.getvalue().split())
    assert "Lowest energy per job of each storage" in said and "PUE 1.5 stated" in said
    assert "Price of what jobs get" in said
    assert max(len(line) for line in text.getvalue().splitlines()) <= 80


def test_every_joule_in_the_table_has_a_source(files: tuple[Path, Path]) -> None:
    rows = list(csv.DictReader(files[1].open()))
    joules = [row for row in rows if row["metric"].startswith(("energy_", "mean_power", "co2"))]
    assert len(joules) > 30
    for row in joules:
        if row["about"] != "point":
            continue
        assert "modelled" in row["provenance"], row["metric"]
        assert "boundary: " in row["note"] and "modelled" in row["note"], row
    of_job = [row for row in joules if row["metric"] == "energy_wh_per_job"]
    assert all("boundary: whole site with cooling" in row["note"] for row in of_job)


def test_prices_are_those_of_the_study_or_dated_ones_of_the_catalog(findings: Findings) -> None:
    prices = {each.target: each for each in findings.prices}
    assert list(prices) == list(dict.fromkeys(curve.target for curve in findings.curves))
    ssd, hdd = prices["ssd"], prices["hdd"]
    assert (ssd.amount, ssd.currency, ssd.source) == (90.0, "EUR", "stated")
    # worker-node-ssd, table 4: 80 GBP for two.
    assert (hdd.amount, hdd.currency, hdd.source) == (40.0, "GBP", "published")
    assert hdd.what == "catalog: 1 × sata-7200-500gb, 2010"
    (curve,) = [curve for curve in findings.curves if curve.target == "ssd"]
    point = max(curve.points, key=lambda point: point.metrics["events_per_s"].value)
    per = ssd.per["throughput"]
    assert ssd.load == point.load
    assert per.value == pytest.approx(90.0 / point.metrics["throughput_jobs"].value)
    assert per.low is not None and per.high is not None and per.low <= per.value <= per.high
    assert per.provenance == "simulated+stated"
    assert ssd.per["gb"].value == pytest.approx(90.0 / 1000, rel=0.01)


def test_without_energy_and_price_nothing_is_shown(tmp_path: Path) -> None:
    cells: list[dict[str, Any]] = [{"target": "disk", "workload": "higgs", "slots": 1}]
    found = read(write_results(tmp_path / "r", plan_of(cells, 2), Truth(), series=False))
    findings = find(found)
    (page,) = write_report(found.root, findings, ["html"])
    assert findings.prices == ()
    assert 'id="energy"' not in page.read_text() and 'id="prices"' not in page.read_text()


def test_repeats_do_not_make_a_meter_more_accurate(trials: list[TrialRecord]) -> None:
    """Scatter shrinks with repeats, the calibration of a meter does not."""
    same = [trial for trial in trials if trial.cell == trials[0].cell]
    measured = [
        msgspec.structs.replace(
            trial,
            energy=Energy(total_j=7200.0, uncertainty_j=144.0, provenance="measured", nodes_j=7200),
        )
        for trial in same
    ]
    frame = trials_frame(measured)
    options = PointOptions(0.95, "mean", 0.9, {})
    (point,) = make_points(frame, trial_metrics(frame), {}, options)
    found = point.metrics["energy_wh_per_job"]
    assert found.low is not None and found.high is not None
    # 2 % of it, at 95 %: 1.96 standard uncertainties.
    assert (found.high - found.low) / 2 / found.value == pytest.approx(0.02 * 1.96, rel=0.01)
    assert found.method.endswith("with the meters' uncertainty")
    assert point.energy_basis is not None and point.energy_basis.source == "nodes measured"
    one = frame.iloc[:1].reset_index(drop=True)
    (point,) = make_points(one, trial_metrics(one), {}, options)
    assert point.metrics["energy_wh_per_job"].low == pytest.approx(found.low)


def test_jobs_without_events_have_no_events_per_energy(trials: list[TrialRecord]) -> None:
    with_events = trials[0]
    sums = {**(with_events.sums or {}), "events": 0, "window_events": 0}
    without = msgspec.structs.replace(with_events, sums=sums)
    of_events = {"events_per_s", "energy_j_per_event", "events_per_wh"}
    assert of_events <= values_of(with_events).keys()
    assert not of_events & values_of(without).keys()


def test_rows_of_prices_have_the_levels_of_their_storage(tmp_path: Path) -> None:
    cells: list[dict[str, Any]] = [
        {"target": "disk", "workload": "higgs", "slots": 1, "filesystem": name}
        for name in ("ext4", "xfs")
    ]
    study = '[report.price.disk]\nprice = 50\ncurrency = "EUR"\n'
    results = write_results(
        tmp_path / "r", plan_of(cells, 2), Truth(), study_text=f"headrace = 1\n{study}"
    )
    (file,) = write_report(results, find(read(results)), ["csv"])
    rows = list(csv.DictReader(io.StringIO(file.read_text())))
    priced = [row for row in rows if row["metric"] == "price_eur"]
    assert sorted(row["level_filesystem"] for row in priced) == ["ext4", "xfs"]
