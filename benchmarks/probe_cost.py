"""What watching costs: CPU time of all default probes per sample, as a share of one core at two
intervals.

    python benchmarks/probe_cost.py

Bound: 1 % of a core at 0.1 s (a trial's default is 1 s).
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from headrace import probes
from headrace.probes import Watch

SAMPLES = 2000
BOUND = 0.01


def main() -> int:
    devices = tuple(sorted(path.name for path in Path("/sys/block").iterdir())[:4])
    watch = Watch(devices, (), None, Path(tempfile.gettempdir()), interfaces=("lo",))
    whole_s = 0.0
    for kind, part in probes.kinds().items():
        probe = part()
        if not part.default or probe.check():
            continue
        probe.start(watch)
        cpu, wall = time.thread_time(), time.monotonic()
        for _ in range(SAMPLES):
            probe.sample()
        cpu_s, wall_s = (time.thread_time() - cpu) / SAMPLES, (time.monotonic() - wall) / SAMPLES
        probe.finish()
        whole_s += cpu_s
        print(f"{kind:10} {1e6 * cpu_s:7.1f} us CPU, {1e6 * wall_s:7.1f} us wall a sample")
    for interval_s in (1.0, 0.1):
        print(f"all at {interval_s:g} s: {100 * whole_s / interval_s:.3f} % of a core")
    return 0 if whole_s / 0.1 <= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
