"""CPU time of `headrace watch` per second for 100 jobs at 1 s, in shares of one CPU.

    python benchmarks/watch_cost.py            # prints one line per case
    python benchmarks/watch_cost.py --jobs 400 --interval 5

Jobs sleep and read a little in turn, so the machine's CPUs stay free and every source is read. Of
`sleep`ing jobs only that they have not run is read. As root the jobs are also watched by control
groups of their own. The table is that of a terminal of 80 columns and 24 lines, or of a pipe, which
gets every job. The goal is 0.5 % of a CPU for 100 jobs; docs/performance.md has what was measured.
"""

from __future__ import annotations

import argparse
import gc
import io
import statistics
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout, suppress
from os import environ, geteuid

from headrace.cli._watch_show import Show
from headrace.watching import Watcher, finder_kinds
from headrace.watching.finders.cgroup import cgroup_mounts

_JOB = """
import os, time
handle = os.open("/etc/passwd", os.O_RDONLY)
while True:
    time.sleep(0.02)
    os.pread(handle, 4096, 0)
"""
_SLEEP = "import time; time.sleep(3600)"
GOAL = 0.005
SHOWN = ("json", "terminal", "pipe")


def measured(kind: str, names: list[str], looks: int, interval_s: float, shown: str) -> float:
    """Return the median CPU time per second, of looks, samples and what is shown of them."""
    show = Show(as_json=shown == "json", live=shown == "terminal", once=True)
    spent: list[float] = []
    with Watcher(finder_kinds()[kind](names), pressure=shown == "json") as watcher:
        for _ in range(looks):
            before_s, wall_s = time.process_time(), time.monotonic()
            with redirect_stdout(io.StringIO()):
                show.add(watcher.watch(interval_s))
            spent.append((time.process_time() - before_s) / (time.monotonic() - wall_s))
    return statistics.median(spent[1:])


@contextmanager
def running(program: str, count: int) -> Generator[list[str]]:
    """Run jobs of a program; give their process ids."""
    jobs = [subprocess.Popen([sys.executable, "-S", "-c", program]) for _ in range(count)]
    try:
        time.sleep(2.0)
        yield [str(job.pid) for job in jobs]
    finally:
        for job in jobs:
            job.kill()
            job.wait()


@contextmanager
def grouped(pids: list[str]) -> Generator[list[str]]:
    """Put each process into a control group of its own; give the groups."""
    top = cgroup_mounts()[0]
    groups = [top / f"headrace-watch-cost-{pid}" for pid in pids]
    try:
        for group, pid in zip(groups, pids, strict=True):
            group.mkdir()
            (group / "cgroup.procs").write_text(pid)
        yield [str(group) for group in groups]
    finally:
        for group, pid in zip(groups, pids, strict=True):
            with suppress(OSError):
                (top / "cgroup.procs").write_text(pid)
            with suppress(OSError):
                group.rmdir()


def main() -> None:
    """Print the cost by number of jobs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--interval", type=float, default=1.0)
    parser.add_argument("--looks", type=int, default=15)
    given = parser.parse_args()
    environ.update(COLUMNS="80", LINES="24")
    gc.set_threshold(50_000, 20, 100)  # as `headrace` itself (cli/__init__.py)

    def tell(what: str, kind: str, names: list[str], shown: str) -> None:
        share = measured(kind, names, given.looks, given.interval, shown)
        verdict = "" if share <= GOAL else "  above the goal"
        print(f"{len(names):>4} {what}, {shown:<8} {100 * share:.2f} %{verdict}")

    with running(_JOB, given.jobs) as pids:
        for shown in SHOWN:
            tell("jobs that read  ", "pid", pids, shown)
        tell("job that reads  ", "pid", pids[:1], "terminal")
        if geteuid() == 0:
            with grouped(pids) as groups:
                tell("control groups  ", "cgroup", groups, "terminal")
    with running(_SLEEP, given.jobs) as pids:
        tell("jobs that sleep ", "pid", pids, "terminal")


if __name__ == "__main__":
    main()
