"""CPU time of `headrace watch` per second for 100 jobs at 1 s, in shares of one CPU.

    python benchmarks/watch_cost.py            # prints one line per case
    python benchmarks/watch_cost.py --jobs 400 --interval 5

Jobs sleep and read a little in turn, so the machine's CPUs stay free and every source is read. The
goal is 0.5 % of a CPU for 100 jobs; docs/watch.md has what was measured.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

from headrace.cli._watch_show import Show
from headrace.watching import Watcher, finder_kinds

_JOB = """
import os, time
handle = os.open("/etc/passwd", os.O_RDONLY)
while True:
    time.sleep(0.02)
    os.pread(handle, 4096, 0)
"""
GOAL = 0.005


def measured(names: list[str], looks: int, interval_s: float, *, show: bool) -> float:
    """Return the median CPU time per second, of looks, samples and the table."""
    shown = Show(as_json=False, live=False, once=True)
    spent: list[float] = []
    with Watcher(finder_kinds()["pid"](names)) as watcher:
        for _ in range(looks):
            before_s, wall_s = time.process_time(), time.monotonic()
            sample = watcher.watch(interval_s)
            if show:
                shown.add(sample)
            spent.append((time.process_time() - before_s) / (time.monotonic() - wall_s))
    return statistics.median(spent[1:])


def main() -> None:
    """Print the cost by number of jobs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--interval", type=float, default=1.0)
    parser.add_argument("--looks", type=int, default=15)
    given = parser.parse_args()
    jobs = [subprocess.Popen([sys.executable, "-c", _JOB]) for _ in range(given.jobs)]
    try:
        time.sleep(2.0)
        names = [str(job.pid) for job in jobs]
        for count in (1, given.jobs):
            for show in (False, True):
                share = measured(names[:count], given.looks, given.interval, show=show)
                what = "with table" if show else "no table"
                verdict = "" if share <= GOAL else "  above the goal"
                print(f"{count:>4} jobs, {what:<10} {100 * share:.2f} %{verdict}", file=sys.stderr)
    finally:
        for job in jobs:
            job.kill()
            job.wait()


if __name__ == "__main__":
    main()
