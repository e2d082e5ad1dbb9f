"""Energy of simulated and emulated trials without a meter: by part, idle, facility, CO2."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import headrace
from headrace.analysis.read import Records, read
from headrace.catalog.tables import MachinePower
from headrace.engine.measure.metering import SiteOfTrial, energy_of_site
from headrace.engine.site_energy import completed
from headrace.errors import StudyError
from headrace.metrics import metric_of, provenances_of, values_of
from headrace.records.energy import ChannelEnergy, Energy, PartEnergy
from headrace.records.inventory import InventoryItem
from headrace.records.trial_record import TrialRecord
from headrace.site import Site

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
