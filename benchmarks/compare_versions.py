"""What this version costs beside another one: CPU seconds of the same work in both, in one run.

The versions take turns, so that a busy machine slows both alike, and the least CPU time of the
rounds counts. Both trees must be set up (`scripts/setup` in each) and have built their examples
(`cargo build --release --examples --workspace --exclude headrace-python`):

    git worktree add --detach /var/tmp/other COMMIT
    python benchmarks/compare_versions.py /var/tmp/other [--rounds 5] [--only WORD]

Each measurement is a program that runs with the tree's Python in the tree's folder. It prints the
CPU seconds and the amount of work, so that versions are compared by the cost of a unit of work.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from trace_speed import lengthen

ROOT = Path(__file__).parents[1]

BEGIN = """
import json, os, resource, subprocess, sys, tempfile, time
from pathlib import Path
sys.path.insert(0, "benchmarks")
given, place = Path(sys.argv[1]), Path(sys.argv[2])
def cpu(who=resource.RUSAGE_CHILDREN):
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime
def ran(*command, allowed=(0,)):
    before = cpu()
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode in allowed, ended.stderr
    return cpu() - before, ended.stdout
def headrace(*arguments):
    return ran(str(Path(sys.executable).with_name("headrace")), *map(str, arguments))[0]
def say(seconds, work):
    print("MEASURED", json.dumps([seconds, work]))
"""

EXAMPLE = """
import re
spent, said = ran("target/release/examples/{name}", *{arguments})
"""

DRIVE = (
    EXAMPLE.format(name="drive_speed", arguments=["{file}"])
    + """
rates = [float(rate) for rate in re.findall(r"([\\d.]+) M requests", said)]
say(sum(1 / rate for rate in rates), len(rates) * 1e6)
"""
)

# Tables that both versions read: keys of 0.1.
DISK = {
    "kind": "hdd",
    "name": "disk",
    "capacity_bytes": 750156374016,
    "rotation_rpm": 7200,
    "heads": 8,
    "rates": {"outer_bytes_per_s": 78e6},
    "link_bytes_per_s": 300e6,
    "seek": {"curve": "sheet", "track_to_track_ms": 0.8, "average_ms": 8.5},
    "queue": {"depth": 32, "reordering": 1.0},
}
SSD = {
    "kind": "ssd",
    "name": "ssd",
    "capacity_bytes": 160041885696,
    "link_bytes_per_s": 280e6,
    "controller": {
        "read_overhead_us": 10,
        "write_overhead_us": 20,
        "read_iops_max": 35000,
        "write_iops_max": 8600,
    },
    "flash": {
        "channels": 10,
        "dies_per_channel": 2,
        "page_bytes": 4096,
        "pages_per_block": 128,
        "read_us": 50,
        "program_us": 900,
        "erase_us": 2000,
        "channel_bytes_per_s": 40e6,
    },
    "initial": {"state": "steady", "fill": 1.0},
}

SIMULATOR = (
    EXAMPLE
    + """
say(spent, int(re.search(r"(\\d+) events", said)[1]))
"""
)

TRACE = EXAMPLE + "say(spent, {events})"

STUDY = """

say(headrace("simulate", given / "study.toml", "--results", place / "results"), 1)
"""

# Exit code 1: not within the bounds, which are of an idle machine.
REPORT = """
import re
command = (sys.executable, "benchmarks/report_scale.py", "--trials", "2000")
_, said = ran(*command, allowed=(0, 1))
say(float(re.search(r"\\(([\\d.]+) s of CPU\\)", said)[1]), 1)
"""

RECORDED = """
from recorder_overhead import LOOP, run
import inspect
recorder = True
if "recorded" not in inspect.signature(run).parameters:  # 0.1: where the recorder is
    recorder = Path(sys.executable).parent.parent / "lib/headrace/libheadrace_recorder.so"
