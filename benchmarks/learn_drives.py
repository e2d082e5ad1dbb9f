"""Is a drive that `headrace drive learn` has read predicted? Drives with hidden values are emulated
and learnt through the kernel; loads that were not part of learning are then run on them.

Five disks and five SSDs of the catalog with values that are drawn at random. IOPS and the median of
response times have to lie within 10 % of the learnt drive's model, p99 within 20 %. Needs root.
Where the emulator's own report does not trust its answers, because the machine was too busy, the
drive is learnt again, up to `--tries` times, and left out in the end.

    python benchmarks/learn_drives.py [--only NAME …] [--minutes 2] [--virtual] [--seed 1]

`--virtual` learns the models in virtual time instead, which shows what the script can do without
the noise of a machine. `--device /dev/sdb` learns this drive, and runs the loads on it.
Exit code 0: within the bounds, 1: outside them, 2: the machine was too busy for some drives.
"""

from __future__ import annotations

import argparse
import copy
import os
import random
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from headrace.catalog import entry
from headrace.drives.learning import (
    LearntDevice,
    LoadResult,
    ScriptLoad,
    block_device,
    learn_drive,
    modelled_device,
    modelled_loads,
    run_load,
    served_in_order,
)
from headrace.errors import HeadraceError
from headrace.system import emulator
from headrace.system.emulator import EmulatedDevice
from headrace.system.journal import Journal
from headrace.system.owned import work_directory

Spec = dict[str, Any]

DISKS = ("seagate-st3750640ns", "cheetah-9lp", "wd-wd3200bekt", "sas-10k-146gb", "sata-7200-500gb")
SSDS = (
    "corsair-f40",
    "mtron-msp-sata7035064",
    "intel-x25-m-g2-160gb",
    "kingston-ssdnow-v-128gb",
    "samsung-870-evo-1tb",
)
BOUNDS = {"IOPS": 0.1, "p50": 0.1, "p99": 0.2}
LOADS = {
    "hdd": (
        ScriptLoad(32, 3),
        ScriptLoad(128, 1),
        ScriptLoad(8, 12),
        ScriptLoad(8, 6, first=0.2, last=0.3),
        ScriptLoad(512, 1, sequential=True, first=0.4),
    ),
    "ssd": (
        ScriptLoad(8, 6),
        ScriptLoad(16, 3),
        ScriptLoad(32, 12),
        ScriptLoad(128, 4),
        ScriptLoad(512, 2, sequential=True, first=0.4),
    ),
}
LOAD_S = {"hdd": 12.0, "ssd": 3.0}
MODEL_REQUESTS = 6000


@dataclass(frozen=True)
class Row:
    """One load: the relative errors of the learnt model."""

    drive: str
    load: str
    measured: LoadResult
    errors: dict[str, float]

    @property
    def good(self) -> bool:
        return all(abs(error) <= BOUNDS[name] for name, error in self.errors.items())


def hidden(name: str, seed: int) -> Spec:
    """Return a drive of the catalog with other values, full of data."""
    draw = random.Random(f"{name} {seed}")
    table = copy.deepcopy(cast("Spec", entry("drives", name).table))
    table["name"] = f"hidden-{name}"
    table["link_bytes_per_s"] *= draw.uniform(0.8, 1.1)
    if table["kind"] == "ssd":
        for part, field in (
            ("controller", "read_overhead_us"),
            ("controller", "read_iops_max"),
            ("flash", "read_us"),
            ("flash", "channel_bytes_per_s"),
        ):
            table[part][field] *= draw.uniform(0.7, 1.3)
        return {**table, "initial": {"state": "filled", "fill": 1.0}}
    table["rotation_rpm"] *= draw.uniform(0.85, 1.15)
    table["controller_overhead_us"] *= draw.uniform(0.7, 1.4)
    table["queue"]["reordering"] = draw.uniform(0.1, 0.8)
    slower = draw.uniform(0.95, 1.25)
    for field in ("average_ms", "short_root_ms", "long_slope_ms"):
        if field in table["seek"]:
            table["seek"][field] *= slower
    if "rates" in table:
        faster = draw.uniform(0.8, 1.2)
        table["rates"] = {
            key: rate if key == "zones" else rate * faster for key, rate in table["rates"].items()
        }
    return table


