"""An emulated drive beside jobs that keep all CPUs busy.

Two answers. The floor, the median time of a read without a drive at depth 1, alone and beside three
jobs that compute. And whether an emulated SSD answers as its model says, alone and beside one
computing job per CPU: the mean response time that the kernel's counters of the device state lies
within 10 % of the model's, or the drive's report says that it is not to be trusted. A job that
lacks the CPU reads less as well, which is no error of the drive: the time that the kernel let the
job wait for a CPU is printed beside it. Jobs have the scheduling policy that Headrace gives jobs on
emulated drives, SCHED_IDLE. Needs root.

    python benchmarks/emulated_busy.py [--runtime 4]

Exit code 0: within the bounds, 1: outside them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulated_drive import DEEP_SSD, Point, attached, fill, fio
from figures import note

from headrace.system.emulator import EmulatedDevice, yield_to_kernel

FLOOR_US, RESPONSE_SHARE = 15.0, 0.10
LOAD = 3
SIZE = 128 << 20  # filled in seconds
DEPTHS = (1, 8, 32)


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


@dataclass(frozen=True)
class Answers:
    """What an emulated SSD did for a job."""

    reads_per_s: float
    response_us: float
    """Mean, from issue to completion, by the kernel's counters, and the floor."""
    model_us: float
    waiting_share: float
    """Part of the time for which the job was ready and had no CPU."""
    distrust: str | None

    @property
    def error(self) -> float:
        """The drive's, relative."""
        return self.response_us / self.model_us - 1

    def __str__(self) -> str:
        return (
            f"{self.reads_per_s:,.0f} reads/s; response {self.response_us:.0f} us, the model's "
            f"{self.model_us:.0f} us ({self.error:+.1%}); the job waited for a CPU for "
            f"{self.waiting_share:.0%} of the time; {self.distrust or 'trusted'}"
        )


def counted(device: EmulatedDevice) -> tuple[int, int]:
    """Reads and their milliseconds (Documentation/block/stat.rst)."""
    words = (Path("/sys/block") / device.name / "stat").read_text().split()
    return int(words[0]), int(words[3])


def fio_waiting(point: Point, device: Path, runtime_s: float) -> tuple[dict[str, Any], float]:
    """Results of fio, and the share of its time for which the process that reads had no CPU though
    it was ready (schedstat; Documentation/scheduler/sched-stats.rst)."""
    begun = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(fio, device, point, runtime_s, SIZE)
        waited: dict[int, int] = {}
        while not done.done():
            for comm in Path("/proc").glob("[0-9]*/comm"):
                with suppress(OSError):
                    if comm.read_text() == "fio\n" and str(device) in (
                        comm.with_name("cmdline").read_text()
                    ):
                        words = comm.with_name("schedstat").read_text().split()
                        waited[int(comm.parent.name)] = int(words[1])
            time.sleep(0.1)
        elapsed_s = time.monotonic() - begun
        return done.result(), max(waited.values(), default=0) * 1e-9 / elapsed_s


def answers(depth: int, jobs: int, runtime_s: float) -> Answers:
    """Answers of a new drive."""
    with attached(DEEP_SSD, 32, SIZE) as device:
        fill(device)
        device.reset_report()
        reads, before_ms = counted(device)
        policy = os.sched_getscheduler(0)
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))  # which fio inherits
        try:
            with computing(jobs):
                said, waiting = fio_waiting(
                    Point(DEEP_SSD, "randread", 4096, depth), device.device, runtime_s
                )
        finally:
            os.sched_setscheduler(0, policy, os.sched_param(0))
        after, after_ms = counted(device)
        report = device.report()
        floor_ns = report.floor_ns.read.quick_ns if report.floor_ns else 0
        return Answers(
            float(said["iops"]),
            1e3 * (after_ms - before_ms) / (after - reads) + floor_ns / 1e3,
            report.service_ns_mean / 1e3,
            waiting,
            report.distrust,
        )


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runtime", type=float, default=4.0, help="seconds per measurement")
    runtime_s = parser.parse_args().runtime
    print(f"load average before: {os.getloadavg()[0]:.1f}")
    good = floors(runtime_s)
    worst = 0.0
    for depth in DEPTHS:
        for jobs in (0, os.cpu_count() or 1):
            found = answers(depth, jobs, runtime_s)
            print(f"{DEEP_SSD}, depth {depth}, beside {jobs} computing jobs: {found}", flush=True)
            if found.distrust is None:
                worst = max(worst, abs(found.error))
    note("emulated SSD beside jobs", worst)
    return 0 if good and worst <= RESPONSE_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
