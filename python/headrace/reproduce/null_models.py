"""Reproduction: null models of the studies, which know calibrate rows and inputs only.

A simulation is worth what it errs less than these on predicted numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from headrace.reproduce.published import Number, Published, minutes

MB_OF_ONE_WORKER = 12.5
"""Middle of the calibrate row `single-job`, 10 to 15 MB/s."""
NAS_W = 115.0
NAS_DRIVES_W = {"idle, 4 ssd": 4 * 0.5, "idle, 4 hdd": 4 * 0.85, "loaded, 4 hdd": 4 * 2.1}
"""From the drives' specifications in the study, hardware.hdd and hardware.ssd."""
CORES = 4


@dataclass(frozen=True)
class NullModel:
    """What one would say of a number without simulating."""

    says: str
    value: Callable[[Number, Published], float | None]
    """None for numbers that it has nothing to say of."""


def _proof_ssd(number: Number, published: Published) -> float | None:
    workers = re.search(r"(\d+) worker", number.label)
    return MB_OF_ONE_WORKER * int(workers[1]) if workers else None


def _worker_node_ssd(number: Number, published: Published) -> float | None:
    table = published.tables[number.table]
    full = float(published.tables["filestager"].value(1, "mean_job_efficiency"))
    if number.column == "mean_job_efficiency":
        return full
    if number.column == "mean_throughput":
        return full * float(table.value(number.row, "jobs"))
    price = float(table.value(number.row, "unit_price_gbp"))
    return price / (8 * full) if number.column == "price_per_throughput_gbp" else None


def _cluster_energy(number: Number, published: Published) -> float | None:
    if number.table == "nas-power":
        return NAS_DRIVES_W[number.label]
    if number.table.endswith("-variation"):
        return 0.0
    rows = published.tables["filesystem"]
    if number.table == "slot-gain":
        row = 1 if number.label == "hdd" else 4
        slow, fast = (minutes(str(rows.value(row, f"time_slot{size}"))) for size in (1, 3))
        return 1 - fast / slow
    size = int(number.column[-1])
    row = 1 if " hdd" in number.label else 4
    time_min = minutes(str(rows.value(row, f"time_slot{size}")))
    if number.unit == "min":
        return time_min
    nas_wh = NAS_W * time_min / 60 / CORES if number.label.startswith("nas") else 0.0
    return float(rows.value(row, f"wh_slot{size}")) + nas_wh


def _storage_options(number: Number, published: Published) -> float | None:
    if number.table == "bytes-moved":
        return 0.5
    if number.unit == "MB/s" and ("skim" in number.label or number.table == "root-21-clients"):
        return float(published.tables["root-21-clients"].value(0, "read_mb_s"))
    return float(published.tables["summary"].value(number.row, "read_mb_s_high"))


NULL_MODELS = {
    "proof-ssd": NullModel("as many workers as one worker's 12.5 MB/s, on every drive", _proof_ssd),
    "worker-node-ssd": NullModel(
        "every full node has the efficiency of one disk with 8 jobs, 0.75", _worker_node_ssd
    ),
    "cluster-energy": NullModel(
        "every time and energy is that of the calibrate row of its drive and slot size (local, "
        "ext4); the NAS adds its 115 W; file system and scheduler change nothing",
        _cluster_energy,
    ),
    "storage-options": NullModel(
        "every rate of a storage is its calibrated read rate with IOzone, every skim that of "
        "BlueArc; half of the file is moved",
        _storage_options,
    ),
}


def null_error(study: str, number: Number, published: Published) -> float | None:
    """Return the null model's error of a predicted number; None where it has none."""
    if number.role == "calibrate":
        return None
    value = NULL_MODELS[study].value(number, published)
    return None if value is None else number.error_of(value)
