"""Golden: the energy table of cluster-energy and the price table of worker-node-ssd as
`headrace simulate` and `headrace decide` give them, by study files of their own.

Nothing is simulated here: the cells of these files are shown to be those of the studies' larger
files, and the records of the reproduction are decided on.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from headrace.analysis.read import Records, trials_frame
from headrace.decision.answer import answer, objectives_of
from headrace.decision.offers import priced_offers
from headrace.decision.sensitivity import DecisionInputs
from headrace.decision.wishes import metric_quantity, parse_wishes
from headrace.engine.simulate.scenario import scenario_of
from headrace.plan.order import make_plan
from headrace.records.store import ResultsHeader
from headrace.report.decision import as_json
from headrace.reproduce.published import minutes, published
from headrace.study import load_study
from headrace.study.packaged import STUDIES
from headrace.study.resolve import resolve
from reproductions import cells

TARGET = {"local": "local", "nas": "nas", "glusterfs": "gluster"}
DRIVE = {"hdd": "wd-wd3200bekt", "ssd": "corsair-f40"}


def scenarios(file: Path) -> list[Any]:
    """Return the scenario of every cell of a study file, all with one seed."""
    study = load_study(file)
    return [
        scenario_of(resolve(study, trial.target, trial.workload, trial.levels), trial.target,
                    trial.workload, seed=1)
        for trial in make_plan(study).trials if trial.repeat == 0
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("part", "whole", "number"),
    [
        ("cluster-energy/energy.toml", "cluster-energy/slots.toml", 12),
        ("worker-node-ssd/prices.toml", "worker-node-ssd/filestager.toml", 3),
    ],
)
def test_the_file_has_cells_of_the_reproduction(part: str, whole: str, number: int) -> None:
    mine, others = scenarios(STUDIES / part), scenarios(STUDIES / whole)
    assert len(mine) == number
    assert all(scenario in others for scenario in mine)


def decided(
    study: str, larger: str, slots: tuple[int, ...], want: str, reproduced: Path, place: Path
) -> dict[tuple[Any, ...], dict[str, float]]:
    """Return the values of every configuration by target, drive and slots."""
    id = study.partition("/")[0]
    records = [
        record
        for cell in cells(id, reproduced).all(larger)
        for record in cell.records
        if record.slots in slots
    ]
    shutil.copy(STUDIES / study, place / "study.toml")
    frame = trials_frame(records)
    header = ResultsHeader("", "", "simulate", "", "", "")
    sets = [Records(place, header, None, frame, (), ())]
    offers = priced_offers(None, sets)
    known = {name for values in frame["metrics"] for name in values}
    wishes = parse_wishes(want, "", offers.currency, known, "cluster_energy_wh_per_job, wall_s"
                          "_per_relative_slot, throughput_jobs")  # fmt: skip
    objectives = objectives_of(wishes.want, metric_quantity("efficiency"))
    made: Any = as_json(answer(DecisionInputs(sets, offers, wishes, None, None, objectives)))
    return {
        (each["target"], each["levels"].get("drive"), each["levels"]["slots"]): each["values"]
        for each in made["configurations"]
    }


def test_energy_and_time_per_job_are_those_of_table_6_7(
    shared_folder: Path, tmp_path: Path
) -> None:
    found = decided(
        "cluster-energy/energy.toml", "slots", (4, 12), "wh/job", shared_folder, tmp_path
    )
    assert len(found) == 12
    table = published("cluster-energy").tables["best-case"]
    for index in range(len(table.rows)):
        row = table.row(index)
        for size, slots in ((1, 4), (3, 12)):
            values = found[TARGET[row["scheme"]], DRIVE[row["drive"]], slots]
            as_published = values["cluster_energy_wh_per_job"]
            # The bound of every time and energy of the reproduction is 10 %.
            assert as_published == pytest.approx(row[f"wh_slot{size}"], rel=0.05)
            assert values["energy_wh_per_job"] == pytest.approx(as_published / 3)
            published_min = minutes(str(row[f"time_slot{size}"]))
            time_s = values["wall_s_per_relative_slot"]
            assert time_s / 60 == pytest.approx(published_min, rel=0.1)


def test_prices_for_performance_are_those_of_table_4(shared_folder: Path, tmp_path: Path) -> None:
    found = decided(
        "worker-node-ssd/prices.toml", "filestager", (8,), "price/throughput", shared_folder,
        tmp_path,
    )  # fmt: skip
    table = published("worker-node-ssd").tables["price"]
    for index in range(len(table.rows)):
        row = table.row(index)
        values = found[row["storage"], None, 8]
        assert values["price"] == row["unit_price_gbp"]
        obtained = values["price_per_throughput"]
        assert obtained == pytest.approx(row["price_per_throughput_gbp"], rel=0.25)
        assert obtained == pytest.approx(row["unit_price_gbp"] / values["throughput_jobs"])
        # Table 4 counts one of the two disks.
        disks = 2 if row["storage"] == "hdd-raid0-2" else 1
        per_gb = values["price_per_usable_tb"] / 1000 * disks
        assert per_gb == pytest.approx(row["price_per_gb_gbp"], abs=0.005)
