"""Threads that run are told from those that wait for a CPU."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time

import pytest

from headrace.system.has_cpu import has_cpu


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other kernels show stacks of threads")
def test_of_programs_on_one_cpu_one_runs() -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if os.geteuid() or len(cpus) < 2:
        pytest.skip("needs root, and a CPU from which to look at another")
    argv = ["taskset", "-c", str(cpus[-1]), sys.executable, "-S", "-c", "while True: pass"]
    running = [subprocess.Popen(argv) for _ in range(3)]
    os.sched_setaffinity(0, {cpus[0]})
    try:
        seen, end_s = list[bool | None](), time.monotonic() + 60
        # Other programs may have this CPU for long, too.
        while seen.count(True) < 5 and time.monotonic() < end_s:
            time.sleep(0.01)
            seen += [has_cpu(process.pid) for process in running]
    finally:
        os.sched_setaffinity(0, cpus)
        for process in running:
            process.kill()
            process.wait()
    assert seen.count(True) >= 5
    # Between two looks another one may get the CPU.
    assert seen.count(False) > 1.5 * seen.count(True)


def test_of_a_thread_that_has_ended_nothing_is_known() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert has_cpu(process.pid) is None