say(run(LOOP, [str(given / "study.toml")], recorder)[0] * 1e-9, 1)
"""

REPLAY = """
from headrace.profiles.recorder import record
from headrace.profiles.steps import save
from headrace.workloads import JobInput
from headrace.workloads.replay import Replay, ReplayOptions
data = place / "data"
data.write_bytes(bytes(64 << 20))
loop = "import os; fd = os.open(r'%s', os.O_RDONLY); [os.pread(fd, 4096, n * 4096 %% (60 << 20))"
loop = loop % data + " for n in range(100_000)]"
save(record([sys.executable, "-c", loop], "loop", place).recording, place / "loop.toml")
options = ReplayOptions.model_validate({"profile": str(place / "loop.toml"), "place": "recorded"})
(place / "scratch").mkdir()
job = JobInput((), None, place / "scratch", slot=0, slots=1, seed=0)
before = cpu(resource.RUSAGE_SELF)
Replay("job", options).run(job)
say(cpu(resource.RUSAGE_SELF) - before, 1)
"""

HARNESS = """
from harness import ROUNDS, busy
busy(place, 1)
say(busy(place, 2)[1], ROUNDS)
"""


@dataclass(frozen=True)
class Measurement:
    """A program and what a unit of its work is."""

    title: str
    unit: str
    code: str


def measurements(given: Path, files: list[Path], events: int) -> list[Measurement]:
    disk = DRIVE.replace("{file}", str(given / "disk.json"))
    ssd = DRIVE.replace("{file}", str(given / "ssd.json"))
    traced = [str(file) for file in files]
    thesis = SIMULATOR.format(name="cluster_speed", arguments=["thesis"])
    cluster = SIMULATOR.format(name="cluster_speed", arguments=["cluster", "100", "1"])
    summary = TRACE.format(name="trace_speed", arguments=traced, events=events)
    tiles = TRACE.format(name="trace_speed", arguments=["--tiles", *traced], events=events)
    return [
        Measurement("disk model", "request", disk),
        Measurement("SSD model", "request", ssd),
        Measurement("simulator, jobs on local disks", "event", thesis),
        Measurement("simulator, 100 nodes on one file server", "event", cluster),
        Measurement("`headrace simulate` of a study", "run", STUDY),
        Measurement("block trace, summary", "event", summary),
        Measurement("block trace, pictures", "event", tiles),
        Measurement("recorded read of 4 KiB", "read", RECORDED),
        Measurement("replay of 100 000 reads", "replay", REPLAY),
        Measurement("`headrace --help`", "start", 'say(headrace("--help"), 1)'),
        Measurement("`headrace report` of 2 000 trials", "report", REPORT),
        Measurement("harness: plan, start, watch, record", "trial", HARNESS),
    ]


def measured(tree: Path, code: str, given: Path) -> float:
    """CPU seconds of one unit of work in a tree."""
    python = tree / ".venv" / "bin" / "python"
    with tempfile.TemporaryDirectory(prefix="headrace-versions-", dir="/var/tmp") as place:
        environment = dict(os.environ, PATH=f"{python.parent}:{os.environ['PATH']}")
        ended = subprocess.run(
            [str(python), "-c", BEGIN + code, str(given), place],
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
        )
    if ended.returncode != 0:
        sys.exit(f"{tree}: {ended.stderr.strip()[-2000:]}")
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith("MEASURED")]
    seconds, work = json.loads(line.removeprefix("MEASURED"))
    return seconds / work


def readable(seconds: float) -> str:
    """Seconds in a unit that suits them."""
    for limit, unit in ((1e-6, "ns"), (1e-3, "us"), (1.0, "ms")):
        if seconds < limit:
            return f"{seconds / limit * 1000:.3g} {unit}"
    return f"{seconds:.3g} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="a folder with the other version")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="measurements whose title has this in it")
    asked = parser.parse_args()
    other = asked.other.resolve()
    with tempfile.TemporaryDirectory(prefix="headrace-given-", dir="/dev/shm") as folder:
        given = Path(folder)
        study = ROOT / "studies" / "worker-node-ssd" / "unstaged.toml"
        (given / "study.toml").write_text(study.read_text())
        (given / "disk.json").write_text(json.dumps(DISK))
        (given / "ssd.json").write_text(json.dumps(SSD))
        files, events = lengthen(given)
        print(f"| CPU time of | {other.name} | {ROOT.name} | ratio | ratios of the rounds |")
        print("|---|---|---|---|---|")
        for each in measurements(given, files, events):
            if asked.only not in each.title:
                continue
            rounds = [
                (measured(other, each.code, given), measured(ROOT, each.code, given))
                for _ in range(asked.rounds)
            ]
            before, after = (min(round[side] for round in rounds) for side in (0, 1))
            ratios = sorted(new / old for old, new in rounds)
            print(
                f"| {each.title}, per {each.unit} | {readable(before)} | {readable(after)} | "
                f"{after / before:.2f} | {ratios[0]:.2f} to {ratios[-1]:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
