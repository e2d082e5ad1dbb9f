"""Is a drive with any layout predicted after `headrace drive learn`? In virtual time.

Drives are drawn at random (`drawn_drives.py`) and learnt; loads that were not part of learning are
then run on the truth and on the learnt model. IOPS and medians have to lie within 10 %, p99 within
20 %. The values are compared, too: how often the truth is within one and two standard errors, and
how many are said not to be determined.

    python benchmarks/learn_drawn.py [--ssds 12] [--disks 6] [--minutes 1] [--reads-only]
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from drawn_drives import DISK_ODDITIES, drawn_disk, drawn_ssd
from learn_drives import BOUNDS, LOADS

from headrace.drives.learning import (
    LearntDevice,
    LearntDrive,
    LoadResult,
    ScriptLoad,
    learn_drive,
    modelled_device,
    run_load,
)
from headrace.drives.learning.device import UNIT

Spec = dict[str, Any]
REQUESTS = 6000


@dataclass(frozen=True)
class Mixed:
    """Random reads and writes of 4 KiB in a closed loop; statistics of the reads."""

    depth: int
    write_share: float

    @property
    def name(self) -> str:
        return f"{self.write_share:.0%} writes of 4 KiB at depth {self.depth}"


READS = {
    "ssd": (
        ScriptLoad(8, 3),
        ScriptLoad(8, 12),
        ScriptLoad(8, 64),
        ScriptLoad(16, 3),
        ScriptLoad(32, 1),
        ScriptLoad(32, 12),
        ScriptLoad(64, 6),
        ScriptLoad(128, 4),
        ScriptLoad(256, 3),
        ScriptLoad(256, 24),
        ScriptLoad(512, 2, sequential=True, first=0.4),
        ScriptLoad(8, 8, sequential=True, first=0.4),
    ),
    "hdd": LOADS["hdd"],
}
WRITES = {
    "ssd": (
        ScriptLoad(256, 4, sequential=True, write=True),
        ScriptLoad(8, 2, write=True),
        ScriptLoad(32, 8, write=True),
        Mixed(8, 0.3),
        Mixed(24, 0.5),
    ),
    "hdd": (
        ScriptLoad(32, 4, write=True),
        ScriptLoad(256, 1, sequential=True, first=0.4, write=True),
    ),
}


def run_mixed(device: LearntDevice, load: Mixed, requests: int) -> LoadResult:
    """Run reads and writes; all requests count for IOPS, the reads for the quantiles."""
    draw = np.random.default_rng(17)
    first, last = device.writable_region
    sector = (draw.integers(-(-first // UNIT), last // UNIT, requests) * UNIT).tolist()
    write = draw.random(requests) < load.write_share
    timings = device.mixed(sector, UNIT, write.tolist(), depth=load.depth)
    skipped = requests // 4
    response_s = timings.response_s[skipped:][~write[skipped:]]
    span_s = float(timings.end_s.max() - timings.start_s[skipped])
    p50_s, p99_s = (float(each) for each in np.quantile(response_s, (0.5, 0.99)))
    return LoadResult(requests, (requests - skipped) / span_s, p50_s, p99_s)


def results(table: Spec, loads: Sequence[ScriptLoad | Mixed]) -> list[LoadResult]:
    """Run loads on a drive that holds data, each on a new one: no load fills another's buffer.

    The places are the same for all drives: reads wait for whole reads of others, so that a quantile
    of one and the same drive jumps by 8 % from draw to draw.
    """
    found: list[LoadResult] = []
    for load in loads:
        device = modelled_device(table, seed=11, script_seed=11, writable=True)
        if isinstance(load, Mixed):
            found.append(run_mixed(device, load, 2 * REQUESTS))
            continue
        large = load.write and load.sequential
        found.append(
            run_load(device, load, limit_s=1e6, at_most=3 * REQUESTS if large else REQUESTS)
        )
    return found


def misses(table: Spec, learnt: LearntDrive, loads: Sequence[ScriptLoad | Mixed]) -> list[Spec]:
    """Return the relative errors of the model, load by load."""
    rows: list[Spec] = []
    pairs = zip(loads, results(table, loads), results(learnt.table, loads), strict=True)
    for load, true, model in pairs:
        errors = {"IOPS": model.iops / true.iops - 1}
        if isinstance(load, Mixed) or not load.sequential:
            errors |= {"p50": model.p50_s / true.p50_s - 1, "p99": model.p99_s / true.p99_s - 1}
        outside = [name for name, error in errors.items() if not abs(error) <= BOUNDS[name]]
        rows.append({"load": load.name, "errors": errors, "outside": outside})
    return rows


def true_value(table: Spec, name: str) -> float | None:
    """Return the true value of a learnt one; None if there is none to compare."""
    flash: Spec = table.get("flash", {})
    if name == "dies":
        return flash["channels"] * flash["dies_per_channel"]
    if name == "page":
        return flash["planes"] * flash["page_bytes"]
    found: Any = table
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    scale = 1e-6 if table["kind"] == "hdd" and name == "link_bytes_per_s" else 1.0
    return float(found) * scale if isinstance(found, (int, float)) else None


def values_of(table: Spec, learnt: LearntDrive) -> list[Spec]:
    """Return each learnt value beside the true one, in standard errors."""
    rows: list[Spec] = []
    for each in learnt.values:
        true = true_value(table, each.name)
        if true is None:
            continue
        error = each.error
        off = abs(each.value - true)
        z = None if error is None else off / error if error > 0 else (0.0 if off == 0 else math.inf)
        relative = each.value / true - 1 if true else 0.0
        rows.append(
            {
                "name": each.name,
                "true": true,
                "learnt": each.value,
                "z": z,
                "relative": relative,
                "doubt": each.doubt,
            }
        )
    return rows


def one(kind: str, number: int, minutes: float, writable: bool) -> Spec:
    """Learn a drive, and compare it."""
    table = drawn_ssd(number) if kind == "ssd" else drawn_disk(number)
    device = modelled_device(table, seed=4, script_seed=2, writable=writable)
    begun = time.process_time()
    learnt = learn_drive(device, name="learnt", seconds=minutes * 60, kind=None, say=lambda _: None)
    cpu_s = time.process_time() - begun
    loads = [*READS[kind], *(WRITES[kind] if writable else ())]
    unknown = [asdict(each) for each in learnt.unknown]
    return {
        "kind": kind,
        "number": number,
        "cpu_s": cpu_s,
        "device_s": learnt.seconds,
        "rows": misses(table, learnt, loads),
        "values": values_of(table, learnt),
        "unknown": unknown,
        "true": table,
        "table": learnt.table,
        "error": next((v.value for v in learnt.values if v.name == "error of the model"), None),
    }


def show(found: Spec) -> None:
    table, rows = found["true"], found["rows"]
    missed = [row for row in rows if row["outside"]]
    print(
        f"## {found['kind']} {found['number']} {table['name']}: {len(rows) - len(missed)} of "
        f"{len(rows)} within; error of the model {found['error'] or math.nan:.2f} %, device "
        f"{found['device_s']:.0f} s, CPU {found['cpu_s']:.0f} s"
    )
    for row in missed:
        errors = ", ".join(f"{name} {row['errors'][name]:+.0%}" for name in row["outside"])
        print(f"  {row['load']}: {errors}")
    for each in found["values"]:
        z = "" if each["z"] is None else f"{each['z']:.1f} errors"
        print(
            f"    {each['name']}: {each['learnt']:.5g}, true {each['true']:.5g} "
            f"({each['relative']:+.1%}) {z} {each['doubt']}"
        )
    for each in found["unknown"]:
        print(
            f"    not determined: {each['name']} (true {true_value(table, each['name'])}): "
            f"{each['why']}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ssds", type=int, default=12)
    parser.add_argument("--disks", type=int, default=len(DISK_ODDITIES))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--reads-only", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    drives = [("ssd", number) for number in range(given.first, given.ssds, given.step)]
    drives += [("hdd", number) for number in range(given.first, given.disks, given.step)]
    found: list[Spec] = []
    for kind, number in drives:
        minutes = given.minutes * (2 if kind == "hdd" else 1)
        found.append(one(kind, number, minutes, not given.reads_only))
        show(found[-1])
        if given.out:
            given.out.write_text(json.dumps(found, indent=1))
    rows = [row for each in found for row in each["rows"]]
    good = sum(not row["outside"] for row in rows)
    known = [each["z"] for one_of in found for each in one_of["values"] if each["z"] is not None]
    unknown = sum(len(each["unknown"]) for each in found)
    print(
        f"{good} of {len(rows)} loads within {BOUNDS}; of {len(known)} values "
        f"{sum(z <= 1 for z in known)} within one standard error, {sum(z <= 2 for z in known)} "
        f"within two; {unknown} not determined; CPU {sum(each['cpu_s'] for each in found):.0f} s"
    )


if __name__ == "__main__":
    main()