@contextmanager
def attached(table: Spec) -> Generator[EmulatedDevice]:
    """Emulate the drive for the time of learning and of the loads."""
    with Journal.open("benchmark of learnt drives") as journal:
        directory, _ = work_directory(journal, Path(tempfile.gettempdir()))
        made = emulator.attach(
            journal,
            cast("Any", {"drives": [table]}),
            int(table["capacity_bytes"]),
            directory,
            seed=1,
            data_limit_bytes=64 << 20,
        )
        try:
            yield made
        finally:
            made.detach()


def emulated_rows(name: str, table: Spec, seconds: float, tries: int) -> list[Row]:
    """Learn an emulated drive; empty if the emulator never trusts its own answers."""
    for _ in range(tries):
        try:
            with attached(table) as made, served_in_order(made.device):
                made.reset_report()
                # No name holds the open device, which could not be detached then.
                rows = rows_of(block_device(made.device, seed=3), name, seconds)
                report = made.report()
        except HeadraceError as error:  # too fast for a floor that other programs raise
            print(f"# {name}: {error.message}", flush=True)
            continue
        print(
            f"# {name}: {report.late_share:.1%} of the answers late, load average "
            f"{os.getloadavg()[0]:.1f}; {report.distrust or 'trusted'}",
            flush=True,
        )
        if report.trustworthy:
            return rows
        show(rows)
    return []


def rows_of(device: LearntDevice, name: str, seconds: float) -> list[Row]:
    """Learn a drive, then compare the loads."""
    found = learn_drive(device, name="learnt", seconds=seconds, kind=None, say=lambda _: None)
    kind = str(found.table["kind"])
    # The drive and the kernel hold no more; others would wait to be submitted.
    loads = [replace(load, depth=min(load.depth, device.most_in_flight)) for load in LOADS[kind]]
    real = [run_load(device, load, limit_s=LOAD_S[kind]) for load in loads]
    model = modelled_loads(found.table, loads, requests=MODEL_REQUESTS, seed=8)
    rows: list[Row] = []
    for load, measured, modelled in zip(loads, real, model, strict=True):
        errors = {"IOPS": modelled.iops / measured.iops - 1}
        if not load.sequential:  # fast and slow reads in turn: quantiles may be of either kind
            errors["p50"] = modelled.p50_s / measured.p50_s - 1
            errors["p99"] = modelled.p99_s / measured.p99_s - 1
        rows.append(Row(name, load.name, measured, errors))
    return rows


def show(rows: list[Row]) -> None:
    print("| drive | load | IOPS | p50 ms | p99 ms | IOPS model | p50 | p99 |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        errors = [f"{row.errors[name]:+.1%}" if name in row.errors else "" for name in BOUNDS]
        mark = "" if row.good else " (!)"
        print(
            f"| {row.drive} | {row.load} | {row.measured.iops:,.0f} | "
            f"{row.measured.p50_s * 1e3:.3f} | {row.measured.p99_s * 1e3:.3f} | "
            f"{' | '.join(errors)}{mark} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--only", nargs="*", default=[*DISKS, *SSDS])
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--virtual", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", type=Path)
    parser.add_argument("--tries", type=int, default=3)
    given = parser.parse_args()
    rows: list[Row] = []
    spoilt: list[str] = []
    if given.device is not None:
        with served_in_order(given.device):
            rows = rows_of(block_device(given.device), str(given.device), given.minutes * 60)
    for name in () if given.device is not None else given.only:
        table = hidden(name, given.seed)
        if given.virtual:
            rows += rows_of(modelled_device(table, seed=4), name, given.minutes * 60)
            continue
        found = emulated_rows(name, table, given.minutes * 60, given.tries)
        spoilt += [] if found else [name]
        rows += found
    show(rows)
    good = sum(row.good for row in rows)
    print(f"{good} of {len(rows)} loads within {BOUNDS}")
    if spoilt:
        print(f"the machine was too busy for {', '.join(spoilt)}")
    sys.exit(1 if good < len(rows) else 2 if spoilt else 0)


if __name__ == "__main__":
    main()
