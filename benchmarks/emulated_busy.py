"""An emulated drive beside jobs that keep all CPUs busy.

Two answers. The floor, the median time of a read without a drive at depth 1, alone and beside three
jobs that compute. And how many reads per second an emulated SSD does for a job, alone and beside
one computing job per CPU: within 10 %, or the drive's report says that it is not to be trusted.
Jobs have the scheduling policy that Headrace gives jobs on emulated drives, SCHED_IDLE. Needs root
and an otherwise idle machine.

    python benchmarks/emulated_busy.py [--runtime 4]

Exit code 0: within the bounds, 1: outside them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

from emulated_drive import DEEP_SSD, Point, attached, fill, fio
from figures import note

from headrace.system.emulator import EmulatedDevice, yield_to_kernel

FLOOR_US, IOPS_SHARE = 15.0, 0.10
LOAD = 3
SIZE = 128 << 20  # filled in seconds
DEPTHS = (8, 32)


@contextmanager
def computing(jobs: int) -> Generator[None]:
    """Jobs that compute until the block ends."""
    with ExitStack() as stack:
        for _ in range(jobs):
            job = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(job.wait)
            stack.callback(job.kill)
            yield_to_kernel(job.pid)
        yield


def floor_us(device: EmulatedDevice, runtime_s: float) -> float:
    """Median response time of a read of 4 KiB at depth 1."""
    said = fio(device.device, Point("", "randread", 4096, 1), runtime_s, SIZE)
    return float(said["lat_ns"]["percentile"]["50.000000"]) / 1e3


def floors(runtime_s: float) -> bool:
    """Print and note the floor; return whether it is within its bound beside jobs."""
    with attached("", 128, SIZE) as device:
        fill(device)
        alone = floor_us(device, runtime_s)
        with computing(LOAD):
            beside = floor_us(device, runtime_s)
    note("emulated floor", alone)
    note("emulated floor beside jobs", beside)
    print(f"floor: {alone:.1f} us alone, {beside:.1f} us beside {LOAD} computing jobs")
    return beside <= FLOOR_US


def reads_per_s(depth: int, jobs: int, runtime_s: float) -> tuple[float, str | None]:
    """Reads per second of a job on a new drive, and why its report is not to be trusted."""
    with attached(DEEP_SSD, 32, SIZE) as device:
        fill(device)
        device.reset_report()
        policy = os.sched_getscheduler(0)
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))  # which fio inherits
        try:
            with computing(jobs):
                said = fio(device.device, Point(DEEP_SSD, "randread", 4096, depth), runtime_s, SIZE)
        finally:
            os.sched_setscheduler(0, policy, os.sched_param(0))
        return float(said["iops"]), device.report().distrust


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runtime", type=float, default=4.0, help="seconds per measurement")
    runtime_s = parser.parse_args().runtime
    good = floors(runtime_s)
    worst = 0.0
    for depth in DEPTHS:
        alone, _ = reads_per_s(depth, 0, runtime_s)
        beside, distrust = reads_per_s(depth, os.cpu_count() or 1, runtime_s)
        change = beside / alone - 1
        print(
            f"{DEEP_SSD}, depth {depth}: {alone:,.0f} reads/s alone, {beside:,.0f} beside a "
            f"computing job per CPU, {change:+.1%}; {distrust or 'trusted'}"
        )
        if distrust is None:
            worst = min(worst, change)
    note("emulated SSD beside jobs", worst)
    return 0 if good and worst >= -IOPS_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
