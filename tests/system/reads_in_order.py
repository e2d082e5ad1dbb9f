"""A job for test_outline.py that reads a file in order, 64 KiB at once, and keeps a log of it.

Arguments as of watched_jobs.py: the log, the file, its bytes, CPU seconds and seconds asleep per
read. It begins with an empty page cache, and again at the end of the file.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

PIECE = 65536


def main() -> None:
    log, path, size, cpu_s, sleep_s = sys.argv[1:6]
    handle = os.open(path, os.O_RDONLY)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    done = 0
    with Path(log).open("w", buffering=1) as told:
        while True:
            end_s = time.thread_time() + float(cpu_s)
            while time.thread_time() < end_s:
                sum(range(500))
            time.sleep(float(sleep_s))
            done += len(os.pread(handle, PIECE, done % int(size)))
            told.write(json.dumps({"time_s": time.monotonic(), "bytes": done}) + "\n")


if __name__ == "__main__":
    main()
