"""What `headrace record` costs the job that it records, and how far a replay keeps to the recorded
time: on this machine, in one run.

1. CPU time and wall time of the analysis workload (a warm file, imports done before) with the
   recorder preloaded against without, in turn, medians of several: the goal is below 3 %;
2. the time of one recorded read against a plain one, in a loop of cached reads: the worst that a
   program can see;
3. CPU time of `dd` with blocks of 512 bytes, recorded over not recorded, in turn, medians: the goal
   is 1.5;
4. a replay of the recorded job on the same files, against the recorded time: the goal is within 5
   %.

Run it on an otherwise idle machine: `python benchmarks/recorder_overhead.py`.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import SMALL, note

from headrace.datasets import DatasetSpec, materialise
from headrace.profiles.arena import Arena
from headrace.profiles.preloading import preloaded
from headrace.profiles.recorder import record
from headrace.profiles.steps import save
from headrace.workloads import JobInput
from headrace.workloads.replay import Replay, ReplayOptions

ANALYSIS = """
import sys, time
from pathlib import Path
from headrace.datasets import DatasetSpec
from headrace.workloads import JobInput, kinds
part = kinds()["analysis"]
spec = DatasetSpec.model_validate({"events": int(sys.argv[2]), "files": 1})
job = part("analysis", part.Options.model_validate({"data": spec}))
job.warm()
file = JobInput((sys.argv[1],), None, Path("/nonexistent"), slot=0, slots=1, seed=0)
job.run(file)
wall, cpu = time.perf_counter(), time.process_time()
job.run(file)
print(time.perf_counter() - wall, time.process_time() - cpu)
"""

LOOP = """
import os, sys, time
fd, reads = os.open(sys.argv[1], os.O_RDONLY), int(sys.argv[2])
for _ in range(2):
    begin = time.process_time()
    for n in range(reads): os.pread(fd, 4096, 0)
    took = time.process_time() - begin
print(took / reads * 1e9, 0)
"""

READS = 2_000 if SMALL else 200_000
BLOCKS = 10_000 if SMALL else 1_000_000


def run(code: str, arguments: list[str], recorded: bool) -> tuple[float, float]:
    """The two numbers that a program prints, run with or without the recorder."""
    command = [sys.executable, "-c", code, *arguments]
    with (
        tempfile.TemporaryDirectory() as directory,
        Arena([Path(directory)]) as arena,
        preloaded(arena) as there,
    ):
        environment = there if recorded else None
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    first, second = ended.stdout.split()
    return float(first), float(second)


def dd_cpu_s(recorded: bool) -> float:
    """CPU seconds of `dd`, which writes blocks of 512 bytes into memory."""
    with (
        tempfile.TemporaryDirectory() as directory,
        tempfile.NamedTemporaryFile(dir="/dev/shm") as out,
        Arena([Path(directory)]) as arena,
        preloaded(arena) as there,
    ):
        command = ["dd", "if=/dev/zero", f"of={out.name}", "bs=512", f"count={BLOCKS}"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env=there if recorded else None, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000 if SMALL else 60_000)
    parser.add_argument("--rounds", type=int, default=1 if SMALL else 5)
    given = parser.parse_args()
    print(f"load of the machine: {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        file = materialise(DatasetSpec.model_validate({"events": given.events, "files": 1}), place)[
            0
        ]
        pairs = [
            (
                run(ANALYSIS, [str(file), str(given.events)], False),
                run(ANALYSIS, [str(file), str(given.events)], True),
            )
            for _ in range(given.rounds)
        ]
        for index, name in ((0, "wall time"), (1, "CPU time")):
            plain = statistics.median(each[0][index] for each in pairs)
            seen = statistics.median(each[1][index] for each in pairs)
            print(
                f"analysis, {name}: {plain:.3f} s, recorded {seen:.3f} s: {seen / plain - 1:+.2%} "
                f"(goal: below 3 %)"
            )
            note(f"recorder analysis{'' if index else ' wall'}", seen / plain - 1)
        arguments = [str(file), str(READS)]
        (plain_ns, _), (seen_ns, _) = (run(LOOP, arguments, each) for each in (False, True))
        note("recorder read", seen_ns / plain_ns)
        print(f"a cached read of 4 KiB: {plain_ns:.0f} ns of CPU, recorded {seen_ns:.0f} ns")
        pairs_s = [(dd_cpu_s(False), dd_cpu_s(True)) for _ in range(given.rounds)]
        plain_s, seen_s = (statistics.median(each) for each in zip(*pairs_s, strict=True))
        print(
            f"dd bs=512: {plain_s:.3f} s of CPU, recorded {seen_s:.3f} s: "
            f"{seen_s / plain_s:.2f} times (goal: 1.5)"
        )
        found = record(
            [sys.executable, "-c", ANALYSIS, str(file), str(given.events)], "analysis", place
        )
        profile = place / "analysis.toml"
        save(found.recording, profile)
        options = ReplayOptions.model_validate({"profile": str(profile), "place": "recorded"})
        scratch = place / "scratch"
        scratch.mkdir()
        output = Replay("job", options).run(JobInput((), None, scratch, slot=0, slots=1, seed=0))
        recorded_s, replayed_s = output.results["recorded_s"], output.results["replayed_s"]
        waited_s = found.recording.cpu_wait_ns * 1e-9
        print(
            f"replay: {replayed_s:.3f} s, recorded {recorded_s:.3f} s, of which {waited_s:.3f} s "
            f"waiting for a CPU:"
            f" {replayed_s / (recorded_s - waited_s) - 1:+.2%} of the rest (goal: within 5 %)"
        )


if __name__ == "__main__":
    main()
