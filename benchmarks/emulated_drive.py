"""Is an emulated drive as fast as the simulated one? fio on the block device against the model,
given the same requests.

IOPS, p50 and p99 of response times have to lie within 4 % for disks and 15 % for SSDs. And what the
emulator can do without a drive: 100 000 IOPS at 4 KiB, 2 GB/s at 1 MiB, 25 us at queue depth 1. A
p99 is compared where at least 500 requests were measured. Needs root and an otherwise idle machine:
each row shows how many answers were past their bound.

    python benchmarks/emulated_drive.py [--only disk|ssd|undelayed] [--runtime 8] [--json FILE]

Exit code 0: within the bounds, 1: outside them, 2: the machine was too busy to tell (answers
past their bound).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headrace import _core
from headrace.catalog import entry
from headrace.drives import read_trace, replay_trace
from headrace.drives.traces import Trace
from headrace.system import emulator
from headrace.system.emulator import EmulatedDevice, QueueShape, Report
from headrace.system.journal import Journal
from headrace.system.owned import work_directory

SIZE = 2 << 30
BOUND = {"hdd": 0.04, "ssd": 0.15}
LEAST_FOR_P99 = 500


@dataclass(frozen=True)
class Point:
    """One load on one drive."""

    drive: str
    rw: str
    bs: int
    depth: int


DISK, SSD, DEEP_SSD = "seagate-st3750640ns", "mtron-msp-sata7035064", "intel-x25-m-g2-160gb"
DISKS = [
    Point(DISK, rw, 4096, depth) for rw in ("randread", "randwrite") for depth in (1, 4, 32)
] + [Point(DISK, rw, 65536, depth) for rw in ("read", "write") for depth in (1, 32)]
SSDS = (
    [Point(SSD, rw, 4096, depth) for rw in ("randread", "randwrite") for depth in (1, 4)]
    + [Point(DEEP_SSD, rw, 4096, depth) for rw in ("randread", "randwrite") for depth in (1, 8, 32)]
    + [Point(DEEP_SSD, "read", 65536, depth) for depth in (1, 8)]
)


@contextmanager
def attached(drive: str, depth: int, size: int = SIZE) -> Generator[EmulatedDevice]:
    """A new one, so that its model has done nothing yet."""
    with Journal.open("benchmark of emulated drives") as journal:
        directory, _ = work_directory(journal, Path(tempfile.gettempdir()))
        storage: dict[str, Any] = {"drives": [entry("drives", drive).table]} if drive else {}
        rotational = bool(drive) and storage["drives"][0]["kind"] == "hdd"
        shape = QueueShape(max(4, depth), "none", 128 << 10, rotational)
        device = emulator.attach(journal, storage, size, directory, seed=0, queue=shape)
        (Path("/sys/block") / device.name / "queue" / "nomerges").write_text("2")
        try:
            yield device
        finally:
            (Path("/sys/block") / device.name / "queue" / "nomerges").write_text("0")
            device.detach()


@contextmanager
def bare_loop() -> Generator[Path]:
    """A loop device over memory: the part of an emulated drive's way that is the kernel's alone."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        file.truncate(256 << 20)
        subprocess.run(
            ["dd", "if=/dev/zero", f"of={file.name}", "bs=1M", "count=256", "conv=notrunc"],
            check=True,
            capture_output=True,
        )
        argv = ["losetup", "--find", "--show", "--direct-io=on", file.name]
        device = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
        try:
            yield Path(device)
        finally:
            subprocess.run(["losetup", "--detach", device], check=True)


def fio(
    device: Path, point: Point, runtime_s: float, size: int = SIZE, requests: Path | None = None
) -> dict[str, Any]:
    """Results of its only job and direction; `requests`: where to write what it asked for."""
    options = {
        "filename": device,
        "rw": point.rw,
        "bs": point.bs,
        "iodepth": point.depth,
        "size": size,
        "runtime": runtime_s,
        "ioengine": "libaio",
        "direct": 1,
        "time_based": 1,
        "norandommap": 1,
        "lat_percentiles": 1,
        "percentile_list": "50:99",
        "output-format": "json",
    }
    if requests is not None:
        options["write_iolog"] = requests
    argv = ["fio", "--name=benchmark", *(f"--{name}={value}" for name, value in options.items())]
    said = subprocess.run(
        argv, capture_output=True, text=True, check=True, timeout=60 + 2 * runtime_s
    ).stdout
    return json.loads(said[said.index("{") :])["jobs"][0][
        "write" if "write" in point.rw else "read"
    ]


def fill(device: EmulatedDevice) -> None:
    """Writes all of it once, so that there is data to read and its memory has been taken. An SSD
    full of data, without TRIM, cleans meanwhile: minutes."""
    argv = [
        "fio",
        "--name=fill",
        f"--filename={device.device}",
        "--rw=write",
        "--bs=1M",
        "--direct=1",
    ]
    subprocess.run(argv, capture_output=True, check=True, timeout=600)


def filled_before(trace: Trace) -> Trace:
    """Return the trace after the writes of `fill`.

    Where data are on flash decides how many channels serve a read.
    """
    count = SIZE >> 20
    sectors = (1 << 20) // _core.SECTOR_BYTES
    return Trace(
        trace.file,
        np.concatenate([np.zeros(count, np.uint64), trace.time_ns]),
        np.concatenate([np.ones(count, np.uint8), trace.op]),
        np.concatenate([np.arange(count, dtype=np.uint64) * np.uint64(sectors), trace.sector]),
        np.concatenate([np.full(count, sectors, np.uint32), trace.sectors]),
    )


