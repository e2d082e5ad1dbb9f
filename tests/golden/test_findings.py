"""Findings of a small result set, number for number, against a stored file.

After a change that is meant: `HEADRACE_GOLDEN=write pytest tests/golden/test_findings.py`, and
read the difference.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from headrace.analysis.compare import compare
from headrace.analysis.find import find
from headrace.analysis.read import Records, read
from synthetic_records import Truth, plan_of, write_results

HERE = Path(__file__).parent
STUDY = (
    'headrace = 1\n[report]\nmetric = "events_per_s"\nprice = { disk = { price = 60, drives = '
    "2 } }\n"
)


@pytest.fixture
def records(tmp_path: Path) -> Records:
    """Two targets, one with filesystems and schedulers.

    Three repeats; one trial each invalid, failed and unsupported.
    """
    cells = [
        {
            "target": "disk",
            "workload": "higgs",
            "filesystem": filesystem,
            "scheduler": scheduler,
            "slots": slots,
        }
        for filesystem, scheduler, slots in itertools.product(
            ["ext4", "xfs"], ["none", "bfq"], [2, 4, 8]
        )
    ]
    cells += [
        {**cell, "target": "nas", "filesystem": None, "scheduler": None} for cell in cells[:3]
    ]
    truth = Truth(
        effects={"filesystem": {"xfs": 0.1}, "scheduler": {"bfq": -0.05}, "target": {"nas": -0.4}},
        whole_plot_sigma=0.02,
        trial_sigma=0.01,
    )
    plan = plan_of(cells, 3, ("target", "filesystem"))
    broken = {1: "invalid", 20: "failed", 40: "unsupported"}
    return read(
        write_results(tmp_path / "r", plan, truth, study_text=STUDY, broken=broken, series=False)
    )


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))


def differences(found: Any, wanted: Any, place: str = "") -> list[str]:
    """Where two JSON values differ by more than arithmetic may."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return [
            text
            for name in sorted({*wanted, *found})
            for text in differences(
                found.get(name, "nothing"), wanted.get(name, "nothing"), f"{place}.{name}"
            )
        ]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        return [
            text
            for number, (one, other) in enumerate(zip(found, wanted, strict=True))
            for text in differences(one, other, f"{place}[{number}]")
        ]
    if (
        isinstance(wanted, float)
        and isinstance(found, float)
        and math.isclose(found, wanted, rel_tol=1e-6, abs_tol=1e-12)
    ):
        return []
    both_nan = found != found and wanted != wanted
    return [] if both_nan or found == wanted else [f"{place}: {found!r} instead of {wanted!r}"]


def check(found: Any, name: str) -> None:
    file = HERE / name
    if os.environ.get("HEADRACE_GOLDEN") == "write":
        file.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    assert differences(found, json.loads(file.read_text())) == []


def test_findings_of_a_small_result_set(records: Records) -> None:
    check(plain(asdict(find(records))), "findings.json")


def test_comparison_of_two_small_result_sets(records: Records, tmp_path: Path) -> None:
    assert records.plan is not None
    other = read(
        write_results(
            tmp_path / "b", records.plan, Truth(trial_sigma=0.01, cpu_s=4.4), seed=7, series=False
        )
    )
    check(plain(asdict(compare(records, other))), "comparison.json")


def test_a_changed_number_is_seen(records: Records) -> None:
    found = plain(asdict(find(records)))
    changed = plain(found)
    changed["curves"][0]["points"][0]["metrics"]["wall_s"]["value"] *= 1.00001
    assert differences(changed, found) != []
