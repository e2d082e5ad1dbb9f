"""Every process's CPU time is found, also of those that end while /proc is read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from headrace.system.process_scan import program_name, read_processes

# Sleepers stand in /proc between the parent and those that work and end, as other programs do:
# a scan takes long from one to the other.
PARENT = """
import os, time
for _ in range(200):
    if not os.fork():
        time.sleep(3600)
print(os.getpid(), flush=True)
while True:
    child = os.fork()
    if not child:
        until = time.process_time() + 0.05
        while time.process_time() < until:
            pass
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.fixture
def parent() -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_time_of_children_that_end_during_a_scan_is_not_lost(parent: int) -> None:
    highest_ns, scans = 0, 0
    until = time.monotonic() + 5.0
    while scans < 20 or time.monotonic() < until:  # a busy machine takes longer
        processes = read_processes().values()
        family = [each for each in processes if parent in (each.key[0], each.parent)]
        spent_ns = sum(each.all_ns for each in family)
        # A child that ends between its own turn and the next scan is rounded to clock ticks.
        assert spent_ns > highest_ns - 30_000_000, (scans, spent_ns, highest_ns)
        highest_ns = max(highest_ns, spent_ns)
        scans += 1
    assert highest_ns > 100_000_000


def test_what_a_terminal_would_obey_is_no_part_of_a_name() -> None:
    with subprocess.Popen(["sleep", "600"], executable=None) as process:
        try:
            assert program_name(process.pid, "a\x1b[31m\nb") in ("sleep", "a?[31m?b")
            assert program_name(2147483000, "a\x1b[31m\nb") == "a?[31m?b"
        finally:
            process.kill()
