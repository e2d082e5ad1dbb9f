"""A job of several processes that know what they do at each moment, until its input ends.

Arguments: a file to read, or `-`, then words like `4*read`, one for each group of processes:

    cpu      computes all the time
    burst    computes for 1 ms, every 20 ms, at the same moments as all of its group
    read     reads 4 KiB at random past the page cache, all the time
    work     computes for 2 ms, then reads four times
    turns    the same, one process of the group after the other, with 2 ms of sleep
    sleep    sleeps

At the end it prints JSON: of each process the spans in which it computed or read, as (what, begin,
end) by the monotonic clock, and its CPU time. Threads of Python would wait for its lock.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event, Lock

CHUNK = bytes(200_000)
PAGES = 4096
Span = tuple[str, float, float]


class Mixed:
    """A process, and what it did."""

    def __init__(self, kind: str, handle: int, size: int, lock: Lock) -> None:
        self.kind, self.handle, self.size, self.lock = kind, handle, size, lock
        self.spans: list[Span] = []
        self.page = mmap.mmap(-1, 4096)
        self.chosen = random.Random(os.getpid())
        self.scheduled = os.open("/proc/thread-self/schedstat", os.O_RDONLY)

    def run(self, ended: Event) -> None:
        parent = os.getppid()
        while not ended.is_set() and os.getppid() == parent:  # not when the test killed it
            getattr(self, self.kind)()

    def awake_s(self) -> float:
        """How long it has run or waited for a CPU."""
        return time.thread_time() + int(os.pread(self.scheduled, 96, 0).split()[1]) / 1e9

    def asleep(self, what: str, until: Callable[[], object]) -> None:
        """Note what it waits for, and that it is awake after that."""
        begin_s, awake_s = time.monotonic(), self.awake_s()
        until()
        end_s = time.monotonic()
        woken_s = max(begin_s, end_s - (self.awake_s() - awake_s))
        self.spans += [(what, begin_s, woken_s), ("compute", woken_s, end_s)]

    def compute(self, cpu_s: float) -> None:
        begin_s, until_s = time.monotonic(), time.thread_time() + cpu_s
        while time.thread_time() < until_s:
            hashlib.sha256(CHUNK)
        self.spans.append(("compute", begin_s, time.monotonic()))

    def cpu(self) -> None:
        self.compute(0.02)

    def burst(self) -> None:
        self.asleep("sleep", lambda: time.sleep(0.02 - time.monotonic() % 0.02))
        self.compute(0.001)

    def read(self) -> None:
        place = self.chosen.randrange(self.size // 4096) * 4096
        self.asleep("read", lambda: os.preadv(self.handle, [self.page], place))

    def work(self) -> None:
        self.compute(0.002)
        for _ in range(4):
            self.read()

    def turns(self) -> None:
        self.asleep("sleep", self.lock.acquire)
        self.work()
        self.asleep("sleep", lambda: time.sleep(0.002))
        self.lock.release()
        self.asleep("sleep", lambda: time.sleep(0.0001))  # another one has its turn

    def sleep(self) -> None:
        self.asleep("sleep", lambda: time.sleep(0.05))


def one(kind: str, handle: int, size: int, lock: Lock, ended: Event, told: Connection) -> None:
    mixed = Mixed(kind, handle, size, lock)
    mixed.run(ended)
    told.send({"cpu_s": time.process_time(), "spans": mixed.spans})


def main() -> None:
    path, groups = sys.argv[1], sys.argv[2:]
    handle = os.open(path, os.O_RDONLY | os.O_DIRECT) if path != "-" else -1
    size = os.lseek(handle, 0, os.SEEK_END) if handle >= 0 else 0
    fork = multiprocessing.get_context("fork")
    ended, pipes = fork.Event(), list[Connection]()
    for group in groups:
        number, kind = group.split("*")
        lock = fork.Lock()
        for _ in range(int(number)):
            here, there = fork.Pipe()
            pipes.append(here)
            fork.Process(
                target=one, args=(kind, handle, size, lock, ended, there), daemon=True
            ).start()
    print(flush=True)
    sys.stdin.read()
    ended.set()
    print(json.dumps([pipe.recv() for pipe in pipes]))


if __name__ == "__main__":
    main()
