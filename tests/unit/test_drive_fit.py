"""Fitting a drive: parameters put in are found again.

What the results cannot determine is said and left as it was.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from headrace.catalog import CatalogEntry, entry
from headrace.drives import Load, fit_drive, run_drive
from headrace.drives.fitted_file import write_fitted

LOADS = [
    {"rw": "randread", "bs": "4k", "iodepth": "1"},
    {"rw": "randread", "bs": "4k", "iodepth": "4"},
    {"rw": "randread", "bs": "4k", "iodepth": "16"},
    {"rw": "randread", "bs": "4k", "iodepth": "32"},
    {"rw": "randread", "bs": "512k", "iodepth": "1"},
    {"rw": "randread", "bs": "512k", "iodepth": "16"},
    {"rw": "read", "bs": "256k", "iodepth": "1"},
]


def changed(tmp_path: Path, name: str, **values: float) -> CatalogEntry:
    """The catalog's disk with other values."""
    text = entry("drives", "wd-wd3200bekt").file.read_text()
    for key, value in values.items():
        text, count = re.subn(rf"\b{key} = [0-9._e]+", f"{key} = {value}", text, count=1)
        assert count == 1, key
    path = tmp_path / f"{name}.toml"
    path.write_text(text)
    return entry("drives", str(path))


def as_fio(tmp_path: Path, drive: CatalogEntry, number: int, options: dict[str, str]) -> Path:
    """What fio would say of that drive: results of the model with the parameters to be found."""
    size = int(options["bs"].removesuffix("k")) << 10
    load = Load(
        rw=options["rw"],
        bs_bytes=size,
        iodepth=int(options["iodepth"]),
        runtime_s=20.0,
        offset_bytes=int(options.get("offset", "0")),
    )
    result: dict[str, Any] = run_drive(drive.table, load)
    job: dict[str, Any] = {
        "jobname": f"job{number}",
        "job options": {**options, "ioengine": "libaio"},
    }
    for direction in ("read", "write"):
        part = result[direction]
        job[direction] = {
            "total_ios": part["requests"],
            "iops": part["iops"],
            "clat_ns": {"mean": part["latency_ns_mean"]},
        }
    path = tmp_path / f"fio{number}.json"
    path.write_text(json.dumps({"fio version": "fio-3.33", "jobs": [job]}))
    return path


@pytest.fixture
def truth(tmp_path: Path) -> CatalogEntry:
    return changed(tmp_path, "truth", reordering=0.6, average_ms=9.0, outer_bytes_per_s=95e6)


@pytest.mark.slow
def test_a_fitted_drive_gives_the_results_and_those_left_out(
    tmp_path: Path, truth: CatalogEntry
) -> None:
    files = [as_fio(tmp_path, truth, number, load) for number, load in enumerate(LOADS)]
    fit = fit_drive(changed(tmp_path, "start"), files, runtime_s=20.0)
    found = {each.name: each for each in fit.parameters}
    assert fit.rms_error < 0.03
    assert fit.cross_error is not None and fit.cross_error < 0.06
    assert abs(found["seek.average_ms"].value / 9.0 - 1) < 0.1
    assert (
        found["queue.reordering"].determined and abs(found["queue.reordering"].value - 0.6) < 0.25
    )
    outer = found["rates.outer_bytes_per_s"]
    assert outer.determined and abs(outer.value / 95e6 - 1) < 0.1
    write_fitted(changed(tmp_path, "start"), fit, files, tmp_path / "fitted.toml")
    again = entry("drives", str(tmp_path / "fitted.toml"))
    assert "fitted to fio results" in again.source["seek.average_ms"]


def test_a_fit_stays_within_what_a_platter_can_be(tmp_path: Path, truth: CatalogEntry) -> None:
    """Results of a disk whose inner zone is much slower than any hub allows."""
    strange = changed(tmp_path, "strange", outer_bytes_per_s=95e6, inner_bytes_per_s=14e6)
    size = strange.table["capacity_bytes"]
    files = [as_fio(tmp_path, strange, 0, LOADS[6])]
    end = {**LOADS[6], "offset": str(int(size * 0.97) >> 20 << 20)}
    files.append(as_fio(tmp_path, strange, 1, end))
    fit = fit_drive(changed(tmp_path, "start"), files, runtime_s=4.0)
    values = {each.name: each.value for each in fit.parameters}
    ratio = values["rates.inner_bytes_per_s"] / values["rates.outer_bytes_per_s"]
    assert 0.34 < ratio <= 1


def test_queue_depth_1_alone_does_not_invent_the_rest(tmp_path: Path, truth: CatalogEntry) -> None:
    start = changed(tmp_path, "start")
    fit = fit_drive(start, [as_fio(tmp_path, truth, 0, LOADS[0])], runtime_s=6.0)
    found = {each.name: each for each in fit.parameters}
    for name in ("queue.reordering", "write_settle_ms"):
        assert not found[name].determined
        assert found[name].value == found[name].before
        assert found[name].why
    # Seek and overhead add up to one number: at most one of them can be told from it.
    assert sum(each.determined for each in fit.parameters) <= 1
    assert fit.cross_error is None