@dataclass(frozen=True)
class Row:
    """A point, emulated and simulated."""

    point: Point
    requests: int
    iops: tuple[float, float]
    p50_ns: tuple[float, float]
    p99_ns: tuple[float, float]
    report: Report

    def errors(self) -> dict[str, float]:
        """Relative, of each figure that counts."""
        pairs = {"iops": self.iops, "p50": self.p50_ns}
        if self.requests >= LEAST_FOR_P99:
            pairs["p99"] = self.p99_ns
        return {name: got / wanted - 1 for name, (got, wanted) in pairs.items()}


def compare(point: Point, runtime_s: float) -> Row:
    """One row."""
    found = entry("drives", point.drive)
    with tempfile.TemporaryDirectory() as directory:
        requests = Path(directory) / "requests.log"
        with attached(point.drive, int(found.table.get("queue_depth", 32))) as device:
            if "read" in point.rw:
                fill(device)
            device.reset_report()
            got = fio(device.device, point, runtime_s, requests=requests)
            report = device.report()
        # The same places in the same order, so that nothing but the emulator makes a difference.
        trace = read_trace(requests)
    wanted = len(trace)
    if "read" in point.rw:
        trace = filled_before(trace)
    model_ns = replay_trace(found, trace, iodepth=point.depth)[-wanted:]
    percentile = got["lat_ns"]["percentile"]
    p50_ns, p99_ns = (float(value) for value in np.percentile(model_ns, (50, 99)))
    return Row(
        point,
        got["total_ios"],
        # As many in flight at any time as there may be: Little's law.
        (got["iops"], point.depth / (float(model_ns.mean()) * 1e-9)),
        (percentile["50.000000"], p50_ns),
        (percentile["99.000000"], p99_ns),
        report,
    )


def drives(points: list[Point], runtime_s: float, rows: list[dict[str, Any]]) -> list[str]:
    """Runs them all; verdicts."""
    verdicts: list[str] = []
    print(
        f"{'drive':24}{'load':>10}{'bs':>7}{'qd':>4}{'IOPS':>10}{'simulated':>10}  IOPS     p50   "
        f"  p99   late p99  past bound"
    )
    for point in points:
        row = compare(point, runtime_s)
        bound = BOUND[entry("drives", point.drive).table["kind"]]
        errors = row.errors()
        worst = max(abs(error) for error in errors.values())
        verdict = "pass" if worst <= bound else "busy" if not row.report.trustworthy else "FAIL"
        verdicts.append(verdict)
        shown = "".join(
            f"{errors[name]:+8.1%}" if name in errors else f"{'-':>8}"
            for name in ("iops", "p50", "p99")
        )
        print(
            f"{point.drive:24}{point.rw:>10}{point.bs:>7}{point.depth:>4}{row.iops[0]:>10.1f}{row.iops[1]:>10.1f}{shown}"
            f"{row.report.lateness_ns.p99 / 1e3:>8.0f} us{row.report.late_share:>10.2%}  {verdict}",
            flush=True,
        )
        rows.append({**asdict(row), "errors": errors, "verdict": verdict})
    return verdicts


def undelayed(runtime_s: float, rows: list[dict[str, Any]]) -> list[str]:
    """The emulator without a drive."""
    verdicts: list[str] = []
    least = Point("", "randread", 4096, 1)
    with attached("", 128) as device:
        # While one is attached: CPUs then fall asleep as they do below it.
        with bare_loop() as bare:
            latency_ns = fio(bare, least, runtime_s, 256 << 20)["lat_ns"]["percentile"]
        median_us, p99_us = (float(latency_ns[at]) / 1e3 for at in ("50.000000", "99.000000"))
        print(
            f"  bare loop device over memory, randread 4096, depth 1: p50 {median_us:.1f} us, p99 "
            f"{p99_us:.1f} us"
        )
        rows.append(
            {"point": asdict(least), "what": "bare loop", "p50_us": median_us, "p99_us": p99_us}
        )
        fill(device)
        cases = [
            (least, "floor", 25.0, "us"),
            (Point("", "randread", 4096, 32), "IOPS", 100_000.0, "/s"),
            (Point("", "randwrite", 4096, 32), "IOPS", 100_000.0, "/s"),
            (Point("", "read", 1 << 20, 8), "rate", 2.0, "GB/s"),
            (Point("", "write", 1 << 20, 8), "rate", 2.0, "GB/s"),
        ]
        for point, what, wanted, unit in cases:
            got = fio(device.device, point, runtime_s)
            median_us = float(got["lat_ns"]["percentile"]["50.000000"]) / 1e3
            value = {
                "floor": median_us,
                "IOPS": float(got["iops"]),
                "rate": float(got["bw_bytes"]) / 1e9,
            }[what]
            good = value <= wanted if what == "floor" else value >= wanted
            verdicts.append("pass" if good else "FAIL")
            print(
                f"{point.rw:>10}{point.bs:>9}{point.depth:>4}  {what} {value:,.1f} {unit} (wanted "
                f"{wanted:,}) {verdicts[-1]}"
            )
            rows.append({"point": asdict(point), "what": what, "value": value, "wanted": wanted})
    return verdicts


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("disk", "ssd", "undelayed"))
    parser.add_argument("--runtime", type=float, default=8.0, help="seconds a point")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    rows: list[dict[str, Any]] = []
    verdicts: list[str] = []
    if asked.only in (None, "undelayed"):
        verdicts += undelayed(min(asked.runtime, 3.0), rows)
    if asked.only in (None, "ssd"):
        verdicts += drives(SSDS, min(asked.runtime, 4.0), rows)
    if asked.only in (None, "disk"):
        verdicts += drives(DISKS, asked.runtime, rows)
    if asked.json is not None:
        asked.json.write_text(json.dumps(rows, indent=1))
    return 1 if "FAIL" in verdicts else 2 if "busy" in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
