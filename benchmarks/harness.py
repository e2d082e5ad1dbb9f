"""What Headrace costs the jobs that it watches: three ratios, each from one run on this machine.

1. efficiency of a CPU-only job, slots = cores: at least 0.98;
2. CPU that the harness itself takes while jobs run: below 1 % of a core. It is what longer jobs
   cost more than shorter ones in otherwise equal studies, by the time that they are longer; what a
   trial costs before and after its jobs is printed beside it;
3. `scan` with N slots against N bare uproot scripts released together by hand: at least 0.97 of
   their speed.

Run it on an otherwise idle machine: `python benchmarks/harness.py`.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import headrace
from headrace.units import format_seconds

CORES = len(os.sched_getaffinity(0))
ROUNDS = 5

BUSY = """
headrace = 1
title = "busy"
[target.here]
kind = "path"
path = "."
[workload.busy]
kind = "command"
command = [
    "{python}", "-c",
    "import time\\nend = time.process_time() + {seconds}\\nwhile time.process_time() < end: pass",
]
[run]
slots = {cores}
cache = "as-is"
[plan]
repeats = {{ min = {rounds} }}
"""

SCAN = """
headrace = 1
title = "scan"
[target.here]
kind = "path"
path = "."
[workload.scan]
kind = "scan"
data = {{ events = {events}, files = {cores} }}
[run]
slots = {cores}
cache = "warm"
[plan]
repeats = {{ min = {rounds} }}
"""

BARE = """
import sys, time
import awkward as ak, hist, numpy as np, uproot
file = sys.argv[1]
def scan(stop):
    histogram = hist.Hist(hist.axis.Regular(100, 0, 200))
    tree = uproot.open({file: None})["Events"]
    for chunk in tree.iterate(["Muon_pt"], step_size=10_000, entry_stop=stop):
        histogram.fill(np.asarray(ak.ravel(chunk["Muon_pt"]), np.float64))
scan(1000)
print("ready", flush=True)
sys.stdin.readline()
begin = time.monotonic()
scan(None)
print(begin, time.monotonic(), flush=True)
"""


def own_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def run(text: str, place: Path, name: str) -> Path:
    file = place / f"{name}.toml"
    file.write_text(text)
    return headrace.load_study(file).run(place / name)


def busy(place: Path, seconds: int) -> tuple[float, float, float]:
    """Of CPU-only jobs that take so long.

    Job efficiency, the harness's CPU seconds, seconds that jobs ran.
    """
    before = own_cpu_s()
    text = BUSY.format(python=sys.executable, cores=CORES, rounds=ROUNDS, seconds=seconds)
    results = run(text, place, f"busy-{seconds}")
    cost_s = own_cpu_s() - before
    jobs = headrace.records(results).df()
    ran_s = sum(
        float(json.loads(file.read_text())["last_done_s"])
        for file in results.glob("trials/*/trial.json")
    )
    shares = (jobs["user_s"] + jobs["system_s"]) / jobs["wall_s"]
    return float(shares.median()), cost_s, ran_s


def efficiency(place: Path) -> tuple[float, float, float]:
    """Job efficiency of CPU-only jobs.

    The harness's CPU as a share of a core while they ran; CPU seconds a trial beside that.
    """
    busy(place, 1)  # what is imported once counts for no trial
    _, short_cost_s, short_s = busy(place, 2)
    share, long_cost_s, long_s = busy(place, 10)
    running = (long_cost_s - short_cost_s) / (long_s - short_s)
    return share, running, (short_cost_s - running * short_s) / ROUNDS


def bare(files: list[str]) -> float:
    """Seconds from the release of bare scripts to the end of the last."""
    scripts = [
        subprocess.Popen(
            [sys.executable, "-c", BARE, file],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for file in files
    ]
    for script in scripts:
        assert script.stdout is not None and script.stdout.readline().strip() == "ready"
    for script in scripts:
        assert script.stdin is not None
        script.stdin.write("go\n")
        script.stdin.flush()
    times = [tuple(map(float, script.communicate()[0].split())) for script in scripts]
    return max(end for _, end in times) - min(begin for begin, _ in times)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="headrace-benchmark-", dir="/var/tmp") as made:
        place = Path(made)
        share, cost, each_s = efficiency(place)
        print(
            f"CPU-only jobs, {CORES} slots on {CORES} cores: job efficiency {share:.4f} (wanted: "
            f"at least 0.98)"
        )
        print(
            f"harness while they ran: {100 * cost:.2f} % of a core (wanted: below 1 %); "
            f"to plan, start and record a trial: {format_seconds(each_s)} of CPU"
        )
        results = run(
            SCAN.format(events=600_000 * CORES, cores=CORES, rounds=ROUNDS), place, "scan"
        )
        files = sorted(str(path) for path in place.glob(".headrace/datasets/*/*.root"))[:CORES]
        scans, bares = [], []
        trials = sorted(results.glob("trials/*/trial.json"))
        for trial in trials:
            scans.append(float(json.loads(trial.read_text())["last_done_s"]))
            bares.append(bare(files))
            time.sleep(0.2)
        ratio = statistics.median(bares) / statistics.median(scans)
        print(
            f"scan, {CORES} slots: {format_seconds(statistics.median(scans))}; as many bare "
            f"uproot scripts: "
            f"{format_seconds(statistics.median(bares))}; ratio {ratio:.3f} (wanted: at least 0.97)"
        )


if __name__ == "__main__":
    main()
