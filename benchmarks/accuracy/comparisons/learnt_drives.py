"""Drives learnt in virtual time, and loads that were no part of learning."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from learn_drives import DISKS, LOAD_S, LOADS, MODEL_REQUESTS, SSDS, hidden

from headrace.catalog import entry
from headrace.drives.learning import (
    LoadResult,
    learn_drive,
    modelled_device,
    modelled_loads,
    run_load,
)
from rows import Comparison, Row, relative

SEED = 7
"""Of the hidden values; 1 was used while the scripts were written."""
MINUTES = {"hdd": 2.0, "ssd": 1.0}


def _numbers(result: LoadResult) -> dict[str, float]:
    return {"IOPS": result.iops, "p50": result.p50_s * 1e3, "p99": result.p99_s * 1e3}


def _rows_of(name: str) -> list[Row]:
    device = modelled_device(hidden(name, SEED), seed=4)
    kind = "hdd" if name in DISKS else "ssd"
    seconds = MINUTES[kind] * 60
    learnt = learn_drive(device, name="learnt", seconds=seconds, kind=None, say=lambda _: None)
    loads = LOADS[kind]
    true = [run_load(device, load, limit_s=LOAD_S[kind]) for load in loads]
    model = modelled_loads(learnt.table, loads, requests=MODEL_REQUESTS, seed=8)
    table: Any = dict(entry("drives", name).table)
    if kind == "ssd":
        table["initial"] = {"state": "filled", "fill": 1.0}
    sheet = modelled_loads(table, loads, requests=MODEL_REQUESTS, seed=8)
    found: list[Row] = []
    for load, real, modelled, null in zip(loads, true, model, sheet, strict=True):
        for number, measured in _numbers(real).items():
            if load.sequential and number != "IOPS":
                continue  # fast and slow reads in turn: quantiles may be of either kind
            unit = "IOPS" if number == "IOPS" else "ms"
            label = f"{name}, {load.name}" + ("" if number == "IOPS" else f", {number}")
            obtained, other = _numbers(modelled)[number], _numbers(null)[number]
            found.append(relative(label, unit, obtained, measured, other, "predicted"))
    return found


def rows(_: Path | None) -> list[Row]:
    """Learn ten drives with hidden values."""
    return [row for name in (*DISKS, *SSDS) for row in _rows_of(name)]


COMPARISON = Comparison(
    title="Drives learnt from themselves",
    model="`headrace drive learn` in virtual time",
    source="no measurement: ten drives of the catalog whose values were changed at random are the "
    "truth, and both they and what was learnt are models. So this shows what the reads can tell, "
    "and not how well a model describes a drive.",
    null="the drive of the catalog as it is, without learning.",
    rows=rows,
    notes=(
        "Disks are read for two minutes, SSDs for one. The values were drawn with another seed "
        "than those with which the scripts were written.",
        "Through the kernel, which takes a quiet machine and root: `python "
        "benchmarks/learn_drives.py`; results in [learnt drives](learnt-drives.md).",
    ),
)
