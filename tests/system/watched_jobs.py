"""A job for test_watch.py that knows what it waits for, and keeps a log of it until it is killed.

Arguments: the log, a file to read or `-`, bytes of it, CPU seconds and seconds asleep per read, and
`direct` for reads past the page cache. A line of the log has sums since the begin, by the monotonic
clock. The truth of a wait is the time in reads, less what the thread ran or was runnable meanwhile.
`locked` (root) keeps its program in memory: dropped from the page cache, it would be read again.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import random
import sys
import time
from pathlib import Path

LOG_S = 0.02
MCL_CURRENT, MCL_FUTURE = 1, 2


def scheduled_s() -> tuple[float, float]:
    run, wait = Path("/proc/thread-self/schedstat").read_text().split()[:2]
    return int(run) / 1e9, int(wait) / 1e9


def spin(cpu_s: float) -> None:
    end = time.thread_time() + cpu_s
    while time.thread_time() < end:
        sum(range(500))


def main() -> None:
    log, path, size, cpu_s, sleep_s = sys.argv[1:6]
    if "locked" in sys.argv[6:]:
        locked = ctypes.CDLL(None, use_errno=True).mlockall(MCL_CURRENT | MCL_FUTURE) == 0
        assert locked, os.strerror(ctypes.get_errno())
    direct = os.O_DIRECT if "direct" in sys.argv[6:] else 0
    handle = os.open(path, os.O_RDONLY | direct) if path != "-" else -1
    if handle >= 0 and not direct:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    page = mmap.mmap(-1, 4096)
    chosen = random.Random(os.getpid())
    reads_s, again_s, reads, seen, told_s = 0.0, 0.0, 0, set[int](), 0.0
    with Path(log).open("w", buffering=1) as told:
        while True:
            spin(float(cpu_s))
            if float(sleep_s):
                time.sleep(float(sleep_s))
            if handle >= 0:
                number = chosen.randrange(int(size) // 4096)
                # In this order, and by the clock of the thread: schedstat is as old as the last
                # tick, and what reads it would count as part of the read.
                waited_s = scheduled_s()[1]
                ran_s, before_s = time.thread_time(), time.monotonic()
                os.preadv(handle, [page], number * 4096)
                after_s, ran_after_s = time.monotonic(), time.thread_time()
                ready_s = ran_after_s - ran_s + scheduled_s()[1] - waited_s
                asleep_s = max(0.0, after_s - before_s - ready_s)
                reads_s += asleep_s
                again_s += asleep_s if number in seen else 0.0
                reads += 1
                seen.add(number)
            if (now_s := time.monotonic()) > told_s + LOG_S:
                told_s = now_s
                run_s, wait_s = scheduled_s()
                sums = {"on_cpu": run_s, "wait_cpu": wait_s, "reads": reads_s, "again": again_s}
                told.write(json.dumps({"time_s": now_s, **sums, "bytes": 4096 * reads}) + "\n")


if __name__ == "__main__":
    main()
