"""Jobs for test_ledger.py: each takes its own ledger and prints it as JSON.

Started as programs, one process each.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

from headrace.probes.ledger import LedgerMeter

SPIN = (
    "import time\nend = time.process_time() + {seconds}\nwhile time.process_time() < end: "
    "sum(range(1000))"
)


def spin(cpu_s: float) -> None:
    """Computes until the process has used this much more CPU time."""
    end = time.process_time() + cpu_s
    while time.process_time() < end:
        sum(range(1000))


def read_cached(path: str, wall_s: float) -> float:
    """Reads a cached file over and over, and computes on what it read.

    Seconds inside read calls.
    """
    inside, end = 0.0, time.monotonic() + wall_s
    handle = os.open(path, os.O_RDONLY)
    while time.monotonic() < end:
        for offset in range(0, os.fstat(handle).st_size, 1 << 16):
            before = time.monotonic()
            data = os.pread(handle, 1 << 16, offset)
            inside += time.monotonic() - before
            sum(data[::16])
    os.close(handle)
    return inside


def read_scattered(path: str, reads: int, size_bytes: int) -> float:
    """Reads 4 KiB pieces here and there; seconds inside read calls."""
    chosen, inside = random.Random(1), 0.0
    handle = os.open(path, os.O_RDONLY)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
    for _ in range(reads):
        before = time.monotonic()
        os.pread(handle, 4096, chosen.randrange(size_bytes // 4096) * 4096)
        inside += time.monotonic() - before
    os.close(handle)
    return inside


def read_direct(path: str, wall_s: float) -> float:
    """Reads 4 KiB pieces past the page cache, here and there, for so long.

    Seconds inside read calls.
    """
    chosen, inside, end = random.Random(os.getpid()), 0.0, time.monotonic() + wall_s
    handle = os.open(path, os.O_RDONLY | os.O_DIRECT)
    pieces, piece = os.fstat(handle).st_size // 4096, mmap.mmap(-1, 4096)
    while (before := time.monotonic()) < end:
        os.preadv(handle, [piece], chosen.randrange(pieces) * 4096)
        inside += time.monotonic() - before
    os.close(handle)
    return inside


def read_and_sleep(path: str, wall_s: float, sleep_s: float, cpu_s: float) -> float:
    """Computes, sleeps and reads 4 KiB past the page cache, in turn, for so long.

    Seconds asleep inside read calls: the truth that a ledger has to find.
    """
    chosen, asleep, end = random.Random(os.getpid()), 0.0, time.monotonic() + wall_s
    handle, piece = os.open(path, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 4096)
    pieces = os.lseek(handle, 0, os.SEEK_END) // 4096
    while time.monotonic() < end:
        spin(cpu_s)
        time.sleep(sleep_s)
        busy_s, before = _busy_s(), time.monotonic()
        os.preadv(handle, [piece], chosen.randrange(pieces) * 4096)
        asleep += max(0.0, time.monotonic() - before - (_busy_s() - busy_s))
    os.close(handle)
    return asleep


def _busy_s() -> float:
    """Time of this thread on CPUs and on run queues."""
    waited = Path("/proc/thread-self/schedstat").read_text().split()[1]
    return time.thread_time() + int(waited) / 1e9


def in_thread(work: object, *arguments: object) -> float:
    """Does it in a thread that has ended before the ledger is read; what it returned."""
    results: list[float] = []
    thread = threading.Thread(target=lambda: results.append(work(*arguments)))  # type: ignore[operator]
    thread.start()
    thread.join()
    return results[0]


def hash_and_sleep(cpu_s: float, sleep_s: float, busy_s: list[float]) -> None:
    """Computes without Python's lock until this thread has used so much CPU time, then sleeps.

    Adds the time that the thread was on CPUs and run queues.
    """
    end = time.thread_time() + cpu_s
    while time.thread_time() < end:
        hashlib.pbkdf2_hmac("sha256", b"key", b"salt", 2000)
    time.sleep(sleep_s)
    busy_s.append(_busy_s())


def main() -> None:
    kind, *arguments = sys.argv[1:]
    # Cgroups to work in, of version 1 (throttled) and 2 (pressure), joined before the meter looks
    # where it is.
    for variable in ("TEST_CGROUP", "TEST_PRESSURE_CGROUP"):
        if group := os.environ.get(variable):
            (Path(group) / "cgroup.procs").write_text(str(os.getpid()))
    given = os.environ.get("TEST_SAMPLED")  # 1: as since Linux 6.12, 0: as before
    meter = LedgerMeter(
        network="network" in kind,
        sampled=given == "1" if given else None,
        threads=int(os.environ["TEST_THREADS"]) if "TEST_THREADS" in os.environ else None,
    )
    meter.begin()
    inside, truth = 0.0, 0.0
    match kind:
        case "spin":
            spin(float(arguments[0]))
        case "sleep":
            time.sleep(float(arguments[0]))
        case "cached":
            inside = read_cached(arguments[0], float(arguments[1]))
        case "scattered" | "scattered-network":
            inside = read_scattered(arguments[0], int(arguments[1]), int(arguments[2]))
        case "direct":
            inside = read_direct(arguments[0], float(arguments[1]))
        case "mixed":
            truth = read_and_sleep(arguments[0], *map(float, arguments[1:4]))
        case "mixed-child":
            program = [sys.executable, __file__, "mixed", *arguments]
            truth = json.loads(subprocess.run(program, check=True, stdout=-1).stdout)["truth_s"]
        case "scattered-thread":
            inside = in_thread(read_scattered, arguments[0], int(arguments[1]), int(arguments[2]))
        case "threads":
            busy_s: list[float] = []
            rest = [*map(float, arguments), busy_s]
            both = [threading.Thread(target=hash_and_sleep, args=rest) for _ in range(2)]
            for thread in both:
                thread.start()
            for thread in both:
                thread.join()
            truth = sum(busy_s) / 2
        case "children":
            # A grandchild each: the shell does not replace itself, as it has something to do
            # afterwards.
            program = [sys.executable, "-c", SPIN.format(seconds=arguments[0])]
            shells = [
                subprocess.Popen(["sh", "-c", '"$@"; true', "sh", *program]) for _ in range(2)
            ]
            for shell in shells:
                shell.wait()
        case _:
            raise SystemExit(f"no job {kind}")
    print(json.dumps(meter.end(inside).as_row() | {"truth_s": truth}))


if __name__ == "__main__":
    main()
