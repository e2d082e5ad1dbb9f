"""What `headrace trace` takes from the drive that it looks at: IOPS with a trace against without,
in turn, on this machine in one run.

The drive is a loop device over a file in memory, the fastest that every Linux machine has; the load
is fio's random reads of 4 KiB, direct, 32 in flight. Twice:

1. at 100 000 requests a second offered (or what `--offered` says): the goal is at most 5 % of the
   IOPS lost, and no event lost;
2. as fast as it goes, where the machine has no CPU to spare: what a request's events then cost, in
   IOPS and in CPU time.

Run it as root on an otherwise idle machine: `python benchmarks/trace_overhead.py`. It ends with
1 when the goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from headrace.system.journal import Journal
from headrace.system.loops import attach
from headrace.traces import Capture, traced_device

GOAL = 0.05


@dataclass(frozen=True)
class Seen:
    """One run of the load."""

    iops: float
    latency_ns_p50: float
    latency_ns_p99: float
    busy_s: float
    """CPU time of the whole machine, a second."""
    events: int = 0
    lost: int = 0


def busy_s() -> float:
    """CPU seconds of the whole machine since boot.

    User, nice, system, interrupts (proc(5), /proc/stat).
    """
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    return sum(int(words[at]) for at in (0, 1, 2, 5, 6)) / os.sysconf("SC_CLK_TCK")


def load(device: str, seconds: float, offered: int | None) -> Seen:
    """fio's random reads for so long."""
    argv = [
        "fio", "--name=load", f"--filename=/dev/{device}", "--rw=randread", "--bs=4k", "--direct=1",
        "--ioengine=io_uring",
        "--iodepth=32", "--norandommap", "--time_based", f"--runtime={seconds}",
        "--output-format=json",
    ]  # fmt: skip
    if offered is not None:
        argv.append(f"--rate_iops={offered}")
    before, begin = busy_s(), time.monotonic()
    said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    spent = (busy_s() - before) / (time.monotonic() - begin)
    read = json.loads(said)["jobs"][0]["read"]
    times = read["clat_ns"]["percentile"]
    return Seen(read["iops"], times["50.000000"], times["99.000000"], spent)


def traced(journal: Journal, device: str, place: Path, seconds: float, offered: int | None) -> Seen:
    """The same with a trace."""
    capture = Capture(journal, [traced_device(device)], place)
    capture.start()
    try:
        seen = load(device, seconds, offered)
        left = capture.finish()
    finally:
        capture.abandon()
    for file in left.files:
        (place / file).unlink()
    return Seen(
        seen.iops, seen.latency_ns_p50, seen.latency_ns_p99, seen.busy_s, left.events, left.lost
    )


def pairs(
    journal: Journal, device: str, place: Path, rounds: int, seconds: float, offered: int | None
) -> tuple[float, int]:
    """Print each pair; return the median share of the IOPS that the trace took, and events lost."""
    shares: list[float] = []
    lost = 0
    for number in range(rounds):
        folder = place / f"{offered}-{number}"
        # Which comes first changes: what drifts falls on both alike.
        if number % 2:
            plain = load(device, seconds, offered)
            with_trace = traced(journal, device, folder, seconds, offered)
        else:
            with_trace = traced(journal, device, folder, seconds, offered)
            plain = load(device, seconds, offered)
        shares.append(1 - with_trace.iops / plain.iops)
        lost += with_trace.lost
        print(
            f"  {plain.iops:9,.0f} IOPS, traced {with_trace.iops:9,.0f}: {-shares[-1]:+.1%}; p50 "
            f"{plain.latency_ns_p50 / 1e3:.0f} and "
            f"{with_trace.latency_ns_p50 / 1e3:.0f} us, p99 {plain.latency_ns_p99 / 1e3:.0f} and "
            f"{with_trace.latency_ns_p99 / 1e3:.0f} us; "
            f"CPUs busy {plain.busy_s:.2f} and {with_trace.busy_s:.2f}; {with_trace.events:,} "
            f"events, {with_trace.lost:,} lost",
            flush=True,
        )
    return statistics.median(shares), lost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--offered", type=int, default=100_000)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="headrace-trace-", dir="/dev/shm") as made,
        Journal.open("benchmarks/trace_overhead.py") as journal,
    ):
        place = Path(made)
        image = place / "image"
        with image.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 256 << 20)
        device = attach(journal, image).name
        load(device, 1.0, None)
        print(f"offered {given.offered:,} requests a second:")
        share, lost = pairs(journal, device, place, given.rounds, given.seconds, given.offered)
        print(
            f"IOPS that the trace took: {share:.1%} (goal: below {GOAL:.0%}); events lost: {lost}"
        )
        print("as fast as it goes:")
        fastest, _ = pairs(journal, device, place, given.rounds, given.seconds, None)
        print(f"IOPS that the trace took: {fastest:.1%}")
    sys.exit(0 if share < GOAL and lost == 0 else 1)


if __name__ == "__main__":
    main()
