"""A sweep of 1 000 configurations, each a study of 36 trials: the goal is 5 minutes on two cores.

`headrace.sweep` simulates them in one process, without records. Each configuration has a seed and a
size of its data of its own; its trials are 1 to 8 slots on three drives, three times each.

    python benchmarks/sweep.py [--studies 1000]

Exit code 0: within the goal, 1: outside.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from figures import SMALL, note

import headrace

GOAL_S, STUDIES = 300.0, 1000
STUDY = """
headrace = 1
[target.disk]
kind = "path"
path = "/var/tmp"
[site.node]
drives = {{ disk = "samsung-870-evo-1tb" }}
[workload.scan]
kind = "scan"
data = {{ shape = "bench", events = {events}, files = 4 }}
[factors]
slots = [1, 2, 4, 8]
"site.node.drives.disk" = ["sata-7200-500gb", "samsung-870-evo-1tb", "corsair-f40"]
[plan]
repeats = {{ min = 3 }}
seed = {seed}
"""


def main() -> int:
    """Print the time of the sweep; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=3 if SMALL else STUDIES)
    count = parser.parse_args().studies
    texts = (STUDY.format(events=120_000 + 100 * seed, seed=seed) for seed in range(count))
    before, begin, first_s, trials = os.times(), time.monotonic(), 0.0, 0
    for found in headrace.sweep(texts, base=Path.cwd()):
        first_s = first_s or time.monotonic() - begin
        trials += sum(bool(each.metrics) for each in found.trials)
    wall_s, after = time.monotonic() - begin, os.times()
    if trials != 36 * count:
        print(f"{36 * count - trials} trials have no result")
        return 1
    cpu_s = after.user + after.system - before.user - before.system
    per_1000_s = wall_s / count * STUDIES
    note("sweep", per_1000_s)
    print(
        f"{count} studies, {trials} trials: {wall_s:.1f} s ({1e3 * cpu_s / trials:.2f} ms of CPU "
        f"per trial), the first after {first_s:.2f} s; 1 000 studies: {per_1000_s:.0f} s, goal "
        f"{GOAL_S:.0f} s; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs"
    )
    return int(not SMALL and per_1000_s > GOAL_S)


if __name__ == "__main__":
    sys.exit(main())
