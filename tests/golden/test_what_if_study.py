"""Golden: the what-if of five drives is answered, and each of its numbers follows from its trials
and from prices of the catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.catalog import entry
from headrace.library import decide, load_study
from headrace.records.trial_record import TrialRecord, decode
from headrace.report.decision import as_json
from headrace.study.packaged import STUDIES

POUNDS_IN_DOLLARS = 1.55  # as the study states
NAMES = {
    "wd-wd3200bekt": "wd3200bekt",
    "sata-7200-500gb": "hdd-500gb-pair",
    "intel-x25-m-g2-160gb": "intel-x25-m-160",
    "samsung-870-evo-1tb": "samsung-870-evo-1tb",
    "intel-670p-1tb": "intel-670p-1tb",
}


def mean(records: list[TrialRecord], what: Any) -> float:
    return sum(what(record) for record in records) / len(records)


def test_each_number_of_the_answer_follows_from_its_trials_and_prices(tmp_path: Path) -> None:
    results = tmp_path / "five drives"
    load_study(STUDIES / "what-if-five-drives.toml").simulate(results)
    limits = "price <= 200 USD, usable >= 100 GB, efficiency >= 80 %"
    answer, _ = decide([results], within=limits)
    found: Any = as_json(answer)
    assert found["recommended"] == "scratch, intel-670p-1tb, 16 slots"
    assert len(found["configurations"]) == 10
    for each in found["configurations"]:
        (evidence,) = each["trials"]
        records = [
            decode((results / "trials" / name / "trial.json").read_bytes())
            for name in evidence["ids"]
        ]
        assert len(records) == 3
        drive, values = each["levels"]["drive"], each["values"]
        assert {record.levels["drive"] for record in records} == {drive}
        assert {record.slots for record in records} == {each["levels"]["slots"]}
        sums = [record.sums or {} for record in records]
        rates = [
            one["events"] / (record.last_done_s or 0)
            for one, record in zip(sums, records, strict=True)
        ]
        assert values["events_per_s"] == pytest.approx(sum(rates) / 3)
        watts = mean(records, lambda one: one.energy.total_j / one.last_done_s)
        assert values["mean_power_w"] == pytest.approx(watts)
        per_job = mean(records, lambda one: one.energy.total_j / one.sums["jobs"] / 3600)
        assert values["energy_wh_per_job"] == pytest.approx(per_job)
        capacity = entry("drives", drive).table["capacity_bytes"]
        assert values["usable_bytes"] == pytest.approx(0.95 * capacity)
        price = entry("prices", NAMES[drive]).table
        rate = POUNDS_IN_DOLLARS if price.currency == "GBP" else 1.0
        assert values["price"] == pytest.approx(price.amount / price.drives * rate)
        assert values["price_per_event_per_s"] == values["price"] / values["events_per_s"]
        (part,) = (part for part in each["parts"] if part["what"] == "drive")
        assert part["date"][:4] == str(price.year)
