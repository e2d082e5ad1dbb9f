"""Events of a block trace summed up a second of CPU on one core, beside blkparse and btt on the
same trace in one run.

The trace is a real one (tests/golden/traces: random reads and writes of fio, sixteen in flight),
repeated until it is long. Ours is `crates/blocktrace` with everything that `headrace trace show`
says; blkparse prints its sums alone (`-q -O`), btt its averages. btt reads the CPUs' files as
one, merged by `blkparse -d`; that merging is blkparse's and not counted as btt's.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from figures import note

ROOT = Path(__file__).parents[1]
REAL = sorted((ROOT / "tests" / "golden" / "traces").glob("random.blktrace.*"))
EVENTS = int(os.environ.get("EVENTS", "6000000"))
RECORD_BYTES = 48


def events_of(file: Path) -> np.ndarray:
    """The records without a payload, as rows of bytes."""
    raw, rows, at = file.read_bytes(), [], 0
    while at + RECORD_BYTES <= len(raw):
        payload = int.from_bytes(raw[at + 46 : at + 48], "little")
        if not payload:
            rows.append(raw[at : at + RECORD_BYTES])
        at += RECORD_BYTES + payload
    return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, RECORD_BYTES)


def lengthen(place: Path) -> tuple[list[Path], int]:
    """Writes the real trace again and again, each time later."""
    parts = [events_of(file) for file in REAL]
    times = [np.ascontiguousarray(part[:, 8:16]).view(np.uint64) for part in parts]
    span = (
        max(int(time.max()) for time in times) - min(int(time.min()) for time in times) + 1_000_000
    )
    repeats = max(1, EVENTS // sum(len(part) for part in parts))
    files = []
    for cpu, (part, time) in enumerate(zip(parts, times, strict=True)):
        files.append(place / f"long.blktrace.{cpu}")
        with files[-1].open("wb") as out:
            for repeat in range(repeats):
                rows = part.copy()
                rows[:, 8:16] = (time + np.uint64(repeat * span)).view(np.uint8).reshape(-1, 8)
                rows.tofile(out)
    return files, repeats * sum(len(part) for part in parts)


def cpu_s(argv: list[str], place: Path) -> tuple[float, str]:
    """CPU seconds of a program and what it said.

    It runs in `place`, where btt leaves files of its own.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = subprocess.run(argv, check=True, capture_output=True, text=True, cwd=place).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, said


def main() -> None:
    build = [
        "cargo",
        "build",
        "--release",
        "-q",
        "-p",
        "headrace-blocktrace",
        "--example",
        "trace_speed",
    ]
    subprocess.run(build, cwd=ROOT, check=True)
    own = (
        Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        / "release"
        / "examples"
        / "trace_speed"
    )
    with tempfile.TemporaryDirectory(prefix="headrace-trace-", dir="/dev/shm") as made:
        place = Path(made)
        files, events = lengthen(place)
        print(f"{events:,} events, {sum(file.stat().st_size for file in files) / 1e6:.0f} MB")
        ours = min(cpu_s([str(own), *map(str, files)], place)[0] for _ in range(3))
        print(
            f"headrace, summed up   {events / ours / 1e6:7.2f} M events per CPU second (goal: 40)"
        )
        tiles = min(cpu_s([str(own), "--tiles", *map(str, files)], place)[0] for _ in range(3))
        print(f"headrace, pictures    {events / tiles / 1e6:7.2f} M events per CPU second")
        if shutil.which("blkparse") is None or shutil.which("btt") is None:
            note("trace", events / ours)
            print("blkparse and btt are not installed (apt-get install blktrace)")
            sys.exit(3)
        merged = place / "merged"
        parse_s, _ = cpu_s(["blkparse", "-q", "-O", "-i", str(place / "long")], place)
        cpu_s(["blkparse", "-q", "-O", "-i", str(place / "long"), "-d", str(merged)], place)
        btt_s, _ = cpu_s(["btt", "-i", str(merged), "-o", str(place / "btt")], place)
        note("trace", events / ours, {"blkparse": events / parse_s, "btt": events / btt_s})
        for name, spent_s in (("blkparse", parse_s), ("btt", btt_s)):
            print(
                f"{name:20}  {events / spent_s / 1e6:7.2f} M events per CPU second; ours "
                f"{spent_s / ours:.1f} times as fast"
            )


if __name__ == "__main__":
    main()
