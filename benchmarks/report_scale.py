"""A report of 10 000 recorded trials: under 10 s, under 1 GB of memory.

Makes the records once, through the real store, then runs `headrace report` on them as a user does.
Prints wall time, CPU time and the peak of memory; the records lie in memory, so that the disk is
not what is measured.

    python benchmarks/report_scale.py [--trials 10000] [--folder DIR]

Exit code 0: within both bounds, 1: outside one.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from figures import SMALL, note

from synthetic_records import Truth, plan_of, write_results

WALL_S, MEMORY_BYTES = 10.0, 1e9


def make_records(folder: Path, trials: int) -> Path:
    """Two targets, three filesystems, four schedulers, many read-aheads, seven slot counts, three
    repeats. In small only two schedulers and slot counts."""
    few = 2 if SMALL else None
    kept = (
        ["disk", "ssd"],
        ["ext3", "ext4", "xfs"],
        ["none", "mq-deadline", "bfq", "kyber"][:few],
        [1, 2, 4, 8, 12, 16, 24][:few],
    )
    steps = -(-trials // (3 * math.prod(map(len, kept))))
    names = ("target", "filesystem", "scheduler", "slots", "read_ahead")
    cells = [
        {"workload": "analysis", **dict(zip(names, levels, strict=True))}
        for levels in itertools.product(*kept, [4096 * (step + 1) for step in range(steps)])
    ]
    truth = Truth(effects={"filesystem": {"ext3": -0.1}}, whole_plot_sigma=0.02, trial_sigma=0.02)
    return write_results(folder / "results", plan_of(cells, 3, ("target", "filesystem")), truth)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=72 if SMALL else 10_000)
    parser.add_argument(
        "--folder", type=Path, default=Path("/dev/shm") if Path("/dev/shm").is_dir() else None
    )
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder, prefix="headrace-scale-") as name:
        results = make_records(Path(name), asked.trials)
        count = sum(1 for _ in (results / "trials").iterdir())
        program = shutil.which("headrace", path=str(Path(sys.executable).parent)) or "headrace"
        begin = time.monotonic()
        child = os.posix_spawn(
            program,
            [program, "report", str(results)],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
        )
        _, status, usage = os.wait4(child, 0)
        wall_s = time.monotonic() - begin
    memory = usage.ru_maxrss * 1024
    cpu_s = usage.ru_utime + usage.ru_stime
    note("report", cpu_s)
    print(
        f"{count} trials: report in {wall_s:.1f} s ({cpu_s:.1f} s of CPU), peak memory "
        f"{memory / 1e6:.0f} MB, exit {os.waitstatus_to_exitcode(status)}"
    )
    print(
        f"bounds: {WALL_S:.0f} s, {MEMORY_BYTES / 1e6:.0f} MB; load average "
        f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs"
    )
    return (
        0
        if os.waitstatus_to_exitcode(status) == 0 and wall_s < WALL_S and memory < MEMORY_BYTES
        else 1
    )


if __name__ == "__main__":
    sys.exit(main())
